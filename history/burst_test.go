package history_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/querylog"
)

// TestBurst calls many new digests at once: a known digest has a sample within any two intervals, the sum of
// all calls never decreases, and no round takes longer than an interval, as commits become larger.
func TestBurst(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		digests  int
	}{{15 * time.Second, 20_000}, {time.Minute, 8000}, {time.Second, 10_000}} {
		t.Run(fmt.Sprintf("%v-%d", c.interval, c.digests), func(t *testing.T) { testBurst(t, c.interval, c.digests) })
	}
}

func testBurst(t *testing.T, interval time.Duration, digests int) {
	synctest.Test(t, func(t *testing.T) {
		table, err := stmtstats.OpenTable(stmtstats.Options{MaxDigests: digests * 5 / 4, Bytes: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		d := newDay(t)
		d.source, d.interval = table, interval
		observe := func(n int) {
			table.Observe(&querylog.Record{Digest: [16]byte{1, byte(n >> 8), byte(n)}, Normalized: []byte("SELECT ?"), Start: time.Now(), Total: time.Millisecond})
		}
		const intervals = 16
		start := time.Now()
		longest := 0.0
		d.start()
		for tick := range 8 * intervals {
			observe(0)
			if tick == 5*8-3 {
				for n := range digests {
					observe(1 + n)
				}
			}
			time.Sleep(interval / 8)
			longest = max(longest, d.metric("round_seconds"))
		}
		time.Sleep(2 * interval)
		d.end()
		if longest > interval.Seconds() {
			t.Errorf("a round takes %v s, the interval is %v", longest, interval)
		}
		before := 0.0
		from, to := start.Add(3*interval), start.Add(intervals*interval)
		hot := fmt.Sprintf(`count_over_time(tare_queries_total{digest=%q}[%ds])`, fmt.Sprintf("%x", [16]byte{1}), 2*interval/time.Second)
		samples, counted := d.values(hot, from, to, interval/3), d.values("sum(tare_queries_total)", from, to, interval/3)
		for at := from; at.Before(to); at = at.Add((interval / 3).Truncate(time.Millisecond)) {
			if samples[at.UnixMilli()] == 0 {
				t.Errorf("no sample of a known digest in the two intervals before %v", at.Sub(start))
			}
			sum := counted[at.UnixMilli()]
			if sum < before {
				t.Errorf("at %v the sum falls from %v to %v", at.Sub(start), before, sum)
			}
			before = sum
		}
		if got, want := d.value("sum(tare_queries_total)", time.Now()), float64(8*intervals+digests); got != want {
			t.Errorf("the sum is %v, want %v", got, want)
		}
		d.checkSelf()
		if err := d.archive.Close(); err != nil {
			t.Error(err)
		}
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
}
