package localdb_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testwait"
)

func openHead(t *testing.T, dir string) *tsdb.DB {
	t.Helper()
	db, err := localdb.OpenHead(dir, slog.New(slog.DiscardHandler), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeDB(t *testing.T, db *tsdb.DB) {
	t.Helper()
	if err := localdb.CloseDB(db); err != nil {
		t.Error(err)
	}
}

// A floatSample is a sample of 1 at a time.
type floatSample struct{ at int64 }

func (s floatSample) T() int64                      { return s.at }
func (s floatSample) ST() int64                     { return 0 }
func (s floatSample) F() float64                    { return 1 }
func (s floatSample) H() *histogram.Histogram       { return nil }
func (s floatSample) FH() *histogram.FloatHistogram { return nil }
func (s floatSample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s floatSample) Copy() chunks.Sample           { return s }

// writeBlock writes a block with samples at two times, of which the last one is in it.
func writeBlock(t *testing.T, dir string, from, to int64) string {
	t.Helper()
	series := storage.NewListSeries(labels.FromStrings("__name__", "a"), []chunks.Sample{floatSample{from}, floatSample{to}})
	path, err := tsdb.CreateBlock([]storage.Series{series}, dir, to-from+1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func appendAt(t *testing.T, db *tsdb.DB, at int64) {
	t.Helper()
	app := db.Appender(t.Context())
	if _, err := app.Append(0, labels.FromStrings("__name__", "a"), at, 1); err != nil {
		t.Fatal(err)
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestTimes has the first and last times of databases with and without gaps.
func TestTimes(t *testing.T) {
	const minute, hour = 60_000, 3_600_000
	for _, c := range []struct {
		name               string
		blocks             [][2]int64
		head               []int64
		last, start, whole int64
	}{
		{"empty", nil, nil, 0, math.MaxInt64, math.MaxInt64},
		{"a head", nil, []int64{hour, 2 * hour}, 2 * hour, hour, hour},
		{"a block", [][2]int64{{hour, 2 * hour}}, nil, 2*hour + 1, hour, math.MaxInt64},
		{"adjacent", [][2]int64{{0, hour}, {hour + minute, 2 * hour}}, []int64{2*hour + minute}, 2*hour + minute, 0, 0},
		{"the largest gap within", [][2]int64{{0, hour - 1}, {hour + 2*minute, 2*hour - 1}}, []int64{2*hour + 2*minute}, 2*hour + 2*minute, 0, 0},
		{"a gap before the head", [][2]int64{{0, hour - 1}}, []int64{hour + 2*minute + 1}, hour + 2*minute + 1, 0, hour + 2*minute + 1},
		{"a gap between blocks", [][2]int64{{0, hour - 1}, {hour + 2*minute + 1, 2 * hour}}, []int64{2*hour + minute}, 2*hour + minute, 0, hour + 2*minute + 1},
		{"a gap between older blocks", [][2]int64{{0, hour}, {5 * hour, 6 * hour}, {6*hour + minute, 7 * hour}}, []int64{7*hour + minute}, 7*hour + minute, 0, 5 * hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, b := range c.blocks {
				writeBlock(t, dir, b[0], b[1])
			}
			db := openHead(t, dir)
			defer func() { closeDB(t, db) }()
			for _, at := range c.head {
				appendAt(t, db, at)
			}
			if len(c.head) > 0 { // another process replays the log
				closeDB(t, db)
				db = openHead(t, dir)
			}
			d := localdb.NewDatabase(db)
			_ = d.WholeStart() // the second result is the same
			if last, start, whole := localdb.LastTime(db), localdb.Start(db), d.WholeStart(); last != c.last || start != c.start || whole != c.whole {
				t.Errorf("last %d, start %d, whole from %d; want %d, %d, %d", last, start, whole, c.last, c.start, c.whole)
			}
			if _, err := os.Stat(filepath.Join(dir, "lock")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a lock file: %v", err)
			}
		})
	}
}

// TestReplace replaces a database while queries read it, and fails to.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	d := localdb.NewDatabase(openHead(t, dir))
	query := func() error {
		q, err := d.Querier(0, 1)
		if err != nil {
			return err
		}
		return q.Close()
	}
	if err := query(); err != nil {
		t.Fatal(err)
	}
	var readers [2]storage.Querier
	for i := range readers {
		var err error
		if readers[i], err = d.Querier(0, 1); err != nil {
			t.Fatal(err)
		}
	}
	first, closed := d.Current(), false
	replaced := make(chan error, 1)
	go func() {
		replaced <- d.Replace(func() (*tsdb.DB, error) {
			if !closed {
				t.Error("replaced while a query reads")
			}
			return localdb.OpenHead(dir, slog.New(slog.DiscardHandler), nil, nil)
		})
	}()
	testwait.Equal(t, "queries are refused", true, func() bool { return query() != nil })
	for range 2 { // the second call has no effect
		if err := readers[0].Close(); err != nil {
			t.Error(err)
		}
	}
	if d.Current() != first {
		t.Error("another database while a query reads")
	}
	closed = true
	if err := readers[1].Close(); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, "the replacement", replaced); err != nil || d.Current() == first || query() != nil {
		t.Errorf("after it: %v, %v", err, query())
	}
	broken := errors.New("broken")
	if err := d.Replace(func() (*tsdb.DB, error) { return nil, broken }); !errors.Is(err, broken) || query() == nil {
		t.Errorf("a failed replacement: %v, query: %v", err, query())
	}
	if err := d.Replace(func() (*tsdb.DB, error) { return localdb.OpenHead(dir, slog.New(slog.DiscardHandler), nil, nil) }); err != nil || query() != nil {
		t.Errorf("the next one: %v, query: %v", err, query())
	}
	closeDB(t, d.Current())
	if err := localdb.CloseDB(nil); err == nil || !strings.HasPrefix(err.Error(), "close the database: ") {
		t.Errorf("a panic: %v", err)
	}
}

// TestBlocks has blocks that the database cannot open, or that are not those that were written: each is set aside, and others are read.
func TestBlocks(t *testing.T) {
	meta := func(change func(m *tsdb.BlockMeta)) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			name := filepath.Join(path, "meta.json")
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var m tsdb.BlockMeta
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			change(&m)
			if text, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(name string, change func(path string) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := change(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name     string
		recorded bool
		change   func(t *testing.T, path string)
		want     string // "": it is read
	}{
		{"sound", true, func(*testing.T, string) {}, ""},
		{"sound, of an unknown size", false, file("other", func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }), ""},
		{"another size", true, file("other", func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }), "an earlier process wrote"},
		{"no meta.json", false, file("meta.json", os.Remove), "meta.json"},
		{"no index", false, file("index", os.Remove), "index"},
		{"a cut index", false, file("index", func(path string) error { return os.Truncate(path, 20) }), "invalid size"},
		{"of another block", false, meta(func(m *tsdb.BlockMeta) { m.ULID = ulid.MustParse("01H00000000000000000000000") }), "meta.json is of block 01H00000000000000000000000"},
		{"the least range", false, meta(func(m *tsdb.BlockMeta) { m.MaxTime = m.MinTime + 1 }), ""},
		{"no range", false, meta(func(m *tsdb.BlockMeta) { m.MaxTime = m.MinTime }), "meta.json has the time range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := writeBlock(t, dir, 0, 1000)
			if err := os.Mkdir(filepath.Join(dir, "not-a-block"), 0o700); err != nil {
				t.Fatal(err)
			}
			log := slog.New(slog.DiscardHandler)
			state := localstate.Open(dir, nil, log)
			l := localdb.Directory{Path: dir, State: state, Log: log}
			if id := ulid.MustParse(filepath.Base(path)); c.recorded {
				l.Record([]tsdb.BlockMeta{{ULID: id}})
			}
			c.change(t, path)
			db, err := l.Open(func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
			if err != nil {
				t.Fatal(err)
			}
			defer closeDB(t, db)
			lost := state.Losses()
			if n := len(db.Blocks()); (n == 1) != (c.want == "") || len(lost) > 0 != (c.want != "") || c.want != "" && !strings.Contains(lost[0].Cause, c.want) {
				t.Errorf("%d blocks, lost: %+v, want %q", n, lost, c.want)
			}
			if id := ulid.MustParse(filepath.Base(path)); c.want == "" {
				if _, ok := state.Files(dir)[path]; !ok {
					t.Error("the block is not recorded")
				}
				if l.Forget(map[ulid.ULID]struct{}{id: {}}); len(state.Files(dir)[path].Name) > 0 {
					t.Error("the block is still recorded")
				}
			}
		})
	}
}

// TestRepairWithoutLinks has the database remove damaged records where their file has no second link: the loss is reported.
func TestRepairWithoutLinks(t *testing.T) {
	l := &lostLog{T: t, path: t.TempDir()}
	l.open()
	l.append(0, series{"a", 1, false})
	l.close()
	wal := filepath.Join(l.path, localdb.WALName, "00000000")
	text, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	text[2000] ^= 0x10
	aside := filepath.Join(l.path, localstate.AsideName)
	if err := errors.Join(os.WriteFile(wal, text, 0o600), os.RemoveAll(aside)); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	state := localstate.Open(l.path, nil, log)
	if err := os.WriteFile(aside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := localdb.Directory{Path: l.path, State: state, Log: log}
	db, err := dir.Open(func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	if c := state.Counts(); c["write-ahead log"] != 1 || c["head chunks"] != 1 {
		t.Errorf("reported: %v", c)
	}
}

// TestReopen opens a database again after this process has written a part of a record: that is no damage. A damaged
// checkpoint is.
func TestReopen(t *testing.T) {
	keep := func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil }
	for _, c := range []struct {
		name   string
		change func(wal string) error
		losses int
	}{
		{"a part of a record", func(wal string) error { return os.Truncate(filepath.Join(wal, "00000000"), 2000) }, 0},
		{"a segment that is missing", func(wal string) error {
			return errors.Join(os.WriteFile(filepath.Join(wal, "00000009"), nil, 0o600), os.WriteFile(filepath.Join(wal, "00000011"), nil, 0o600))
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &lostLog{T: t, path: t.TempDir()}
			l.open()
			l.append(0, series{"a", 1, false})
			l.close()
			log := slog.New(slog.DiscardHandler)
			state := localstate.Open(l.path, nil, log)
			dir := localdb.Directory{Path: l.path, State: state, Log: log}
			if err := c.change(filepath.Join(l.path, localdb.WALName)); err != nil {
				t.Fatal(err)
			}
			db, err := dir.Reopen(keep)
			if err != nil {
				t.Fatal(err)
			}
			defer closeDB(t, db)
			if lost := state.Losses(); len(lost) != c.losses {
				t.Errorf("reported: %+v", lost)
			}
			q, err := db.Querier(0, math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "a"))
			if found := set.Next(); found != (c.losses == 0) {
				t.Errorf("the series is there: %t", found)
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			if files := state.Files(filepath.Join(l.path, localdb.WALName)); len(files) == 0 {
				t.Error("the segments are not recorded")
			}
		})
	}
}
