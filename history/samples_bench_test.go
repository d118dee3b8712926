package history

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkTopOfSamples asks for statements of 20,000 within an hour, of which a tenth was called in each minute: from the samples at both
// ends of the time, and for points from all between.
func BenchmarkTopOfSamples(b *testing.B) {
	const digests, rounds = 20_000, 60
	now := time.UnixMilli(1_700_000_000_000)
	rig := newRig(b, b.TempDir(), b.TempDir(), b.TempDir())
	m := newModel()
	o := rig.options(m)
	o.Now = func() time.Time { return now }
	o.Log = slog.New(slog.DiscardHandler)
	a, err := OpenArchive(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.Close() })
	r := rand.New(rand.NewPCG(1, 1))
	for round := range rounds {
		for n := range digests {
			if round == 0 || r.IntN(10) == 0 {
				m.call(n, now, time.Duration(r.ExpFloat64()*float64(5*time.Millisecond)), r.IntN(100) == 0)
			}
		}
		now = now.Add(time.Minute)
		if err := a.round(b.Context(), false); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		q    TopQuery
	}{
		{"50 to now", TopQuery{To: now}},
		{"50 of the past", TopQuery{To: now.Add(-10 * time.Minute)}},
		{"50 to now with points of the rows", TopQuery{To: now, Points: 120, RowPointsOnly: true}},
		{"50 to now with all points", TopQuery{To: now, Points: 120}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.From = now.Add(-50 * time.Minute)
			b.ReportAllocs()
			for b.Loop() {
				top, err := a.Top(b.Context(), c.q)
				if err != nil || len(top.Rows) == 0 || len(top.Notes) > 0 {
					b.Fatalf("%d rows, notes %q: %v", len(top.Rows), top.Notes, err)
				}
			}
		})
	}
}
