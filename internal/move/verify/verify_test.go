package verify

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestReportAdd adds chunks with many mismatches: all are counted, and at most maxMismatches rows and chunks are named.
func TestReportAdd(t *testing.T) {
	chunk := func(rows int) *ChunkMismatch { return &ChunkMismatch{Rows: make([]RowMismatch, rows)} }
	one, other := rowstream.Checksum{Rows: 1}, rowstream.Checksum{Rows: 2}
	named := func(r *Report) (n int) {
		for i := range r.Different {
			n += len(r.Different[i].Rows)
		}
		return n
	}
	var r Report
	r.add(chunk(0), &Report{}, one, one)
	if r.Rows != 1 || len(r.Different) != 0 || r.Truncated {
		t.Errorf("an equal chunk: %+v", r)
	}
	r.add(chunk(3), &Report{Missing: 1, Extra: 1, Changed: 1}, one, other)
	if r.Mismatches() != 3 || named(&r) != 3 || r.Truncated {
		t.Errorf("a chunk with three: %+v", r)
	}
	r.add(chunk(maxMismatches-3), &Report{Missing: maxMismatches - 3}, one, other)
	if named(&r) != maxMismatches || r.Truncated {
		t.Errorf("the most that are named: %d, truncated %v", named(&r), r.Truncated)
	}
	r.add(chunk(1), &Report{Changed: 1}, one, other)
	if r.Mismatches() != maxMismatches+1 || named(&r) != maxMismatches || !r.Truncated {
		t.Errorf("one more: %d are named, truncated %v", named(&r), r.Truncated)
	}
	r = Report{}
	r.add(chunk(1), &Report{Changed: 2}, one, other)
	if !r.Truncated {
		t.Error("a chunk that names one of two rows is not truncated")
	}
	r = Report{}
	for range maxMismatches {
		r.add(chunk(0), &Report{}, one, other)
	}
	if r.Truncated || len(r.Different) != maxMismatches {
		t.Errorf("%d chunks, truncated %v", len(r.Different), r.Truncated)
	}
	if r.add(chunk(0), &Report{}, one, other); !r.Truncated || len(r.Different) != maxMismatches {
		t.Errorf("one more: %d chunks, truncated %v", len(r.Different), r.Truncated)
	}
}

// TestPartRows has parts of as many rows as the largest chunk, or as the bytes of a chunk yield where a filter hides how many were read.
func TestPartRows(t *testing.T) {
	source := &rowstream.Table{Columns: []rowstream.Column{{Name: "id", Type: "int"}}}
	const bytes = 1 << 20
	byBytes := max(new(tabledef.Sizing).Next(source, 0, bytes), bytes/source.RowBytes())
	chunks := func(rows ...int64) *tabledef.Recorded {
		r := &tabledef.Recorded{}
		for _, n := range rows {
			r.Chunks = append(r.Chunks, tabledef.RecordedChunk{Rows: n})
		}
		return r
	}
	if byBytes < 10 {
		t.Fatalf("%d rows in %d bytes", byBytes, bytes)
	}
	for _, tt := range []struct {
		name  string
		table tabledef.Table
		now   *tabledef.Recorded
		want  int64
	}{
		{"the largest", tabledef.Table{Spec: &tabledef.Spec{}}, chunks(3, 7, 5), 7},
		{"one row", tabledef.Table{Spec: &tabledef.Spec{}}, chunks(1), 1},
		{"none", tabledef.Table{Spec: &tabledef.Spec{}}, chunks(0, 0), byBytes},
		{"a condition", tabledef.Table{Spec: &tabledef.Spec{Where: "id > 1"}}, chunks(3), byBytes},
		{"a plan", tabledef.Table{Spec: &tabledef.Spec{}, Plan: &rowstream.Plan{}}, chunks(3), byBytes},
		{"a condition, and larger", tabledef.Table{Spec: &tabledef.Spec{Where: "id > 1"}}, chunks(2 * byBytes), 2 * byBytes},
	} {
		tt.table.Source = source
		if got := partRows(&tt.table, tt.now, bytes); got != tt.want {
			t.Errorf("%s: %d rows, want %d", tt.name, got, tt.want)
		}
	}
}

// A restless source has another row for a key in each view, or in the one whose number is old.
type restless struct {
	binlog.Follower
	key   string
	views uint64
	old   uint64 // 0: each
}

func (r *restless) ShortView(ctx context.Context, identity string, t *rowstream.Table, limit time.Duration) (rowstream.View, error) {
	v, err := r.Follower.ShortView(ctx, identity, t, limit)
	r.views++
	return restlessView{v, r}, err
}

type restlessView struct {
	rowstream.View
	of *restless
}

func (v restlessView) Reader(worker int) rowstream.ViewReader {
	return restlessReader{v.View.Reader(worker), v.of}
}

type restlessReader struct {
	rowstream.ViewReader
	of *restless
}

func (r restlessReader) SumRows(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) iter.Seq2[rowstream.RowSum, error] {
	return func(yield func(rowstream.RowSum, error) bool) {
		for row, err := range r.ViewReader.SumRows(ctx, t, c, o) {
			if err == nil && string(row.Key[0]) == r.of.key && (r.of.old == 0 || r.of.old == r.of.views) {
				row.Sum ^= r.of.views
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func (r restlessReader) SumChunk(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) (sum rowstream.Checksum, err error) {
	for row, err := range r.SumRows(ctx, t, c, o) {
		if err != nil {
			return sum, err
		}
		sum.Rows++
		sum.Sum ^= row.Sum
	}
	return sum, nil
}

// TestChanging compares a row that is another one in each view of the source: it is no mismatch, its chunk is undecided, and the row is kept, to be
// compared when both sides are still.
func TestChanging(t *testing.T) {
	c := newCopied(t)
	c.follow()
	for _, tt := range []struct {
		key  string // of the table b, whose chunks have 12 rows
		only int    // the chunk that is compared
		want int    // rows that are kept
	}{{"1", 0, 1}, {"12", 0, 1}, {"60", 4, 1}, {"13", 0, 0}} {
		o := c.options(c.direct, 1)
		o.Source, o.View = &restless{Follower: testrows.Direct(t, c.direct), key: tt.key}, noView{}
		o.Only = [][]bool{make([]bool, 5), make([]bool, 5)}
		o.Only[1][tt.only] = true
		reports, changing, err := NewFollowing(o, c.follower).Pass(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, complete := changing.Rows()
		if r := reports[1]; n != tt.want || !complete || r.Mismatches() != 0 || r.Undecided != tt.want || r.Chunks != 1 {
			t.Errorf("key %s: %d rows are kept, all %v, report %+v", tt.key, n, complete, r)
		}
		if err := changing.Compare(t.Context(), c.holder, c.holder); err != nil {
			t.Errorf("key %s: %v", tt.key, err)
		}
		if reports[1].Undecided != 0 {
			t.Errorf("key %s: %d chunks are undecided when its row was compared", tt.key, reports[1].Undecided)
		}
	}
	for _, name := range []string{fmt.Sprint(maxChanging), "more"} { // rows that are kept, and those that are not
		changing := Changing{keys: []map[string]bool{{}}}
		found := &ChunkMismatch{}
		for i := range maxChanging {
			found.Rows = append(found.Rows, RowMismatch{encoded: fmt.Sprint(i)})
		}
		counts := &Report{Changed: maxChanging}
		if name == "more" {
			counts.Changed++
		}
		changing.keep(0, found, counts)
		if n, complete := changing.Rows(); n != maxChanging || complete != (name != "more") {
			t.Errorf("%s: %d rows, all %v", name, n, complete)
		}
	}
}
