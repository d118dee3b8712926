package statements_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/testseed"
)

// counted are the counts of a result, without the points, which end at the newest round.
func counted(top *statements.Top) string {
	text := fmt.Appendf(nil, "%v, %d rows\n", top.Total, top.Matching)
	for i := range top.Rows {
		row := &top.Rows[i]
		text = fmt.Appendf(text, "%x %s %s %q %+v %v %v\n", row.Digest, row.User, row.Schema, row.Text, row.Totals, row.First.UnixMilli(), row.Last.UnixMilli())
	}
	return string(text)
}

// TestSharedCounters compares a reader that shares the current counters between requests, and ranks in halves, with new
// readers: while statements are called and evicted, within hours and at their ends. A result is at most a second old,
// and equal to that of a new reader at its time.
func TestSharedCounters(t *testing.T) {
	if testing.Short() {
		t.Skip("up to 36 hours of queries")
	}
	rng := testseed.Rand(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 40)
		const early = 20500 * time.Millisecond // no round is in the instant of a request: it may evict between two requests
		time.Sleep(early)
		r.start()
		r.call(0, time.Second, false)
		time.Sleep(2*time.Minute - early) // counts are of no range before the first sample
		began := r.options.Now()
		shared, rereads, added := 0, 0, 0
		rollups := r.archive.Instances()[0].Rollups
		ranges := func() []time.Time {
			return []time.Time{began, r.options.Now().Truncate(time.Hour).Add(-time.Minute)}
		}
		query := func(from time.Time, by statements.Measure) statements.TopQuery {
			return statements.TopQuery{From: from, To: r.options.Now().Add(time.Hour), By: by, Limit: 100}
		}
		key := func(q statements.TopQuery, at time.Time) string { return fmt.Sprint(q.By, q.From, at) }
		fresh := make(map[string]string) // results of new readers, by query and time
		read := func(from time.Time) {
			for by := range statements.Measure(3) {
				q := query(from, by)
				top, err := statements.NewArchiveReader(r.archive, r.table).Top(t.Context(), q)
				r.must(err)
				fresh[key(q, top.To)] = counted(top)
			}
		}
		enough := func() bool { return shared >= 10 && rereads >= 10 && added >= 3 }
		for hour := 0; hour < 6 || !enough() && hour < 36; hour++ {
			time.Sleep(time.Duration(10+rng.IntN(40)) * time.Minute)
			clear(fresh)
			if hour >= 3 { // longer ranges are read from rollups
				time.Sleep(6 * time.Hour)
				end := time.Now().Truncate(time.Hour).Add(time.Hour)
				time.Sleep(time.Until(end))
				for n := 0; rollups.Until().Before(end); n++ {
					// Counters since the end of the rollup before are in memory when the hour's rollup is written.
					if n == 3600 {
						t.Fatal("the rollup of the hour was not written within an hour")
					}
					r.call(rng.IntN(60), time.Second, false)
					for _, from := range ranges() {
						read(from)
						_, err := r.reader.Top(t.Context(), query(from, 0))
						r.must(err)
					}
					time.Sleep(900 * time.Millisecond)
				}
			}
			for range 6 {
				keys := 1 + rng.IntN(60) // few: no entry is evicted
				for range rng.IntN(30) {
					r.call(rng.IntN(keys), time.Duration(rng.IntN(1e9)), rng.IntN(9) == 0)
				}
				for _, from := range ranges() {
					read(from)
					q := query(from, statements.Measure(rng.IntN(3)))
					var requests sync.WaitGroup
					tops := make([]*statements.Top, 3)
					for i := range tops {
						requests.Go(func() {
							var err error
							if tops[i], err = r.reader.Top(t.Context(), q); err != nil {
								t.Error(err)
							}
						})
					}
					requests.Wait()
					if t.Failed() {
						return
					}
					if r.reader.RestFiles() == 2 {
						added++
					}
					for _, top := range tops {
						if age := r.options.Now().Sub(top.To); age < 0 || age >= time.Second {
							t.Fatalf("hour %d: a result is %v old", hour, age)
						} else if age > 0 {
							shared++
						} else {
							rereads++
						}
						if got, want := counted(top), fresh[key(q, top.To)]; got != want {
							t.Fatalf("hour %d, %v from %v to %v, at %v:\n%swant\n%s", hour, q.By, from, top.To, r.options.Now(), got, want)
						}
					}
				}
				time.Sleep(time.Duration(1+rng.IntN(900)) * time.Millisecond) // results of one time are equal
			}
		}
		if !enough() {
			t.Errorf("%d results of earlier counters, %d of new ones, %d of changes added to earlier ones", shared, rereads, added)
		}
		r.stop()
	})
}
