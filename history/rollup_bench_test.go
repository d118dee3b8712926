package history

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"
)

// benchRollups writes seven days of rollups of so many digests, each hour of which has all of them, into an archive that has
// no samples.
func benchRollups(b *testing.B, digests int) (a *Archive, now time.Time) {
	b.Helper()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	now = start.Add(7*24*time.Hour + 10*time.Hour)
	rig := newRig(b, b.TempDir(), b.TempDir(), b.TempDir())
	o := rig.options(newModel())
	o.Now = func() time.Time { return now }
	o.Log = slog.New(slog.DiscardHandler)
	a, err := OpenArchive(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.Close() })
	rng := rand.New(rand.NewPCG(1, 2))
	up := &rollup{}
	for n := range digests {
		k := Key{Schema: "shop", User: "app", Backend: "127.0.0.1:3306"}
		binary.BigEndian.PutUint64(k.Digest[:], rng.Uint64())
		var h Histogram
		for range 200 {
			h.Record(time.Duration(float64(time.Millisecond) * (0.5 + rng.ExpFloat64())))
		}
		up.rows = append(up.rows, rollupRow{
			print: printOf(&k), key: k, text: fmt.Sprintf("SELECT c%d FROM t WHERE id = ? AND name = ? ORDER BY created LIMIT ?", n),
			counts: counts{calls: 200, nanos: h.nanos + rng.Uint64N(1e9), rowsSent: 300, bytesSent: rng.Uint64N(1e6)}, spread: h.appendSpread(nil),
		})
	}
	for at := start; at.Before(now); at = at.Add(time.Hour) {
		for i := range up.rows {
			up.rows[i].last = at.UnixMilli() + 1000
		}
		up.start, up.span = at, rollupHour
		if err := a.rollups.write(up); err != nil {
			b.Fatal(err)
		}
		if at.Add(time.Hour).Truncate(rollupDay).Equal(at.Add(time.Hour)) {
			up.start, up.span = at.Truncate(rollupDay), rollupDay
			if err := a.rollups.write(up); err != nil {
				b.Fatal(err)
			}
		}
	}
	a.rollups.done = now
	return a, now
}

// BenchmarkTop asks for the 50 statements with the most time of 20,000 within seven days that begin and end within days: from six
// files of days and 24 of hours.
func BenchmarkTop(b *testing.B) {
	a, now := benchRollups(b, 20_000)
	for _, c := range []struct {
		name string
		q    TopQuery
	}{
		{"50 of 7 days", TopQuery{}},
		{"50 of 7 days with points", TopQuery{Points: 84}},
		{"50 of 7 days by p99", TopQuery{By: ByP99}},
		{"50 of 7 days with a word", TopQuery{Filter: "c777"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.From, c.q.To = now.Add(-7*24*time.Hour), now
			b.ReportAllocs()
			for b.Loop() {
				top, err := a.Top(b.Context(), c.q)
				if err != nil || top.Matching == 0 || len(top.Notes) > 0 {
					b.Fatalf("%+v: %v", top, err)
				}
			}
		})
	}
}
