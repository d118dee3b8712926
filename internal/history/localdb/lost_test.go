package localdb_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

// A lostLog is a database in a directory, opened by several processes in turn.
type lostLog struct {
	*testing.T
	path string
	db   *tsdb.DB
}

func (l *lostLog) open() (lost []localstate.Loss) {
	l.Helper()
	log := slog.New(slog.DiscardHandler)
	state := localstate.Open(l.path, nil, log)
	dir := localdb.Directory{Path: l.path, State: state, Log: log}
	db, err := dir.Open(func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
	if err != nil {
		l.Fatal(err)
	}
	l.db = db
	dir.Record(db.BlockMetas())
	return state.Losses()
}

func (l *lostLog) close() {
	l.Helper()
	if err := localdb.CloseDB(l.db); err != nil {
		l.Fatal(err)
	}
}

// series are samples of one name: histograms, or floats of one value.
type series struct {
	name      string
	value     float64
	histogram bool
}

// append appends 400 samples, so that chunks are written; each series begins 40 samples after the one before.
func (l *lostLog) append(from int64, all ...series) {
	l.Helper()
	for i := range int64(400) {
		app := l.db.Appender(context.Background())
		for n, s := range all[:min(len(all), int(i/40)+1)] {
			var err error
			if ls, t := labels.FromStrings(model.MetricNameLabel, s.name), from+i*60_000; s.histogram {
				h := &histogram.Histogram{Count: uint64(i) + 1, ZeroCount: uint64(i) + 1, ZeroThreshold: 0.001}
				_, err = app.AppendHistogram(0, ls, t, h, nil)
			} else {
				_, err = app.Append(0, ls, t, s.value)
			}
			if err != nil {
				l.Fatalf("sample %d of series %d: %v", i, n, err)
			}
		}
		if err := app.Commit(); err != nil {
			l.Fatal(err)
		}
	}
	l.db.ForceHeadMMap()
}

// check reads all samples of series: they are those that were appended.
func (l *lostLog) check(all ...series) {
	l.Helper()
	q, err := l.db.Querier(0, math.MaxInt64)
	if err != nil {
		l.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	for _, s := range all {
		wrong, n := map[string]int{}, 0
		set := q.Select(l.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, s.name))
		for set.Next() {
			it := set.At().Iterator(nil)
			for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
				n++
				if kind != chunkenc.ValFloat {
					wrong[kind.String()]++
				} else if _, v := it.At(); v != s.value {
					wrong[fmt.Sprint(v)]++
				}
			}
			if err := it.Err(); err != nil {
				l.Errorf("%s: %v", s.name, err)
			}
		}
		if err := set.Err(); err != nil {
			l.Error(err)
		}
		if n == 0 || len(wrong) > 0 {
			l.Errorf("%s has %d samples, of them from other series: %v", s.name, n, wrong)
		}
	}
}

// TestSeriesOfLostRecords loses the end of the log, which defines series whose chunks are in files. Series that the
// next process creates do not get these chunks.
func TestSeriesOfLostRecords(t *testing.T) {
	const at = 2000 // within the records of the first samples
	for name, damage := range map[string]func(path string, text []byte) error{
		"a shorter file": func(path string, text []byte) error { return os.Truncate(path, at) },
		"a damaged record": func(path string, text []byte) error {
			text[at] ^= 0x10
			return os.WriteFile(path, text, 0o600)
		},
		"no file":       func(path string, _ []byte) error { return os.Remove(path) },
		"an empty file": func(path string, _ []byte) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			l := &lostLog{T: t, path: t.TempDir()}
			l.open()
			l.append(0, series{"a", 1, false}, series{"b", 2, false}, series{"c", 0, true}, series{"d", 3, false}, series{"e", 0, true}, series{"f", 0, true})
			l.close()
			l.open() // records the files' sizes
			l.close()
			wal := filepath.Join(l.path, localdb.WALName, "00000000")
			text, err := os.ReadFile(wal)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(wal, text); err != nil {
				t.Fatal(err)
			}
			if lost := l.open(); len(lost) != 2 {
				t.Errorf("reported: %v", lost)
			}
			later := []series{{"g", 4, false}, {"h", 5, false}, {"i", 6, false}, {"j", 7, false}, {"k", 8, false}, {"l", 9, false}}
			l.append(400*60_000, later...)
			l.close()
			if lost := l.open(); len(lost) != 2 {
				t.Errorf("reported again: %v", lost)
			}
			l.check(later...)
			l.close()
		})
	}
}
