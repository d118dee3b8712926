package statements_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/statements"
)

// A flight is a statement of the test, from its start to its end.
type flight struct {
	start, end time.Time
	record     *querylog.Record
}

// elapsed returns the time of the flights up to a time.
func elapsed(all []*flight, until time.Time) (seconds float64) {
	for _, f := range all {
		if end := f.end; f.start.Before(until) {
			if end.After(until) {
				end = until
			}
			seconds += end.Sub(f.start).Seconds()
		}
	}
	return seconds
}

// TestLoadAsTimePasses has sessions execute statements of 0.1 to 100 s, and compares the load of each point with the true
// curve: up to the end of each point it has counted the time that had passed, within one interval of the sessions. When
// all statements have finished, the total is exact.
func TestLoadAsTimePasses(t *testing.T) {
	random := rand.New(rand.NewPCG(testseed.New(t), 1))
	synctest.Test(t, func(t *testing.T) {
		const sessions, interval = 8, 5 * time.Second
		r := newRig(t, 100)
		r.options.Interval = interval
		var mu sync.Mutex
		running := make(map[int]*flight) // guarded by mu
		var all []*flight
		r.options.Advance = func() {
			mu.Lock()
			defer mu.Unlock()
			for _, f := range running {
				r.table.Advance(f.record, time.Since(f.record.Start))
			}
		}
		r.start()
		r.call(1, time.Millisecond, false) // the statement is known
		finish := func(i int) {
			f := running[i]
			f.record.Total = f.end.Sub(f.start)
			r.table.Observe(f.record)
			delete(running, i)
		}
		began := time.Now()
		launch := func(i int) {
			took := time.Duration(0.1 * math.Pow(1000, random.Float64()) * float64(time.Second)).Round(100 * time.Millisecond)
			k := keyOf(1)
			f := &flight{start: time.Now(), end: time.Now().Add(took)}
			f.record = &querylog.Record{Start: f.start, Digest: k.Digest, User: k.User, Schema: "shop", Backend: "db1", Normalized: []byte("SELECT x")}
			running[i] = f
			all = append(all, f)
		}
		for range 6000 { // ten minutes
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			mu.Lock()
			for i := range sessions {
				if f := running[i]; f != nil && !time.Now().Before(f.end) {
					finish(i)
				}
				if running[i] == nil {
					launch(i)
				}
			}
			mu.Unlock()
		}
		end := time.Now()
		check := func(to time.Time) *statements.Top {
			t.Helper()
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: began, To: to, Points: 60})
			if err != nil {
				t.Fatal(err)
			}
			if len(top.Rows) != 1 {
				t.Fatalf("rows are %+v", top.Rows)
			}
			sum := 0.0
			for i, p := range top.Rows[0].Points {
				next := top.Series.Times[i].Add(top.Series.Step)
				sum += p * top.Series.Step.Seconds()
				if want := elapsed(all, next); next.Before(end.Add(-interval)) && math.Abs(sum-want) > sessions*(interval+time.Second).Seconds() {
					t.Errorf("up to %v: %v s, want %v", next.Sub(began), sum, want)
				}
			}
			return top
		}
		check(end)
		for len(running) > 0 {
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			for i := range sessions {
				if f := running[i]; f != nil && !time.Now().Before(f.end) {
					finish(i)
				}
			}
			mu.Unlock()
		}
		time.Sleep(2 * interval)
		total := elapsed(all, time.Now()) + 0.001
		if top := check(time.Now()); math.Abs(top.Total.Seconds-total) > 1e-6*total && math.Abs(top.Total.Seconds-total+0.001) > 1e-6*total || top.Rows[0].Calls < uint64(len(all)) {
			t.Errorf("%v s of %d calls, want %v s of %d", top.Total.Seconds, top.Rows[0].Calls, total, len(all))
		}
		r.stop()
	})
}
