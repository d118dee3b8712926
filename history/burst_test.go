package history

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/querylog"
)

// TestBurst calls 20,000 new digests at once: one that was known before has a sample within any two intervals, and
// the sum of all calls never falls.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 15 * time.Second
		table, err := OpenTable(Options{MaxDigests: 25_000, Bytes: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		d := &day{
			t: t, model: newModel(), source: table, interval: interval, rig: newRig(t, t.TempDir(), t.TempDir(), t.TempDir()),
			engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})}),
		}
		defer func() { _ = d.engine.Close() }()
		observe := func(n int) {
			table.Observe(&querylog.Record{Digest: [16]byte{1, byte(n >> 8), byte(n)}, Normalized: []byte("SELECT ?"), Start: time.Now(), Total: time.Millisecond})
		}
		start := time.Now()
		d.start()
		for second := range 240 {
			observe(0)
			if second == 65 {
				for n := range 20_000 {
					observe(1 + n)
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * interval)
		d.end()
		before := 0.0
		for at := start.Add(3 * interval); at.Before(start.Add(240 * time.Second)); at = at.Add(interval / 3) {
			hot := fmt.Sprintf(`count_over_time(tare_queries_total{digest=%q}[%ds])`, fmt.Sprintf("%x", [16]byte{1}), 2*interval/time.Second)
			if d.value(hot, at) == 0 {
				t.Errorf("no sample of a known digest in the two intervals before %v", at.Sub(start))
			}
			sum := d.value("sum(tare_queries_total)", at)
			if sum < before {
				t.Errorf("at %v the sum falls from %v to %v", at.Sub(start), before, sum)
			}
			before = sum
		}
		if got := d.value("sum(tare_queries_total)", time.Now()); got != 240+20_000 {
			t.Errorf("the sum is %v, want %d", got, 240+20_000)
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
