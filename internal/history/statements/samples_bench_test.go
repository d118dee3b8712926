package statements_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/statements"
)

// BenchmarkTopOfSamples ranks 20,000 statements within an hour, a tenth of which was called in each minute:
// from the samples at both ends of the range, and with points from all samples in between.
func BenchmarkTopOfSamples(b *testing.B) {
	const digests, rounds = 20_000, 60
	now := time.UnixMilli(1_700_000_000_000)
	r := newRig(b, digests)
	r.options.Now = func() time.Time { return now }
	r.open()
	b.Cleanup(func() { _ = r.archive.Close() })
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range rounds {
		for n := range digests {
			if round == 0 || rng.IntN(10) == 0 {
				r.call(n, time.Duration(rng.ExpFloat64()*float64(5*time.Millisecond)), rng.IntN(100) == 0)
			}
		}
		now = now.Add(time.Minute)
		r.write()
	}
	for _, c := range []struct {
		name string
		q    statements.TopQuery
	}{
		{"50 to now", statements.TopQuery{To: now}},
		{"50 of the past", statements.TopQuery{To: now.Add(-10 * time.Minute)}},
		{"50 to now with points of the rows", statements.TopQuery{To: now, Points: 120, RowPointsOnly: true}},
		{"50 to now with all points", statements.TopQuery{To: now, Points: 120}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.From = now.Add(-50 * time.Minute)
			b.ReportAllocs()
			for b.Loop() {
				top, err := r.reader.Top(b.Context(), c.q)
				if err != nil || len(top.Rows) == 0 || len(top.Notes) > 0 {
					b.Fatalf("%d rows, notes %q: %v", len(top.Rows), top.Notes, err)
				}
			}
		})
	}
}
