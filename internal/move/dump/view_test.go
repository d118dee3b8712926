package dump

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/rowstream"
)

// written returns a dump in memory with the rows of testBatch in two chunks.
func written(t *testing.T) (*Dump, *view) {
	t.Helper()
	to := memory()
	w, err := newChunkWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	m := testManifest()
	table := m.Tables[0]
	shape := *testTable
	shape.Schema, shape.Name, shape.Key = "shop", "orders", []int{0}
	table.Shape = &shape
	end := testrows.Row("19")
	table.Chunks = []*Chunk{{Upto: end, Done: true}, {After: end, Done: true}}
	for i, k := range table.Chunks {
		b := testBatch(20)
		w.begin(func(part int) string { return fmt.Sprint("chunk", i, "-", part) })
		if err := w.write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if k.Files, err = w.end(t.Context()); err != nil {
			t.Fatal(err)
		}
		k.Rows, k.Bytes = 20, int64(len(b.Bytes))
	}
	d := &Dump{from: *to, m: m}
	v, err := d.Snapshot(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return d, v.(*view)
}

// TestViewSums sums up rows of a dump: by the manifest where it has the sum over the same rows and columns, and otherwise by the rows.
func TestViewSums(t *testing.T) {
	d, v := written(t)
	table := d.m.Tables[0].Shape
	chunk := rowstream.Chunk{Upto: d.m.Tables[0].Chunks[0].Upto}
	plan := &rowstream.Plan{Where: []rowstream.Condition{{Column: 0, Equal: []byte("7")}}}
	sum := func(o rowstream.SumOptions) rowstream.Checksum {
		t.Helper()
		s, err := v.Reader(0).SumChunk(t.Context(), table, chunk, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	all, first, one := sum(rowstream.SumOptions{Columns: []int{0, 1}}), sum(rowstream.SumOptions{Columns: []int{0}}), sum(rowstream.SumOptions{Columns: []int{0, 1}, Plan: plan})
	if all.Rows != 20 || first.Rows != 20 || one.Rows != 1 || all.Sum == first.Sum || all.Sum == one.Sum {
		t.Errorf("by the rows: %v, %v, %v", all, first, one)
	}
	k := d.m.Tables[0].Chunks[0]
	k.Sum, k.Sums = rowSum(5), []ColumnSum{{Columns: []int{0}, Sum: rowSum(6)}}
	for _, tt := range []struct {
		o    rowstream.SumOptions
		want rowstream.Checksum
	}{
		{rowstream.SumOptions{Columns: []int{0, 1}}, rowstream.Checksum{Rows: 20, Sum: 5}},
		{rowstream.SumOptions{Columns: []int{0}}, rowstream.Checksum{Rows: 20, Sum: 6}},
		{rowstream.SumOptions{Columns: []int{0, 1}, Plan: plan}, one},
		{rowstream.SumOptions{Columns: []int{1}}, sum(rowstream.SumOptions{Columns: []int{1}})},
	} {
		if got := sum(tt.o); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.o, got, tt.want)
		}
	}
	for _, o := range []rowstream.SumOptions{{Columns: []int{0, 1}, Where: "id = 1"}, {Columns: []int{1}, Where: "id = 1"}} {
		if _, err := v.Reader(0).SumChunk(t.Context(), table, chunk, o); err == nil || !strings.Contains(err.Error(), "conditions in SQL apply when a dump is written") {
			t.Errorf("a condition: %v", err)
		}
	}
	if k.Sum = "x"; true {
		if _, err := v.Reader(0).SumChunk(t.Context(), table, chunk, rowstream.SumOptions{Columns: []int{0, 1}}); err == nil {
			t.Error("a sum that is no number")
		}
	}
}

// TestViewReads reads chunks of a dump whose manifest, files or plans are wrong.
func TestViewReads(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(d *Dump)
		plan   *rowstream.Plan
		want   string
	}{
		"as it was":      {func(*Dump) {}, nil, ""},
		"a row more":     {func(d *Dump) { d.m.Tables[0].Chunks[0].Rows++ }, nil, "its files have 20 rows, and the manifest 21"},
		"a row less":     {func(d *Dump) { d.m.Tables[0].Chunks[0].Rows-- }, nil, "its files have 20 rows, and the manifest 19"},
		"a file less":    {func(d *Dump) { d.m.Tables[0].Chunks[0].Files = nil }, nil, "its files have 0 rows"},
		"a missing file": {func(d *Dump) { d.m.Tables[0].Chunks[0].Files[0].Name = "none" }, nil, "none"},
		"another sum":    {func(d *Dump) { d.m.Tables[0].Chunks[0].Files[0].SHA256 = "00" }, nil, "damaged"},
		"fewer bytes":    {func(d *Dump) { d.m.Tables[0].Chunks[0].Bytes, d.m.Tables[0].Chunks[0].Rows = 1, 1 }, nil, errTooLong.Error()},
		"a wrong plan":   {func(*Dump) {}, &rowstream.Plan{Output: []rowstream.Output{{Column: 9}}}, "column"},
	} {
		d, v := written(t)
		tt.change(d)
		rows := 0
		var failed error
		for b, err := range v.Reader(0).Read(t.Context(), d.m.Tables[0].Shape, rowstream.Chunk{Upto: d.m.Tables[0].Chunks[0].Upto}, rowstream.ReadOptions{Plan: tt.plan}) {
			if failed = err; err == nil {
				rows += b.Rows
			}
		}
		if (failed == nil) != (tt.want == "") || failed != nil && (!strings.Contains(failed.Error(), tt.want) || !strings.HasPrefix(failed.Error(), "read chunk 0 of shop.orders: ")) {
			t.Errorf("%s: %d rows, %v", name, rows, failed)
		}
	}
	d, v := written(t)
	table := d.m.Tables[0].Shape
	for i, want := range []rowstream.Chunk{{Upto: testrows.Row("19")}, {Number: 1, After: testrows.Row("19")}} {
		from := rowstream.Chunk{Number: i, After: want.After}
		if got, err := v.Reader(0).Cut(t.Context(), table, 1, from); err != nil || got.Number != i || !sameKey(got.After, want.After) || !sameKey(got.Upto, want.Upto) {
			t.Errorf("chunk %d: %+v, %v", i, got, err)
		}
	}
}

// TestOpens opens dumps that are finished, unfinished, damaged or missing.
func TestOpens(t *testing.T) {
	finished, unfinished := testManifest(), testManifest()
	unfinished.Tables[0].Chunks[1].Done = false
	short := testManifest()
	short.Tables[0].Chunks = short.Tables[0].Chunks[:1]
	damaged := []byte("{")
	text := func(m *Manifest) []byte {
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tt := range []struct {
		name          string
		done, partial []byte // nil: there is none
		is            error
		want          string
	}{
		{"finished", text(finished), nil, nil, ""},
		{"finished, beside an older run", text(finished), text(unfinished), nil, ""},
		{"nothing", nil, nil, nil, "there is no manifest.json: is it the directory"},
		{"unfinished", nil, text(unfinished), ErrUnfinished, "repeat the command that writes it, which resumes it"},
		{"unfinished and damaged", nil, damaged, ErrUnfinished, "with option restart"},
		{"damaged", damaged, nil, ErrDamaged, "open the dump: "},
		{"damaged, and unfinished", damaged, text(unfinished), ErrUnfinished, "which resumes it"},
		{"both damaged", damaged, damaged, ErrDamaged, "open the dump: "},
		{"a chunk is missing", text(unfinished), nil, ErrDamaged, "chunk 1 is missing"},
		{"the last rows are missing", text(short), nil, ErrDamaged, "its last rows are missing after 1 chunks"},
	} {
		to := memory()
		for name, text := range map[string][]byte{manifestName: tt.done, partialName: tt.partial} {
			if text != nil {
				if _, err := to.put(t.Context(), name, text); err != nil {
					t.Fatal(err)
				}
			}
		}
		d, err := Open(t.Context(), *to)
		if (d != nil) != (tt.name[:4] == "fini") || (err == nil) != (d != nil) || err != nil && (!strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is)) {
			t.Errorf("%s: %v, %v", tt.name, d, err)
		}
	}
}

// TestReport adds up what was dumped.
func TestReport(t *testing.T) {
	file := func(size int64) File { return File{Size: size} }
	w := &Writer{m: &Manifest{Snapshot: "how", Position: Position{File: "log", Offset: 4}}}
	for _, one := range []struct {
		name   string
		before int
		chunks []*Chunk
	}{
		{"a", 1, []*Chunk{{Rows: 2, Bytes: 30, Files: []File{file(7)}}, {Rows: 3, Bytes: 40, Files: []File{file(8), file(9)}}}}, {"b", 0, []*Chunk{{Files: []File{}}}}, {"c", 0, nil},
	} {
		w.tables = append(w.tables, &tableRun{Table: &tabledef.Table{Spec: &tabledef.Spec{Schema: "s", Name: one.name}}, out: &Table{Chunks: one.chunks}, before: one.before})
	}
	r := w.report("sum")
	want := []TableReport{{Source: "s.a", Rows: 5, Chunks: 2, Before: 1, Bytes: 70, Files: 3, Size: 24}, {Source: "s.b", Chunks: 1}, {Source: "s.c"}}
	if !slices.Equal(r.Tables, want) || r.Snapshot != "how" || r.Position != "log 4" || r.Manifest != "sum" || r.Throttle != nil || len(r.NotCopied) != 0 || r.NotCopied == nil {
		t.Errorf("%+v", r)
	}
	w.o.Objects = &inventory.Inventory{Objects: []*inventory.Object{{Kind: inventory.Table, Schema: "s", Name: "x", Fate: inventory.LeftOut}, {Kind: inventory.Table, Schema: "s", Name: "y", Fate: inventory.Copied}}}
	if r = w.report("sum"); len(r.NotCopied) != 1 || fmt.Sprint(r.NotCopied[0].Names) != "[x]" {
		t.Errorf("%+v", r.NotCopied)
	}
}
