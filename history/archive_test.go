package history_test

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// TestIncrease evaluates increases, which include a series' first calls because it starts with a 0.
func TestIncrease(t *testing.T) {
	h := newHourglass(t, nil)
	h.round(0)
	for i := range 60 {
		if i%6 == 0 {
			h.model.call(i, h.now.Add(time.Second), time.Second, i%12 == 0) // new Keys all the time
		}
		h.model.call(0, h.now.Add(2*time.Second), 10*time.Millisecond, false)
		h.round(10 * time.Second)
	}
	// The window contains all samples, and a 0 before the first of each series.
	for query, want := range map[string]float64{
		`increase(tare_queries_total{digest=~"0000.*"}[11m])`:                                  61,
		`histogram_count(increase(tare_query_duration_seconds{digest=~"0000.*"}[11m]))`:        61,
		`sum(increase(tare_queries_total{digest!~"0000.*"}[11m]))`:                             9,
		`sum(resets(tare_queries_total[11m]))`:                                                 0,
		`count(min_over_time(tare_queries_total[11m]) == 0)`:                                   10,
		`sum(increase(tare_query_errors_total{class="deadlock"}[11m]))`:                        5,
		`count(min_over_time(tare_query_errors_total[11m]) == 0)`:                              5,
		`histogram_quantile(0.5, increase(tare_query_duration_seconds{digest=~"0000.*"}[5m]))`: 0.010,
	} {
		tolerance := 0.10 // increase() extrapolates to the ends of the window
		if strings.HasPrefix(query, "count") {
			tolerance = 0
		} else if strings.HasPrefix(query, "histogram_quantile") {
			tolerance = 0.022
		}
		if got := h.value(query, h.now); math.Abs(got-want) > tolerance*want {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
}

// TestReturn evicts a digest that returns with fewer, as many and more calls than before: each time it counts
// from 0, even if it returns in the round of its eviction.
func TestReturn(t *testing.T) {
	h := newHourglass(t, nil)
	for range 4 {
		h.model.call(1, h.now, time.Second, true)
	}
	h.round(10 * time.Second)
	total := 4
	for _, again := range []int{1, 4, 9} {
		h.model.evict(1, h.now)
		for range again {
			h.model.call(1, h.now.Add(time.Second), time.Second, false)
		}
		h.round(10 * time.Second)
		total += again
		if got := h.value("sum(tare_queries_total)", h.now); got != float64(total) {
			t.Errorf("back with %d calls: the sum is %v, want %d", again, got, total)
		}
		if got := h.value(`tare_queries_total{digest!~"evicted|other"}`, h.now); got != float64(again) {
			t.Errorf("back with %d calls: they count as %v", again, got)
		}
		if got := h.value(`sum(tare_query_errors_total)`, h.now); got != 4 {
			t.Errorf("back with %d calls: %v errors, want 4", again, got)
		}
		if got := h.value(`resets(tare_queries_total{digest!~"evicted|other"}[15s])`, h.now); got != 1 {
			t.Errorf("back with %d calls: %v counter resets, want 1", again, got)
		}
	}
	h.model.evict(1, h.now)
	h.round(10 * time.Second)
	if got := h.value(`count(tare_queries_total{digest!~"evicted|other"}) or vector(0)`, h.now); got != 0 {
		t.Errorf("a digest that is gone has %v series", got)
	}
	if got := h.value(`count(tare_digest_info) or vector(0)`, h.now); got != 0 {
		t.Errorf("its text is told by %v series", got)
	}
	if got := h.value("sum(tare_queries_total)", h.now); got != float64(total) {
		t.Errorf("after all: the sum is %v, want %d", got, total)
	}
}

// TestClockBack sets the clock back by a day, also across a restart: nothing fails, the time of samples
// advances, and when the clock has caught up the two agree again.
func TestClockBack(t *testing.T) {
	h := newHourglass(t, nil)
	for range 3 {
		h.model.call(1, h.now, time.Second, false)
		h.round(10 * time.Second)
	}
	before := h.newest()
	h.now = h.now.Add(-24 * time.Hour)
	for i := range 10 {
		h.model.call(1+i, h.now, time.Second, false)
		h.round(10 * time.Second)
	}
	if got := h.newest() - before; got != 10*10_000 {
		t.Errorf("in 10 intervals time went on by %d ms, want all of them", got)
	}
	at := h.archive.Now()
	if at.UnixMilli() != h.newest() {
		t.Errorf("the time of queries is %v, want that of the newest samples, %v", at.UnixMilli(), h.newest())
	}
	if got := h.value("sum(tare_queries_total)", at); got != 13 {
		t.Errorf("with the clock back the sum is %v, want 13", got)
	}
	if err := h.archive.Close(); err != nil {
		t.Fatal(err)
	}
	h.reopen()
	if got := h.archive.Now().UnixMilli(); got != h.newest() {
		t.Errorf("after a restart the time of queries is %v, want that of the newest samples, %v", got, h.newest())
	}
	h.model.call(1, h.now, time.Second, false)
	h.round(10 * time.Second)
	if got := h.value("sum(tare_queries_total)", time.UnixMilli(h.newest())); got != 14 {
		t.Errorf("after a restart the sum is %v, want 14", got)
	}
	h.now = h.now.Add(25 * time.Hour)
	h.round(0)
	h.checkSelf()
	if h.newest() != h.now.UnixMilli() || h.metric("clock_ahead_seconds") != 0 {
		t.Error("the clock has caught up, and time is another")
	}
	if n := h.metric("write_failures_total"); n != 0 {
		t.Errorf("%v failures", n)
	}
}

// TestRetention deletes blocks by age and size: a block that the bucket lacks is kept beyond its age, and
// deleted only for its size, which is counted.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	metas := makeBlocks(t, dir, 5)
	var blocks []*tsdb.Block
	for _, m := range metas {
		b, err := tsdb.OpenBlock(slog.New(slog.DiscardHandler), filepath.Join(dir, m.ULID.String()), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = b.Close() }()
		blocks = append(blocks, b)
	}
	three := blocks[2].Size() + blocks[3].Size() + blocks[4].Size() // the newest
	for _, c := range []struct {
		what    string
		age     time.Duration
		bytes   int64
		safe    int // number of the oldest blocks that are in the bucket
		deleted int
		lost    int
	}{
		{"nothing is old", 100 * history.BlockRange, 0, 5, 0, 0},
		{"two are old", 3 * history.BlockRange, 0, 5, 2, 0},
		{"two are old, one is not in the bucket", 3 * history.BlockRange, 0, 1, 1, 0},
		{"no bound", 0, 0, 5, 0, 0},
		{"too large", 0, three + 1, 5, 2, 0},
		{"too large, none in the bucket", 0, three + 1, 0, 2, 2},
		{"both", 4 * history.BlockRange, three + 1, 1, 2, 1},
	} {
		safe := func(id ulid.ULID) bool {
			return slices.ContainsFunc(metas[:c.safe], func(m tsdb.BlockMeta) bool { return m.ULID == id })
		}
		gone := history.Expired(blocks, c.age, c.bytes, safe)
		lost := 0
		for id := range gone {
			if !safe(id) {
				lost++
			}
		}
		if len(gone) != c.deleted || lost != c.lost {
			t.Errorf("%s: %d deleted, %d lost; want %d and %d", c.what, len(gone), lost, c.deleted, c.lost)
		}
		for _, m := range metas[:c.deleted] {
			if _, ok := gone[m.ULID]; !ok {
				t.Errorf("%s: the oldest stay", c.what)
			}
		}
	}
}

// blocks writes blocks into the directory of an archive that is closed, and returns it.
func (r *rig) blocks(t *testing.T, n int) (dir string) {
	t.Helper()
	archive, err := history.OpenArchive(r.options(newModel()))
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	makeBlocks(t, archive.LocalDir(), n)
	return archive.LocalDir()
}

// TestLimitInBytes deletes blocks beyond the limit in bytes: those that were shipped are not lost, although the gateway has not listed the
// bucket since, and all others are.
func TestLimitInBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		ship bool
		lost uint64
	}{{"in the bucket", true, 0}, {"not in the bucket", false, 3}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, t.TempDir(), filepath.Join(t.TempDir(), "d"))
			r.blocks(t, 3)
			archive, err := history.OpenArchive(r.options(newModel()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := archive.Close(); err != nil {
					t.Error(err)
				}
			}()
			if c.ship {
				if err := archive.Ship(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if deleted, lost := archive.Overflow(); deleted != 3 || lost != c.lost {
				t.Errorf("%d blocks deleted, %d lost; want 3 and %d", deleted, lost, c.lost)
			}
		})
	}
}

// TestTooLargeFiles opens a directory in which the description of a block has a size beyond any memory: it is set aside.
func TestTooLargeFiles(t *testing.T) {
	r := newRig(t, t.TempDir(), filepath.Join(t.TempDir(), "d"))
	dir := r.blocks(t, 2)
	blocks, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil || len(blocks) != 2 {
		t.Fatalf("%v, %v, want two blocks", blocks, err)
	}
	if err := os.Truncate(blocks[0], 1<<40); err != nil {
		t.Fatal(err)
	}
	archive, err := history.OpenArchive(r.options(newModel()))
	if err != nil {
		t.Fatal(err)
	}
	if n := archive.Options().State.Counts()["unreadable file"]; n != 1 {
		t.Errorf("%d files are reported, want 1", n)
	}
	if err := archive.Close(); err != nil {
		t.Error(err)
	}
}

// TestClaim checks that a directory with another instance's series is refused, and that a known one is
// accepted.
func TestClaim(t *testing.T) {
	r := newRig(t, t.TempDir(), filepath.Join(t.TempDir(), "d"))
	if got, err := history.ReadLabels(r.dir); got != nil || err != nil {
		t.Errorf("a new directory has the labels %v (%v)", got, err)
	}
	own := map[string]string{"instance": "a:1"}
	open := func(labels map[string]string) (lost uint64, err error) {
		o := r.options(newModel())
		o.Labels = labels
		archive, err := history.OpenArchive(o)
		if err != nil {
			return 0, err
		}
		lost = archive.Options().State.Counts()["labels"]
		return lost, archive.Close()
	}
	for range 2 {
		if _, err := open(own); err != nil {
			t.Fatal(err)
		}
	}
	_, err := open(map[string]string{"instance": "b:1"})
	if err == nil || !strings.Contains(err.Error(), "belongs to") {
		t.Errorf("another instance gets %v", err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "labels.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if lost, err := open(own); err != nil || lost != 1 {
		t.Errorf("a damaged file is not set aside: %v", err)
	}
	if got, err := history.ReadLabels(r.dir); err != nil || got["instance"] != "a:1" {
		t.Errorf("after a damaged file the labels are %v (%v)", got, err)
	}
}

// TestShippedBlock reads a block of the bucket with Prometheus' code.
func TestShippedBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		d.start()
		for range 4 * 60 {
			d.model.call(1, time.Now(), time.Second, false)
			time.Sleep(time.Minute)
		}
		time.Sleep(2 * time.Minute)
		d.end()
		if err := d.archive.Close(); err != nil {
			t.Fatal(err)
		}
		dirs, err := filepath.Glob(filepath.Join(d.rig.bucketDir, "*", "meta.json"))
		if err != nil || len(dirs) == 0 {
			t.Fatalf("no block was shipped: %v", err)
		}
		for _, name := range dirs {
			b, err := tsdb.OpenBlock(slog.New(slog.DiscardHandler), filepath.Dir(name), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if m := b.Meta(); m.MaxTime-m.MinTime > history.BlockRange.Milliseconds() || m.Compaction.Level != 1 {
				t.Errorf("the block's meta.json is %+v", m)
			}
			q, err := tsdb.NewBlockQuerier(b, b.MinTime(), b.MaxTime())
			if err != nil {
				t.Fatal(err)
			}
			set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, promlabel.MetricNameLabel, stmtseries.Duration.String()))
			series, samples := 0, 0
			for set.Next() {
				series++
				it := set.At().Iterator(nil)
				for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
					if kind != chunkenc.ValHistogram {
						t.Fatalf("a sample of kind %v", kind)
					}
					if _, h := it.AtHistogram(nil); h.Validate() != nil || h.Schema != stmtstats.Schema {
						t.Fatalf("histogram %v", h)
					}
					samples++
				}
			}
			if set.Err() != nil || series != 1 || samples == 0 {
				t.Errorf("%d series, %d samples: %v", series, samples, set.Err())
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
