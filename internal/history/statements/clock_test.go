package statements_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
)

// check compares rankings and a statement of a range with the calls in it.
func (r *rig) check(calls diary, from, to time.Time) {
	r.t.Helper()
	top, err := r.reader.Top(r.t.Context(), statements.TopQuery{From: from, To: to, Points: 10, Limit: 200})
	r.must(err)
	end := time.Now().AddDate(100, 0, 0)
	n, failed, seconds := calls.of(-1, time.Time{}, end)
	if top.Total.Calls != n || top.Total.Errors != failed || !near(top.Total.Seconds, seconds) || len(top.Notes) > 0 {
		r.t.Errorf("from %v to %v, by %s: %+v with notes %q, want %d calls, %d errors, %v s", from, to, top.Source, top.Total, top.Notes, n, failed, seconds)
	}
	for _, row := range top.Rows {
		key := keyOfDigest(row.Digest)
		if n, _, _ := calls.of(key, time.Time{}, end); row.Calls != n || !strings.HasPrefix(row.Text, "SELECT x") {
			r.t.Errorf("from %v to %v, by %s: %d calls of %d with text %q, want %d", from, to, top.Source, row.Calls, key, row.Text, n)
		}
	}
	st, err := r.reader.Statement(r.t.Context(), statements.StatementQuery{Digest: hexOf(0), From: from, To: to, Points: 10})
	r.must(err)
	if n, _, _ := calls.of(0, time.Time{}, end); st.Calls != n {
		r.t.Errorf("from %v to %v, by %s: %d calls of a statement, want %d", from, to, st.Source, st.Calls, n)
	}
}

// TestClockSteps sets the clock back by more than a day, repeatedly, so that other instance labels start:
// each call is found once, shortly after the step and when all calls are in the past.
func TestClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		r.options.Elapsed = nil
		began := r.options.Now()
		r.start()
		var all diary
		turn := func(minutes int) (of diary) {
			for n := range 2 * minutes {
				for key := range 4 {
					if n%(key+1) == 0 {
						of = append(of, r.call(key, time.Duration(key+1)*time.Millisecond, key == 3))
					}
				}
				time.Sleep(30 * time.Second)
			}
			time.Sleep(3 * time.Minute) // a round includes them
			all = append(all, of...)
			return of
		}
		turn(20)
		for _, restart := range []bool{false, true, false} {
			r.ahead.Add(int64(-48 * time.Hour))
			if restart {
				r.restart()
			}
			time.Sleep(3 * time.Minute)
			from := r.archive.Now()
			time.Sleep(time.Minute) // no call is in the round at that time
			r.check(turn(20), from, r.archive.Now())
			time.Sleep(time.Hour) // another step is permitted then
		}
		if n := len(r.archive.Instances()); n != 4 {
			t.Errorf("%d instances, want 4", n)
		}
		r.ahead.Add(int64(30 * 24 * time.Hour))
		time.Sleep(10 * time.Minute)
		r.check(all, began.AddDate(0, 0, -40), r.archive.Now())
		r.stop()
	})
}

// TestTopAfterPause queries a range that starts less than five minutes after a pause in writing: counters of
// Keys that were not written in these minutes do not count as growth.
func TestTopAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		r.options.Interval = 10 * time.Second
		for n := range 40 {
			r.call(n, time.Millisecond, false)
		}
		r.start()
		for range 12 { // the samples of Keys that are not called are up to a minute old
			r.call(0, time.Millisecond, false)
			time.Sleep(10 * time.Second)
		}
		r.stop()
		stopped := time.Now()
		time.Sleep(10 * time.Minute)
		r.start()
		r.call(0, time.Millisecond, false)
		time.Sleep(11 * time.Second)
		for after := time.Second; after < 10*time.Minute; after += 5 * time.Second {
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: stopped.Add(after), To: time.Now()})
			if err != nil || top.Total.Calls != 1 {
				t.Errorf("%v after the last sample: %+v (%v), want 1 call", after, top, err)
			}
		}
		r.stop()
	})
}
