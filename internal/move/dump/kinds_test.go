package dump

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestAlone cannot read the bucket when it looks for other runs.
func TestAlone(t *testing.T) {
	for calls := 1; calls < 3; calls++ {
		to := memory()
		if err := to.Put(t.Context(), partialName, &Manifest{Run: "x"}); err != nil {
			t.Fatal(err)
		}
		b := &BrokenBucket{Bucket: to.Bucket, At: calls, Stays: true}
		to.Bucket = b
		if err := (&Writer{o: Options{To: *to}, run: "x"}).alone(t.Context()); !errors.Is(err, ErrBroken) {
			t.Errorf("call %d: %v", calls, err)
		}
	}
}

// A posed source has a position, and fails to find the GTIDs for it.
type posed struct {
	*binlog.Direct
	err error
	sql []string
}

func (p *posed) Query(_ context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	if p.sql = append(p.sql, sql); p.err != nil {
		return p.err
	}
	return each(testrows.Row("0-1-5"))
}

type posedView struct {
	rowstream.View
	position string
}

func (v posedView) Position() string { return v.position }

// TestPositions records positions of each form, of servers that have GTIDs for them or not.
func TestPositions(t *testing.T) {
	lost := errors.New("lost")
	unseen := &mysqlconn.ServerError{Number: 1305}
	for _, tt := range []struct {
		position, version string
		err               error
		gtid              string
		asks              bool
		fails             string
	}{
		{"log.000001 7", "10.11.6-MariaDB", nil, "0-1-5", true, ""},
		{"log.000001 7", "10.11.6-MariaDB", unseen, "", true, ""},
		{"log.000001 7", "10.11.6-MariaDB", lost, "", true, "read the GTIDs of the position log.000001 7: lost"},
		{"log.000001 7", "8.4.0", nil, "", false, ""},
		{"log.000001 7 gtid=0-1-3", "10.11.6-MariaDB", nil, "0-1-3", false, ""},
		{"", "10.11.6-MariaDB", nil, "", false, ""},
		{"nothing", "10.11.6-MariaDB", nil, "", false, "position"},
	} {
		from := &posed{err: tt.err}
		w := &Writer{o: Options{From: from}, m: &Manifest{Version: tt.version}}
		err := w.readPosition(t.Context(), posedView{position: tt.position})
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		if err == nil && (w.m.GTID != tt.gtid || (w.m.Offset == 7) != (tt.position != "") || (w.m.File == "log.000001") != (tt.position != "")) || (len(from.sql) == 1) != tt.asks {
			t.Errorf("%+v: %+v, statements %q", tt, w.m.Position, from.sql)
		}
		if tt.asks && from.sql[0] != "SELECT BINLOG_GTID_POS(_binary'log.000001', 7)" {
			t.Errorf("%q", from.sql)
		}
	}
}

// TestPass passes batches of a dump on: all of them or the rows of a filter, if the throttle permits.
func TestPass(t *testing.T) {
	lost := errors.New("no time is left")
	batch := func() *rowstream.Batch { return testrows.BatchOf(testrows.Row("1", "a"), testrows.Row("2", "b")) }
	filter := func(id string) *rowstream.Filter {
		f, err := rowstream.NewFilter(&rowstream.Plan{Where: []rowstream.Condition{{Column: 0, Equal: []byte(id)}}, Output: []rowstream.Output{{Column: 1}}}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tt := range []struct {
		name   string
		filter *rowstream.Filter
		paused bool // the throttle does not permit more
		takes  bool // yield
		rows   string
		more   bool
		err    error
	}{
		{"all", nil, false, true, "[[1 a] [2 b]]", true, nil},
		{"all, and no more", nil, false, false, "[[1 a] [2 b]]", false, nil},
		{"some", filter("2"), false, true, "[[b]]", true, nil},
		{"some, and no more", filter("2"), false, false, "[[b]]", false, nil},
		{"none", filter("3"), false, false, "[]", true, nil},
		{"paused", nil, true, true, "[]", true, lost},
	} {
		var got [][]string
		count := int64(40)
		asked := 0
		throttle := tick.NewThrottle(tick.Process(), func() bool { asked++; return !tt.paused })
		ctx, cancel := context.WithCancelCause(t.Context())
		if tt.paused {
			cancel(lost)
		}
		r := &viewReader{}
		more, err := r.pass(ctx, batch(), tt.filter, &rowstream.ReadOptions{Count: &count, Throttle: throttle}, func(b *rowstream.Batch) bool {
			for _, row := range testrows.RowsOf(t, b) {
				var texts []string
				for _, v := range row {
					texts = append(texts, string(v))
				}
				got = append(got, texts)
			}
			return tt.takes
		})
		throttle.Close()
		cancel(nil)
		if fmt.Sprint(got) != tt.rows || more != tt.more || !errors.Is(err, tt.err) || err != nil && tt.err == nil || count != 42 || asked == 0 {
			t.Errorf("%s: %v, more %t, %v, %d counted", tt.name, got, more, err, count)
		}
	}
	broken := testrows.BatchOf(testrows.Row("1", "a"))
	broken.Bytes = broken.Bytes[:1]
	if _, err := new(viewReader).pass(t.Context(), broken, filter("1"), &rowstream.ReadOptions{}, func(*rowstream.Batch) bool { return true }); err == nil {
		t.Error("a row without its end is passed on")
	}
}

// TestResumed resumes a dump: chunks of tables that were altered are read again, and those of others are kept, with the number of the next.
func TestResumed(t *testing.T) {
	w := &Writer{m: &Manifest{Source: "s", Selection: "all"}}
	for _, name := range []string{"a", "b", "e"} {
		source := *testTable
		source.Name, source.Create = name, "CREATE TABLE "+name
		w.tables = append(w.tables, &tableRun{
			Table: &tabledef.Table{Source: &source, State: &tabledef.Recorded{}}, out: &Table{Schema: "f", Name: name, Create: File{SHA256: sumOf([]byte(source.Create))}},
		})
	}
	end, open := testrows.Row("5"), []*Chunk{{Upto: testrows.Row("5"), Done: true}, {After: testrows.Row("5"), Upto: testrows.Row("9")}}
	whole := []*Chunk{{Upto: end, Done: true}, {After: end, Done: true}}
	for _, tt := range []struct {
		name   string
		change func(m *Manifest)
		want   string // of each table: chunks, before, those to be written
		err    string
	}{
		{"as it was", func(*Manifest) {}, "2 1 2; 2 2 2; 0 0 0", ""},
		{"another definition", func(m *Manifest) { m.Tables[0].Create.SHA256 = "x" }, "0 0 0; 2 2 2; 0 0 0", ""},
		{"another shape", func(m *Manifest) { m.Tables[1].Shape.Columns = m.Tables[1].Shape.Columns[:1] }, "2 1 2; 0 0 0; 0 0 0", ""},
		{"a table less", func(m *Manifest) { m.Tables = m.Tables[:1] }, "2 1 2; 0 0 0; 0 0 0", ""},
		{"other rows", func(m *Manifest) { m.Selection = "x" }, "", "it was of other rows"},
		{"another source", func(m *Manifest) { m.Source = "x" }, "", "its rows came from x, not from "},
	} {
		before := &Manifest{ID: "before", Source: w.m.Source, Selection: w.m.Selection}
		for i, t := range w.tables {
			shape := *t.Source
			before.Tables = append(before.Tables, &Table{Schema: t.out.Schema, Name: t.out.Name, Create: t.out.Create, Shape: &shape, Chunks: [][]*Chunk{open, whole, nil}[i]})
			t.out.Chunks, t.before, t.State.Chunks = nil, 0, nil
		}
		w.m.ID = "now"
		tt.change(before)
		err := w.resume(before)
		if (err == nil) != (tt.err == "") || err != nil && (!strings.Contains(err.Error(), tt.err) || w.m.ID != "now") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		var got []string
		for _, t := range w.tables {
			got = append(got, fmt.Sprint(len(t.out.Chunks), t.before, len(t.State.Chunks)))
		}
		if text := strings.Join(got, "; "); text != tt.want || w.m.ID != "before" {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
}

// TestSelection describes what is dumped: a dump is resumed only with the same description.
func TestSelection(t *testing.T) {
	seen := make(map[string]string)
	plain, filtered, sharded := tabledef.Spec{Schema: "f", Name: "a"}, tabledef.Spec{Schema: "f", Name: "a", Where: "id > 1"}, tabledef.Spec{Schema: "f", Name: "a"}
	sharded.Shard.Count = 4
	listed := &inventory.Inventory{}
	for name, o := range map[string]Options{
		"nothing":               {Objects: listed},
		"a schema":              {Objects: listed, Selection: inventory.Selection{Schemas: []string{"f"}}},
		"another schema":        {Objects: listed, Selection: inventory.Selection{Schemas: []string{"g"}}},
		"tables":                {Objects: listed, Selection: inventory.Selection{Tables: []inventory.Pattern{{Schema: "f", Name: "a"}}}},
		"excluded tables":       {Objects: listed, Selection: inventory.Selection{Exclude: []inventory.Pattern{{Schema: "f", Name: "a"}}}},
		"no kinds":              {Objects: listed, Selection: inventory.Selection{Kinds: []inventory.Kind{}}},
		"views":                 {Objects: listed, Selection: inventory.Selection{Kinds: []inventory.Kind{inventory.View}}},
		"a condition":           {Objects: listed, Tables: []tabledef.Spec{filtered}},
		"a shard":               {Objects: listed, Tables: []tabledef.Spec{sharded}},
		"a source without list": {Tables: []tabledef.Spec{plain}},
	} {
		text := selectionText(&o)
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s: %s", name, other, text)
		}
		seen[text] = name
	}
	all := selectionText(&Options{Objects: listed, Tables: []tabledef.Spec{plain}})
	if seen[all] != "nothing" { // the selection names them
		t.Errorf("whole tables: %s", all)
	}
}

// TestSourceKinds has dumps of both servers, and one without objects.
func TestSourceKinds(t *testing.T) {
	for source, want := range map[string]dialect.Vendor{"mariadb x": dialect.MariaDB, "mysql x": dialect.MySQL, "": dialect.MySQL} {
		inv, err := (&Dump{m: &Manifest{Source: source, Objects: []*inventory.Object{{Kind: inventory.View, Schema: "f", Name: "v"}}}}).Inventory(&inventory.Selection{})
		if err != nil || inv.Source != want || len(inv.Objects) != 1 {
			t.Errorf("%q: %+v, %v", source, inv, err)
		}
		if inv, err := (&Dump{m: &Manifest{Source: source}}).Inventory(&inventory.Selection{}); err != nil || inv != nil {
			t.Errorf("%q, without objects: %+v, %v", source, inv, err)
		}
	}
}

// TestExpands bounds the bytes of a chunk's files: each byte of a value may be escaped, each value has an end, and so has NULL.
func TestExpands(t *testing.T) {
	for _, c := range []struct {
		bytes, rows int64
		columns     int
		want        int64
	}{{0, 0, 0, 4}, {10, 0, 0, 24}, {10, 2, 3, 20 + 3*4*4}} {
		r := &chunkReader{}
		if r.begin(&Chunk{Bytes: c.bytes, Rows: c.rows}, c.columns); r.left != c.want {
			t.Errorf("%+v: %d", c, r.left)
		}
	}
}
