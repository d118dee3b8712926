package stmtstats

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
)

// TestTail compares with merging all spreads, in any order.
func TestTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	var tail Tail
	for range 2000 {
		var all Histogram
		spreads := make([][]byte, rng.IntN(8))
		for i := range spreads {
			var h Histogram
			if rng.IntN(8) > 0 {
				median := float64(time.Duration(1) << rng.IntN(40))
				for range rng.IntN(300) {
					h.Record(time.Duration(median * rng.ExpFloat64()))
				}
			}
			all.Merge(&h)
			spreads[i] = h.AppendSpread(nil)
		}
		for _, q := range []float64{0, 0.5, 0.99, 0.999, 1} {
			tail.Begin(q, all.Count())
			for _, s := range spreads {
				if err := tail.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			got := time.Duration(0)
			if b := tail.Bucket(); b != zeroBucket {
				got = midOf(b)
			}
			if want := all.Quantile(q); got != want {
				t.Fatalf("quantile %v of %d: %v, want %v", q, all.Count(), got, want)
			}
		}
	}
}

// TestSpreadRefuses checks bytes that are not a spread, with readers of all of it and of its beginning.
func TestSpreadRefuses(t *testing.T) {
	var h Histogram
	r := testseed.Rand(t)
	for range 3000 {
		h.Record(time.Duration(r.ExpFloat64() * float64(time.Second)))
	}
	good := h.AppendSpread(nil)
	bad := [][]byte{
		{0x80}, {0, 0x80}, {0, 1}, {0, 1, 0x80}, {0, 1, 0}, // truncated, or a count of 0
		{0, 0xa0, 9, 1}, // bucket 1184 from the top
		append(slices.Clone(good), 0xff, 0xff, 0xff, 0x7f, 1), // below the lowest
	}
	for _, b := range bad {
		var tail Tail
		tail.Begin(0, 1<<40)
		if (&Histogram{}).AddSpread(b) == nil || tail.Add(b) == nil {
			t.Errorf("% x is taken for a spread", b[:min(len(b), 20)])
		}
	}
}
