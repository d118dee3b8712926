package history_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/store/tsblock"
)

// A clockRig is an archive with a clock that is set back and forth.
type clockRig struct {
	*hourglass
	every time.Duration // between rounds; 0: 10 s
	round int
	past  uint64 // calls before the last turn
}

// turn calls some Keys and writes a round, some time after the last one.
func (c *clockRig) turn() {
	c.t.Helper()
	c.round++
	c.past = c.model.calls
	every := cmp.Or(c.every, 10*time.Second)
	var keys []int
	for k := range 4 {
		if (c.round+k)%(k+1) == 0 {
			keys = append(keys, k)
		}
	}
	if c.round%7 == 0 {
		keys = append(keys, 100+c.round/7) // a new one
	}
	for _, k := range keys {
		c.model.call(k, c.now.Add(every-time.Second), time.Duration(k+1)*time.Millisecond, k == 3)
	}
	before := len(c.archive.Instances())
	c.hourglass.round(every)
	if c.round%5 > 0 && len(c.archive.Instances()) == before {
		return
	}
	label := c.archive.Labels()[history.InstanceLabel]
	if got := c.value(fmt.Sprintf("sum(tare_queries_total{instance=%q})", label), time.UnixMilli(c.newest())); got != float64(c.model.calls) {
		c.t.Fatalf("round %d of %s: the sum is %v, want %d", c.round, label, got, c.model.calls)
	}
}

// tend does the archive's background work.
func (c *clockRig) tend() {
	c.t.Helper()
	c.must(c.archive.Maintain(c.t.Context()))
	c.must(c.archive.Ship(c.t.Context()))
	c.must(c.archive.RollUp(c.t.Context()))
	c.must(c.rig.gateway.Sync(c.t.Context()))
}

// checkRollups adds up the hours of all instances in the bucket: each call before the last turn is in exactly
// one of them.
func (c *clockRig) checkRollups() {
	c.t.Helper()
	dirs, err := rollup.ListBucket(c.t.Context(), c.rig.bucket, "")
	c.must(err)
	var all stmtstats.Counts
	var spread stmtstats.Histogram
	for _, d := range dirs {
		for _, n := range d.Files {
			if n.Span == rollup.Hour {
				f, err := rollup.OpenRemote(c.t.Context(), c.rig.bucket, path.Join(rollup.Prefix, d.Instance, d.Epoch, n.String()), n)
				c.must(err)
				c.must(errors.Join(f.AddTotals(&all, &spread), f.Close()))
			}
		}
	}
	if all[stmtstats.Calls] != c.past {
		c.t.Errorf("the rollups have %d calls, want %d", all[stmtstats.Calls], c.past)
	}
}

// TestClockSteps sets the clock by seconds to years, in both directions, repeatedly and across restarts:
// samples are in order, a step back of more than a day starts another instance label, and each call is
// counted in exactly one of them.
func TestClockSteps(t *testing.T) {
	const day = 24 * time.Hour
	type step struct {
		by      time.Duration
		rounds  int // of 10 seconds, after the step
		restart bool
	}
	for _, s := range []struct {
		name      string
		steps     []step
		instances int
	}{
		{"seconds", []step{{-5 * time.Second, 20, false}, {5 * time.Second, 20, true}, {-25 * time.Second, 20, true}}, 1},
		{"minutes", []step{{-7 * time.Minute, 60, false}, {7 * time.Minute, 20, false}, {-9 * time.Minute, 20, true}}, 1},
		{"hours", []step{{3 * time.Hour, 40, false}, {-5 * time.Hour, 400, false}, {2 * time.Hour, 40, true}}, 1},
		{"a day less a bit", []step{{-23 * time.Hour, 100, true}, {23 * time.Hour, 20, false}}, 1},
		{"more than a day", []step{{-25 * time.Hour, 500, false}, {0, 20, true}, {25 * time.Hour, 50, false}}, 2},
		{"while it was stopped", []step{{-3 * day, 40, true}, {0, 400, true}, {3 * day, 400, false}}, 2},
		{"forward by years and back", []step{{10 * 365 * day, 60, false}, {-10 * 365 * day, 800, false}, {0, 50, true}}, 2},
		{"by days, again and again", []step{{-2 * day, 370, false}, {-2 * day, 370, true}, {5 * day, 370, false}, {-2 * day, 370, false}}, 4},
		{"back and forth within an hour", []step{{2 * day, 5, false}, {-2 * day, 5, false}, {2 * day, 5, false}, {-2 * day, 30, false}}, 2},
	} {
		t.Run(strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
			h := newHourglass(t, nil)
			h.day.t = t
			c := &clockRig{hourglass: h}
			for range 100 {
				c.turn()
			}
			for _, step := range s.steps {
				h.now = h.now.Add(step.by)
				if step.restart {
					h.must(h.archive.Close())
					h.reopen()
				}
				for n := range step.rounds {
					c.turn()
					if n%50 == 7 {
						c.tend()
					}
				}
				h.checkSelf()
			}
			// When all samples are in the past, every call is in exactly one of the instances.
			h.now = h.now.Add(20 * 365 * day)
			c.turn()
			c.tend()
			h.checkSelf()
			for _, in := range h.archive.Instances() {
				db := in.Samples.Current()
				if in.Past && (db.Head().NumSeries() > 0 || in.Rollups.Until().UnixMilli() < localdb.LastTime(db)) {
					t.Errorf("%v still has %d series in its head, and rollups up to %v", in.Labels, db.Head().NumSeries(), in.Rollups.Until())
				}
			}
			c.checkRollups()
			if n, failures := len(h.archive.Instances()), h.metric("write_failures_total"); n != s.instances || failures > 0 {
				t.Errorf("%d instances, %v failures; want %d, none", n, failures, s.instances)
			}
			checkOverlaps(t, h.rig.bucketDir)
			c.tend() // the bucket has the blocks
			for _, in := range h.archive.Instances() {
				if left := in.Samples.Current().BlockMetas(); in.Past && len(left) > 0 {
					t.Errorf("%v still has %d blocks locally", in.Labels, len(left))
				}
			}
			h.checkSelf()
		})
	}
}

// checkOverlaps checks that blocks of a bucket with the same labels do not overlap, which would halt a
// compactor.
func checkOverlaps(t *testing.T, bucketDir string) {
	t.Helper()
	metas, err := filepath.Glob(filepath.Join(bucketDir, "*", tsblock.MetaFile))
	if err != nil || len(metas) == 0 {
		t.Fatalf("no blocks: %v", err)
	}
	var all []*tsblock.Meta
	for _, name := range metas {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := tsblock.ParseMeta(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range all {
			if maps.Equal(m.Thanos.Labels, other.Thanos.Labels) && m.MinTime < other.MaxTime && other.MinTime < m.MaxTime {
				t.Errorf("blocks %s and %s of %v overlap", m.ULID, other.ULID, m.Thanos.Labels)
			}
		}
		all = append(all, m)
	}
}

// TestClockStepKilled kills the process at each step of the start of another instance label: the next process
// starts it again, or continues with it, and no call is lost or counted twice.
func TestClockStepKilled(t *testing.T) {
	for _, killed := range []string{"before the first samples", "after the step", "within the compaction", "before the log is removed", "after the compaction"} {
		t.Run(strings.ReplaceAll(killed, " ", "-"), func(t *testing.T) {
			var source *faultySource
			h := newHourglass(t, func(o *history.ArchiveOptions) {
				source = &faultySource{model: o.Source.(*model), visits: 3}
				o.Source, o.Interval = source, time.Minute
			})
			h.day.t = t
			c := &clockRig{hourglass: h, every: time.Minute}
			for range 165 { // 2.75 h: a head with more than a block
				c.turn()
			}
			copied := filepath.Join(t.TempDir(), "killed")
			save := func() {
				if _, err := os.Stat(copied); err != nil {
					h.must(os.CopyFS(copied, os.DirFS(h.archive.Options().Dir)))
				}
			}
			h.now = h.now.Add(-48 * time.Hour)
			if killed == "before the first samples" {
				source.during = save
			}
			c.turn()
			switch killed {
			case "after the step":
				save()
			case "within the compaction":
				h.archive.DuringCompaction(save)
				h.must(h.archive.Maintain(t.Context()))
			case "before the log is removed":
				h.must(history.FinishHead(h.archive.Instances()[0].Samples.Current()))
				save()
			case "after the compaction":
				h.must(h.archive.Maintain(t.Context()))
				save()
			}
			h.must(h.archive.Close())
			h.reopenIn(copied)
			for range 67 {
				c.turn()
			}
			h.now = h.now.Add(30 * 24 * time.Hour)
			c.turn()
			c.tend()
			c.tend()
			h.checkSelf()
			c.checkRollups()
			if n := len(h.archive.Instances()); n != 2 {
				t.Errorf("%d instances, want 2", n)
			}
			checkOverlaps(t, h.rig.bucketDir)
		})
	}
}

// TestInstanceDamaged damages the directory of a later instance label: it is set aside, and samples continue
// in order, with labels whose blocks do not overlap.
func TestInstanceDamaged(t *testing.T) {
	for _, shipped := range []bool{false, true} {
		for _, what := range []string{"garbage", "missing"} {
			t.Run(fmt.Sprintf("%s,shipped=%v", what, shipped), func(t *testing.T) {
				h := newHourglass(t, func(o *history.ArchiveOptions) { o.Interval = time.Minute })
				h.day.t, h.lossy = t, true
				c := &clockRig{hourglass: h, every: time.Minute}
				for range 67 {
					c.turn()
				}
				h.now = h.now.Add(-48 * time.Hour)
				for range 250 { // two blocks
					c.turn()
				}
				if shipped {
					c.tend()
					c.tend()
				}
				h.must(h.archive.Close())
				name := filepath.Join(h.archive.Options().Dir, "instance-2", "instance.json")
				if what == "missing" {
					h.must(os.Remove(name))
				} else {
					h.must(os.WriteFile(name, []byte("garbage"), 0o600))
				}
				h.reopen()
				h.must(h.rig.gateway.Sync(t.Context()))
				for range 134 {
					c.turn()
				}
				if n := h.archive.Options().State.Counts()["instance"]; n != 1 {
					t.Errorf("%d instances are reported as lost, want 1", n)
				}
				h.now = h.now.Add(10 * 24 * time.Hour)
				c.turn()
				c.tend()
				c.tend()
				checkOverlaps(t, h.rig.bucketDir)
				label := "gw-1~2"
				if shipped {
					label = "gw-1~3" // the bucket has blocks of the other label
				}
				if got := h.archive.Labels()[history.InstanceLabel]; got != label || h.metric("write_failures_total") > 0 {
					t.Errorf("the label is %s with %v failures, want %s", got, h.metric("write_failures_total"), label)
				}
			})
		}
	}
}
