package localdb

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/localstate"
)

func openDB(t *testing.T, dir string) *tsdb.DB {
	t.Helper()
	db, err := OpenHead(dir, slog.New(slog.DiscardHandler), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func appendSample(t *testing.T, db *tsdb.DB, name string, at int64) {
	t.Helper()
	app := db.Appender(t.Context())
	if _, err := app.Append(0, labels.FromStrings("__name__", name), at, 1); err != nil {
		t.Fatal(err)
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestReaders has the queriers of a database counted: the last one that is closed ends the wait of Replace, and one that cannot be opened is not counted.
func TestReaders(t *testing.T) {
	dir := t.TempDir()
	db := openDB(t, dir)
	appendSample(t, db, "a", 1000)
	appendSample(t, db, "a", 10*3_600_000)
	if err := db.Compact(t.Context()); err != nil || len(db.Blocks()) == 0 {
		t.Fatalf("%d blocks, %v", len(db.Blocks()), err)
	}
	d := NewDatabase(db)
	idle := make(chan struct{})
	var open [3]storage.Querier
	for i := range open {
		var err error
		if open[i], err = d.Querier(0, math.MaxInt64); err != nil {
			t.Fatal(err)
		}
	}
	d.idle = idle
	for i := range open {
		if err := open[i].Close(); err != nil {
			t.Error(err)
		}
		if err := open[i].Close(); err == nil { // it has no effect on the others
			t.Error("closed twice")
		}
		closed := false
		select {
		case <-idle:
			closed = true
		default:
		}
		if last := i == len(open)-1; d.readers != len(open)-1-i || closed != last || (d.idle == nil) != last {
			t.Errorf("%d closed: %d readers, idle %t", i+1, d.readers, closed)
		}
	}
	again, err := d.Querier(0, math.MaxInt64) // without Replace: nothing waits
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := CloseDB(db); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Querier(0, math.MaxInt64); err == nil || errors.Is(err, errReopening) || d.readers != 0 {
		t.Errorf("of a closed database: %v, %d readers", err, d.readers)
	}
	d.closing = true
	if _, err := d.Querier(0, math.MaxInt64); !errors.Is(err, errReopening) || d.readers != 0 {
		t.Errorf("while it is replaced: %v, %d readers", err, d.readers)
	}
}

// TestHeadStart has the first sample of several series after a gap, whichever series it is of.
func TestHeadStart(t *testing.T) {
	const minute, hour = 60_000, 3_600_000
	for _, starts := range [][]int64{{10, 5, 7}, {5, 10, 7}, {7, 10, 5}, {1, 10, 5}, {2, 10}, {10, 2}, {3, 10}, {10, 3}, {10}} { // minutes after the newest block
		dir := t.TempDir()
		db := openDB(t, dir)
		appendSample(t, db, "old", 0)
		appendSample(t, db, "old", 4*hour) // blocks end at the even hour before it
		if err := db.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := CloseDB(db); err != nil {
			t.Fatal(err)
		}
		wal, chunks := filepath.Join(dir, WALName), filepath.Join(dir, HeadName)
		if err := errors.Join(os.RemoveAll(wal), os.RemoveAll(chunks)); err != nil {
			t.Fatal(err)
		}
		db = openDB(t, dir)
		blocks := db.BlockMetas()
		if len(blocks) == 0 {
			t.Fatal("no block was written")
		}
		end := blocks[len(blocks)-1].MaxTime
		want := int64(math.MaxInt64)
		for i, start := range starts {
			appendSample(t, db, string(rune('a'+i)), end+start*minute)
			want = min(want, end+start*minute)
		}
		if err := CloseDB(db); err != nil {
			t.Fatal(err)
		}
		db = openDB(t, dir) // the head starts at the end of the block
		d := NewDatabase(db)
		for range 2 {
			got := d.headStart()
			if gap := want - end; gap > 2*minute && got != want || gap <= 2*minute && (got < end || got > end+2*minute) {
				t.Errorf("%v: %d ms after the block, want %d", starts, got-end, want-end)
			}
		}
		if err := CloseDB(db); err != nil {
			t.Error(err)
		}
	}
}

// TestReplaceFails has the error of head chunks that cannot be set aside after a checkpoint cannot be read.
func TestReplaceFails(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	l := &Directory{Path: t.TempDir(), Log: log}
	l.State = localstate.Open(l.Path, nil, log)
	segment := filepath.Join(l.Path, WALName, "checkpoint.00000002", "00000000")
	if err := errors.Join(os.MkdirAll(filepath.Dir(segment), 0o700), os.WriteFile(segment, []byte(strings.Repeat("damaged ", 9)), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := l.checkCheckpoint(); err == nil || !strings.HasPrefix(err.Error(), "read checkpoint: ") {
		t.Fatalf("a damaged checkpoint: %v", err)
	}
	wal, err := l.part(WALName, walPiece)
	head, err2 := l.part(HeadName, headPiece)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	head.shadow.Discard()
	if err := os.RemoveAll(head.dir); err != nil {
		t.Fatal(err)
	}
	if db, err := l.open(wal, head, nil); err == nil || !strings.Contains(err.Error(), "set aside ") {
		t.Errorf("opened: %v", err)
		if db != nil {
			_ = CloseDB(db)
		}
	}
}

// TestLinksAreDropped has no links to the files of a database after it was opened, and copies of head chunks that its repair has removed.
func TestLinksAreDropped(t *testing.T) {
	dir := t.TempDir()
	db := openDB(t, dir)
	for i := range int64(300) { // more than a chunk, so that some are in files
		appendSample(t, db, "a", i*15_000)
	}
	db.ForceHeadMMap()
	if err := CloseDB(db); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	for _, damaged := range []bool{false, true} {
		chunks, err := filepath.Glob(filepath.Join(dir, HeadName, "0*"))
		if err != nil || len(chunks) == 0 {
			t.Fatalf("%v, %v", chunks, err)
		}
		if damaged {
			text, err := os.ReadFile(chunks[0])
			if err != nil {
				t.Fatal(err)
			}
			for i := 8; i < 300; i++ { // after the header
				text[i] ^= 0x55
			}
			if err := os.WriteFile(chunks[0], text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		state := localstate.Open(dir, nil, log)
		l := &Directory{Path: dir, State: state, Log: log}
		db, err := l.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		links, err := filepath.Glob(filepath.Join(dir, localstate.AsideName, ".*"))
		if err != nil || len(links) > 0 {
			t.Errorf("damaged %t: links %v, %v", damaged, links, err)
		}
		lost := slices.DeleteFunc(state.Losses(), func(l localstate.Loss) bool { return l.Name != headPiece.Name })
		if len(lost) > 0 != damaged || damaged && lost[0].Aside == "" {
			t.Errorf("damaged %t: %+v", damaged, lost)
		}
		q, err := db.Querier(0, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "a")); set.Next(); {
			for it := set.At().Iterator(nil); it.Next() != 0; {
				n++
			}
		}
		if n != 300 {
			t.Errorf("damaged %t: %d samples, want 300: the log has them", damaged, n)
		}
		if err := errors.Join(q.Close(), CloseDB(db)); err != nil {
			t.Error(err)
		}
	}
}
