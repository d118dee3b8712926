package statements_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// TestArchiveTopAllInstances has four gateways share a bucket: two with correct clocks, one whose clock is 90
// minutes ahead, and one of a version without rollups. The first is queried for all: each gateway counts the
// calls of whole hours by its clock, the first one up to now, and the old one is named in a note.
func TestArchiveTopAllInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("13 hours of four gateways")
	}
	synctest.Test(t, func(t *testing.T) {
		bucketDir := t.TempDir()
		type gateway struct {
			name  string
			ahead time.Duration // of its clock
			*rig
			calls diary // by its clock
		}
		all := []*gateway{{name: "gw-1"}, {name: "gw-2"}, {name: "gw-ahead", ahead: 90 * time.Minute}, {name: "gw-old"}}
		began := time.Now()
		for _, g := range all {
			g.rig = newRigIn(t, bucketDir, g.name, 100)
			g.rig.ahead.Store(int64(g.ahead))
			g.start()
		}
		rng := rand.New(rand.NewPCG(21, 22))
		time.Sleep(5 * time.Minute)
		for range 13 * 4 { // quarters of an hour
			for n, g := range all {
				for range rng.IntN(6) {
					g.calls = append(g.calls, g.call(rng.IntN(4+n), time.Duration(rng.IntN(1e9)), false))
				}
			}
			time.Sleep(15 * time.Minute)
		}
		time.Sleep(3 * time.Minute)
		now := time.Now()
		old := all[3]
		if err := old.options.Bucket.Delete(t.Context(), rollup.Prefix+"/"+rollup.LabelsHash(old.options.Labels)); err != nil { // all objects below it
			t.Fatal(err)
		}
		for _, span := range []struct{ from, to time.Time }{
			{began, now}, {now.Add(-5 * time.Hour), now}, {began.Add(150 * time.Minute), began.Add(11 * time.Hour)},
		} {
			top, err := all[0].reader.Top(t.Context(), statements.TopQuery{From: span.from, To: span.to, AllInstances: true, Points: 30})
			if err != nil {
				t.Fatal(err)
			}
			if len(top.Notes) != 1 || !strings.Contains(top.Notes[0], "gw-old") || top.Source != statements.SourceRollups {
				t.Errorf("from %v: from %s, with notes %q, want one of gw-old", span.from, top.Source, top.Notes)
			}
			var want uint64
			var seconds float64
			byKey := make(map[stmtstats.Key]uint64)
			for _, g := range all[:3] {
				to := top.To
				if g != all[0] {
					to = to.Truncate(time.Hour)
				}
				n, _, s := g.calls.of(-1, top.From, to)
				want, seconds = want+n, seconds+s
				for key := range 8 {
					n, _, _ := g.calls.of(key, top.From, to)
					byKey[keyOf(key)] += n
				}
			}
			if top.Total.Calls != want || !near(top.Total.Seconds, seconds) {
				t.Errorf("from %v to %v: %d calls, %v s; want %d, %v", top.From, top.To, top.Total.Calls, top.Total.Seconds, want, seconds)
			}
			sum, lengths := 0.0, pointLengths(&top.Series)
			for i, n := range top.Series.Calls {
				sum += n * lengths[i]
			}
			if !near(sum, float64(want)) {
				t.Errorf("from %v to %v: %v calls in the points, want %d", top.From, top.To, sum, want)
			}
			for _, row := range top.Rows {
				if row.Calls != byKey[row.Key] {
					t.Errorf("from %v to %v: %d calls of %v, want %d", top.From, top.To, row.Calls, row.Key, byKey[row.Key])
				}
			}
			// A query for one gateway does not include the others.
			if top, err = all[0].reader.Top(t.Context(), statements.TopQuery{From: span.from, To: span.to}); err != nil {
				t.Fatal(err)
			}
			if n, _, _ := all[0].calls.of(-1, top.From, top.To); top.Total.Calls != n || len(top.Notes) > 0 {
				t.Errorf("alone from %v to %v: %d calls, notes %q; want %d", top.From, top.To, top.Total.Calls, top.Notes, n)
			}
		}
		for _, g := range all {
			g.stop()
		}
	})
}
