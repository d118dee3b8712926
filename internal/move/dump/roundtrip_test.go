package dump_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// A source is a server with tables a, of several chunks and with generated columns, b, of one, and e, which is empty.
type source struct {
	t   *testing.T
	cfg mysqlconn.Config
	d   *binlog.Direct
	c   *mysqlconn.Client
}

func newSource(t *testing.T) *source {
	t.Helper()
	server := testmysql.Start(t, testmysql.WithBinlog())
	s := &source{t: t, cfg: testrows.Root(server), d: testrows.Direct(t, testrows.Root(server)), c: testrows.Connect(t, testrows.Root(server))}
	testrows.Exec(t, s.c, "CREATE DATABASE f", "USE f", "CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, c VARCHAR(200), d INT, s INT AS (d + 1) STORED, v INT AS (d + 2))",
		"INSERT INTO a (id, c, d) SELECT seq, IF(seq % 7 = 0, NULL, REPEAT(CONCAT('row ', seq), 10)), seq FROM seq_1_to_600", "CREATE TABLE b (id INT PRIMARY KEY, c TEXT)", "INSERT INTO b VALUES (1, 'one'), (2, '')",
		"CREATE TABLE e (id INT PRIMARY KEY)", "CREATE VIEW w AS SELECT 1", "ANALYZE TABLE a")
	return s
}

// An order is a dump to a destination.
type order struct {
	copier.Options
	From *binlog.Direct
	To   dump.Destination
}

// unclosed is a server that several dumps use.
type unclosed struct{ *binlog.Direct }

func (unclosed) Close() error { return nil }

// options returns the options with the source and the patience of the destination.
func (o order) options() copier.Options {
	o.Options.From = func(context.Context) (binlog.Follower, error) { return unclosed{o.From}, nil }
	o.Patience = cmp.Or(o.To.Patience, dump.DefaultPatience)
	return o.Options
}

func (o order) write(ctx context.Context) (*dump.Report, error) {
	return copier.Dump(ctx, o.options(), o.To)
}

// order dumps all tables to a destination.
func (s *source) order(to dump.Destination) order {
	o := order{From: s.d, To: to, Options: copier.Options{
		Tuning: throttle.Tuning{Workers: 2, ChunkBytes: 5000}, Verify: true, Observe: func(telemetry.Event) {}, Selection: inventory.Selection{Schemas: []string{"f"}},
	}}
	for _, name := range []string{"a", "b", "e"} {
		spec := tabledef.Spec{Schema: "f", Name: name}
		spec.Defaults()
		o.Tables = append(o.Tables, spec)
	}
	var err error
	if o.Objects, err = inventory.Read(s.t.Context(), s.d, &o.Selection); err != nil {
		s.t.Fatal(err)
	}
	return o
}

func memory() dump.Destination {
	return dump.Destination{Bucket: objstore.NewInMemBucket(), Name: "memory", Patience: time.Second}
}

// rowsOf returns the rows of a table in a source, chunk by chunk.
func rowsOf(t *testing.T, from rowstream.Server, name string, bytes int64, o rowstream.ReadOptions) (rows []string, chunks int) {
	t.Helper()
	table, err := from.Describe(t.Context(), "f", name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := from.Snapshot(t.Context(), 1, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	var c rowstream.Chunk
	for {
		if c, err = v.Reader(0).Cut(t.Context(), table, bytes, c); err != nil {
			t.Fatal(err)
		}
		for b, err := range v.Reader(0).Read(t.Context(), table, c, o) {
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range testrows.RowsOf(t, b) {
				rows = append(rows, fmt.Sprintf("%q", row))
			}
		}
		if chunks++; c.Upto == nil {
			return rows, chunks
		}
		c = rowstream.Chunk{Number: c.Number + 1, After: c.Upto}
	}
}

// same compares the rows of a dump with those of the server, and checks its manifest.
func (s *source) same(to dump.Destination) *dump.Dump {
	s.t.Helper()
	d, err := dump.Open(s.t.Context(), to)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "e"} {
		want, _ := rowsOf(s.t, s.d, name, 1<<20, rowstream.ReadOptions{})
		got, _ := rowsOf(s.t, d, name, 0, rowstream.ReadOptions{})
		if !slices.Equal(got, want) {
			s.t.Errorf("%s has %d rows, want %d: %.100q, want %.100q", name, len(got), len(want), got, want)
		}
	}
	return d
}

func local(t *testing.T) dump.Destination {
	t.Helper()
	dir := t.TempDir()
	b, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dump.Destination{Bucket: b, Name: "file://" + dir, Dir: dir, Patience: time.Second}
}

// TestWriteAndRead writes a dump, and reads what it has as a source of a copy.
func TestWriteAndRead(t *testing.T) {
	s := newSource(t)
	to := local(t)
	o := s.order(to)
	var events []telemetry.Event
	o.Workers, o.Observe = 1, func(e telemetry.Event) { events = append(events, e) }
	planned, err := copier.PlanDump(t.Context(), o.options(), to)
	if err != nil || len(planned) != 3 || planned[0].CopiedBefore != 0 || planned[0].Phase != "new" {
		t.Errorf("planned %v, %v", planned, err)
	}
	events = nil
	report, err := o.write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, b, e := report.Tables[0], report.Tables[1], report.Tables[2]
	if a.Source != "f.a" || a.Rows != 600 || a.Chunks < 5 || a.Before != 0 || a.Files < a.Chunks || a.Bytes < 40_000 || a.Size == 0 || a.Size >= a.Bytes ||
		b.Rows != 2 || b.Files != b.Chunks || e.Rows != 0 || e.Chunks != 1 || e.Files != 0 || e.Size != 0 {
		t.Errorf("%+v", report.Tables)
	}
	if report.Position == "" || report.Snapshot == "" || report.Manifest == "" || report.Throttle != nil {
		t.Errorf("%+v", report)
	}
	kinds := make(map[string]int)
	for _, e := range events {
		kinds[string(e.Kind)+" "+e.Table]++
		if e.Kind == telemetry.EventDone && e.Table == "f.a" && e.Rows != 600 {
			t.Errorf("%+v", e)
		}
	}
	for kind, want := range map[string]int{
		string(telemetry.EventSnapshot) + " ": 1, string(telemetry.EventTable) + " f.a": 1, string(telemetry.EventChunk) + " f.a": a.Chunks, string(telemetry.EventDone) + " f.a": 1, string(telemetry.EventDone) + " f.e": 1,
	} {
		if kinds[kind] != want {
			t.Errorf("%d events %s, want %d", kinds[kind], kind, want)
		}
	}
	d := s.same(to)
	m := d.Manifest()
	if m.Version == "" || d.ServerVersion() == "" || strings.Contains(d.ServerVersion(), "-") || m.GTID == "" || m.File == "" || m.Offset == 0 || m.Finished.IsZero() {
		t.Errorf("%+v", m)
	}
	id, err := d.Identity(t.Context())
	server, _ := s.d.Identity(t.Context())
	if err != nil || id != server+" dump "+m.ID || d.Addr() != to.Name {
		t.Errorf("the identity is %q", id)
	}
	if _, err := os.Stat(filepath.Join(to.Dir, dump.PartialName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the manifest of the unfinished dump: %v", err)
	}
	inv, err := d.Inventory(&inventory.Selection{})
	if err != nil || inv == nil || !slices.ContainsFunc(inv.Objects, func(x *inventory.Object) bool { return x.Name == "w" }) {
		t.Errorf("the objects are %v, %v", inv, err)
	}
	if _, err := o.write(t.Context()); err == nil || !strings.Contains(err.Error(), "was finished at") {
		t.Errorf("a second dump: %v", err)
	}

	table, err := d.Describe(t.Context(), "f", "a")
	if err != nil {
		t.Fatal(err)
	}
	of, err := s.d.Describe(t.Context(), "f", "a")
	if err != nil || table.Create != of.Create || !slices.Equal(table.Columns, of.Columns) {
		t.Errorf("the table is %s, was %s, %v", table.Create, of.Create, err)
	}
	if _, err := d.Describe(t.Context(), "f", "none"); err == nil {
		t.Error("described a table that is not in the dump")
	}
	v, err := d.Snapshot(t.Context(), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if v.Position() != report.Position || v.Identity() != id || !strings.Contains(v.How(), to.Name) {
		t.Errorf("the view is of %s, %s, %s", v.Position(), v.Identity(), v.How())
	}
	r := v.Reader(1)
	first, err := r.Cut(t.Context(), table, 0, rowstream.Chunk{})
	if err != nil {
		t.Fatal(err)
	}
	live, err := s.d.Snapshot(t.Context(), 1, []*rowstream.Table{of})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	for _, columns := range [][]int{{0, 1, 2}, {0, 1, 2, 3, 4}, {3, 0}, {1, 0}} { // the last one is not in the manifest
		want, err := rowstream.SumChunk(t.Context(), live.Reader(0), of, first, rowstream.SumOptions{Columns: columns})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.SumChunk(t.Context(), table, first, rowstream.SumOptions{Columns: columns})
		if columns[len(columns)-1] < 3 && (err != nil || got != want) || columns[len(columns)-1] >= 3 && err != nil || got != want {
			t.Errorf("columns %v: %v, %v, want %v", columns, got, err, want)
		}
	}
	half := &rowstream.Plan{Output: []rowstream.Output{{Column: 2}, {Column: 0}}}
	var count int64
	rows, _ := rowsOf(t, d, "a", 0, rowstream.ReadOptions{Plan: half, Count: &count, BatchBytes: 1000})
	if len(rows) != 600 || rows[599] != `["600" "600"]` || count != 600 {
		t.Errorf("%d rows of the plan, %d read: %q", len(rows), count, rows[0])
	}
	for what, read := range map[string]func() error{
		"a condition": func() error {
			return readErr(r.Read(t.Context(), table, first, rowstream.ReadOptions{Where: "id > 1"}))
		},
		"other bounds": func() error {
			return readErr(r.Read(t.Context(), table, rowstream.Chunk{Number: 0, Upto: testrows.Row("5")}, rowstream.ReadOptions{}))
		},
		"a chunk too many": func() error {
			return readErr(r.Read(t.Context(), table, rowstream.Chunk{Number: a.Chunks}, rowstream.ReadOptions{}))
		},
		"another table": func() error {
			return readErr(r.Read(t.Context(), &rowstream.Table{Schema: "f", Name: "x"}, first, rowstream.ReadOptions{}))
		},
		"a cut after another key": func() error {
			_, err := r.Cut(t.Context(), table, 0, rowstream.Chunk{Number: 1, After: testrows.Row("x")})
			return err
		},
		"a sum over other bounds": func() error {
			_, err := r.SumChunk(t.Context(), table, rowstream.Chunk{Number: 1}, rowstream.SumOptions{Columns: []int{0}})
			return err
		},
		"the last key": func() error { _, err := r.LastKey(t.Context(), table); return err },
	} {
		if err := read(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	stopped := 0
	for range r.Read(t.Context(), table, first, rowstream.ReadOptions{BatchBytes: 100}) {
		stopped++
		break
	}
	if stopped != 1 {
		t.Error("a reader that stops")
	}
	ctx := t.Context()
	for what, log := range map[string]func() error{
		"ShortView":       func() error { _, err := d.ShortView(ctx, "", nil, 0); return err },
		"CheckFollow":     func() error { return d.CheckFollow(ctx, nil, binlog.Position{}) },
		"Follow":          func() error { _, err := d.Follow(ctx, binlog.FollowOptions{}); return err },
		"CurrentPosition": func() error { _, err := d.CurrentPosition(ctx); return err },
		"GTIDPosition":    func() error { _, err := d.GTIDPosition(ctx); return err },
		"LogBytes":        func() error { _, err := d.LogBytes(ctx, binlog.Position{}, binlog.Position{}); return err },
		"Layout":          func() error { _, err := d.Layout(ctx, nil); return err },
		"SchemaChanges": func() error {
			_, err := d.SchemaChanges(ctx, nil, binlog.Position{}, binlog.Position{})
			return err
		},
		"WriteHeartbeat":  func() error { return d.WriteHeartbeat(ctx, binlog.Heartbeat{}) },
		"CheckHeartbeat":  func() error { return d.CheckHeartbeat(ctx, binlog.Heartbeat{}) },
		"DeleteHeartbeat": func() error { return d.DeleteHeartbeat(ctx, binlog.Heartbeat{}) },
	} {
		if err := log(); !errors.Is(err, dump.ErrNoLog) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// readErr returns the error of a read.
func readErr(rows func(func(*rowstream.Batch, error) bool)) (err error) {
	rows(func(_ *rowstream.Batch, e error) bool { err = e; return e == nil })
	return err
}

// interrupt writes a dump until some chunks are written.
func (s *source) interrupt(o order, chunks int64) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var seen atomic.Int64
	o.Workers, o.Observe = 1, func(e telemetry.Event) {
		if e.Kind == telemetry.EventChunk && seen.Add(1) == chunks {
			cancel()
		}
	}
	if _, err := o.write(ctx); !errors.Is(err, context.Canceled) {
		s.t.Fatalf("got %v", err)
	}
}

// TestResume resumes dumps whose rows, tables, options and directories have changed.
func TestResume(t *testing.T) {
	s := newSource(t)
	s.run("rows have changed", func(t *testing.T, to dump.Destination) {
		s.interrupt(s.order(to), 5)
		if _, err := dump.Open(t.Context(), to); !errors.Is(err, dump.ErrUnfinished) {
			t.Errorf("opened: %v", err)
		}
		planned, err := copier.PlanDump(t.Context(), s.order(to).options(), to)
		if err != nil || planned[0].CopiedBefore != 5 || planned[0].Phase != "copying" {
			t.Errorf("planned %+v, %v", planned, err)
		}
		testrows.Exec(t, s.c, "UPDATE a SET c = 'changed' WHERE id = 3")
		var table telemetry.Event
		o := s.order(to)
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventTable && e.Table == "f.a" {
				table = e
			}
		}
		report, err := o.write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a := report.Tables[0]; a.Before != 4 || a.Rows != 600 || table.Chunks != 5 {
			t.Errorf("%+v, %+v", a, table)
		}
		s.same(to)
	})
	s.run("another run's files are deleted", func(t *testing.T, to dump.Destination) {
		s.interrupt(s.order(to), 2)
		other := filepath.Join(to.Dir, "tables", "f.a", "00000000-other.zst")
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.order(to).write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is left: %v", err)
		}
		s.same(to)
	})
	s.run("a table was altered", func(t *testing.T, to dump.Destination) {
		s.interrupt(s.order(to), 5)
		testrows.Exec(t, s.c, "ALTER TABLE a ADD x INT FIRST")
		defer testrows.Exec(t, s.c, "ALTER TABLE a DROP x")
		report, err := s.order(to).write(t.Context())
		if err != nil || report.Tables[0].Before != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		s.same(to)
	})
	s.run("an object is created meanwhile", func(t *testing.T, to dump.Destination) {
		o := s.order(to)
		testrows.Exec(t, s.c, "CREATE VIEW later AS SELECT 2")
		defer testrows.Exec(t, s.c, "DROP VIEW later")
		if _, err := o.write(t.Context()); err == nil || !strings.Contains(err.Error(), "objects have changed") {
			t.Errorf("got %v", err)
		}
	})
	s.run("refused", func(t *testing.T, to dump.Destination) {
		s.interrupt(s.order(to), 1)
		other := s.order(to)
		other.Tables[0].Where = "id > 5"
		if _, err := other.write(t.Context()); err == nil || !strings.Contains(err.Error(), "it was of other rows") {
			t.Errorf("other rows: %v", err)
		}
		other.Restart = true
		report, err := other.write(t.Context())
		if err != nil || report.Tables[0].Rows != 595 {
			t.Errorf("restarted: %+v, %v", report, err)
		}
	})
	for what, damage := range map[string]string{"": "there is a", "manifest.json": "choose another directory, or delete it", "manifest.partial.json": "option restart discards it"} {
		s.run("in the way: "+what, func(t *testing.T, to dump.Destination) {
			name := what
			if name == "" {
				name = "a"
			}
			if err := os.WriteFile(filepath.Join(to.Dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.order(to).write(t.Context()); err == nil || !strings.Contains(err.Error(), damage) {
				t.Errorf("got %v", err)
			}
			if _, err := dump.Open(t.Context(), to); err == nil {
				t.Error("opened")
			}
			o := s.order(to)
			o.Restart = true
			if _, err := o.write(t.Context()); (err == nil) != (name == "manifest.partial.json") {
				t.Errorf("restarted: %v", err)
			}
		})
	}
}

func (s *source) run(name string, f func(t *testing.T, to dump.Destination)) {
	s.t.Run(name, func(t *testing.T) { f(t, local(t)) })
}

// TestWriteFaults has the server fail at each statement of a dump, and the bucket at each call, from then on: the dump fails with the cause,
// and a repeated one completes it.
func TestWriteFaults(t *testing.T) {
	s := newSource(t)
	testrows.Exec(t, s.c, "DELETE FROM a WHERE id > 10")
	t.Run("server", func(t *testing.T) {
		proxy := testproxy.StartFaulty(t, s.cfg.Addr)
		cfg := s.cfg
		cfg.Addr, cfg.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
		through := testrows.Direct(t, cfg)
		objects := s.order(memory()).Objects
		proxy.EachFails(t, func() error {
			o := s.order(memory())
			o.From, o.Workers, o.Objects, o.Tables = through, 1, objects, o.Tables[:1]
			_, err := o.write(t.Context())
			return err
		}, "SELECT VERSION(), CONNECTION_ID(),", "SELECT `id` FROM `f`.`a` FORCE INDEX (`PRIMARY`) ORDER BY `id` DESC LIMIT 1") // of an estimate
	})
	t.Run("bucket", func(t *testing.T) {
		for at := 1; ; at++ {
			b := &dump.BrokenBucket{Bucket: objstore.NewInMemBucket(), At: at, Stays: true}
			o := s.order(dump.Destination{Bucket: b, Name: "broken"})
			o.Workers = 1
			_, err := o.write(t.Context())
			if b.Calls < at {
				if err != nil {
					t.Errorf("without a fault: %v", err)
				}
				t.Logf("%d calls", b.Calls)
				break
			}
			if !errors.Is(err, dump.ErrBroken) {
				t.Errorf("call %d fails: %v", at, err)
			}
			b.At, b.Stays = 0, false
			if _, err := o.write(t.Context()); err != nil && !strings.Contains(err.Error(), "was finished") {
				t.Errorf("call %d fails, repeated: %v", at, err)
			}
			s.same(o.To)
		}
	})
	// The process is killed at each call: of a file that it writes there is a half.
	t.Run("directory", func(t *testing.T) {
		for at := 1; ; at++ {
			to := local(t)
			b := &dump.BrokenBucket{Bucket: to.Bucket, At: at, Stays: true, Half: true}
			to.Bucket, to.Patience = b, dump.DefaultPatience
			o := s.order(to)
			o.Workers = 1
			_, err := o.write(t.Context())
			if b.Calls < at {
				if err != nil {
					t.Errorf("without a fault: %v", err)
				}
				break
			}
			b.At, b.Stays = 0, false
			if _, err := o.write(t.Context()); err != nil && !strings.Contains(err.Error(), "was finished") {
				t.Errorf("call %d fails, repeated: %v", at, err)
			}
			s.same(to)
			if left, err := filepath.Glob(filepath.Join(to.Dir, "*"+dump.NewSuffix)); err != nil || len(left) > 0 {
				t.Errorf("call %d fails: %v are left, %v", at, left, err)
			}
		}
	})
}
