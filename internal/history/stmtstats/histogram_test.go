package stmtstats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestBucketsArePrometheus records durations of all sizes and compares each with the bounds of its bucket by
// Prometheus' code.
func TestBucketsArePrometheus(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	durations := []time.Duration{0, 1, 953, 954, 955, time.Second, 2 * time.Second, time.Second / 2, time.Second / 4, time.Hour, 36 * time.Hour}
	for range 20_000 {
		durations = append(durations, time.Duration(rng.Int64N(1<<(1+rng.IntN(46)))))
	}
	for _, d := range durations {
		h.Reset()
		h.Record(d)
		n := h.Native()
		if err := n.Validate(); err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		seconds := float64(d) / 1e9
		if seconds <= n.ZeroThreshold {
			if n.ZeroCount != 1 || n.Count != 1 || len(n.PositiveBuckets) != 0 {
				t.Fatalf("%v is not in the zero bucket: %v", d, n)
			}
			continue
		}
		found := false
		for it := n.PositiveBucketIterator(); it.Next(); {
			b := it.At()
			if b.Count == 0 {
				continue
			}
			found = true
			if seconds <= b.Lower || seconds > b.Upper {
				t.Fatalf("%v is counted in (%v, %v]", d, b.Lower, b.Upper)
			}
			if b.Upper/b.Lower > 1.0220 {
				t.Fatalf("the bucket (%v, %v] is wider than 2.2 %%", b.Lower, b.Upper)
			}
		}
		if !found || n.Count != 1 || n.Sum != seconds {
			t.Fatalf("%v: %v", d, n)
		}
	}
	h.Reset()
	h.Record(math.MaxInt64)
	if h.Count() != 1 || h.Buckets[NumBuckets-1] != 1 {
		t.Error("what takes longer than 36 hours is not in the last bucket")
	}
}

// TestNativeHoldsEveryBucket compares the sparse form with the dense one.
func TestNativeHoldsEveryBucket(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var h, half Histogram
		for range rng.IntN(2000) {
			d := time.Duration(math.Exp(rng.NormFloat64()*float64(seed%5)) * 1e6)
			if h.Record(d); rng.IntN(2) == 0 {
				half.Record(d)
			}
		}
		n := h.Native()
		if err := n.Validate(); err != nil {
			t.Fatal(err)
		}
		total, at := n.ZeroCount, map[int32]uint64{}
		for it := n.PositiveBucketIterator(); it.Next(); {
			b := it.At()
			total += b.Count
			at[b.Index] = b.Count
		}
		for b, want := range h.Buckets {
			if got := at[int32(b+1+FirstOctave*PerOctave)]; got != want {
				t.Fatalf("bucket %d holds %d, want %d", b, got, want)
			}
		}
		if total != h.Count() || n.Count != total {
			t.Fatalf("count %d, buckets %d, want %d", n.Count, total, h.Count())
		}
		twice := h.Count() + half.Count()
		if h.Merge(&half); h.Count() != twice {
			t.Fatalf("merged: %d, want %d", h.Count(), twice)
		}
	}
}

// TestQuantilesWithinOneBucket compares quantiles up to 0.999 with sorted durations.
func TestQuantilesWithinOneBucket(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var h Histogram
	var all []time.Duration
	for range 50_000 {
		d := time.Duration(math.Exp(rng.NormFloat64()*1.5) * float64(2*time.Millisecond))
		h.Record(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
		if got := h.Quantile(q); math.Abs(float64(got-want)) > 0.022*float64(want) {
			t.Errorf("quantile %v is %v, want %v within 2.2 %%", q, got, want)
		}
	}
	h.Reset()
	if h.Quantile(0.5) != 0 || h.Count() != 0 || h.Sum() != 0 {
		t.Error("an empty histogram is not empty")
	}
}

func ExampleHistogram() {
	var h Histogram
	for ms := range 100 {
		h.Record(time.Duration(ms+1) * time.Millisecond)
	}
	fmt.Println(h.Count(), h.Sum(), h.Quantile(0.5).Round(time.Millisecond), h.Native().Schema)
	// Output: 100 5.05 50ms 5
}

func FuzzBucketOf(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(time.Second))
	f.Add(int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, ns int64) {
		d := time.Duration(max(ns, 0))
		b, seconds := BucketOf(d), float64(d)/1e9
		switch {
		case b == zeroBucket:
			if seconds > ZeroThreshold {
				t.Errorf("%v is in the zero bucket", d)
			}
		case seconds <= BoundOf(b-1), seconds > BoundOf(b) && b < NumBuckets-1:
			t.Errorf("%v is in (%v, %v]", d, BoundOf(b-1), BoundOf(b))
		}
	})
}
