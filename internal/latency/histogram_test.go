package latency

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
)

// TestBucketsCoverEveryDuration tests the boundaries of all powers of two: a bucket's middle falls into that
// bucket, and buckets are monotonic.
func TestBucketsCoverEveryDuration(t *testing.T) {
	last := -1
	for shift := range maxBits {
		for _, off := range []int64{-1, 0, 1} {
			ns := int64(1)<<shift + off
			if ns < 0 {
				continue
			}
			b := bucketOf(uint64(ns))
			if b < last && off >= 0 {
				t.Fatalf("%d ns is in bucket %d, a shorter duration in %d", ns, b, last)
			}
			last = max(last, b)
			if got := bucketOf(uint64(middleOf(b))); got != b {
				t.Errorf("the middle of bucket %d (%v) is in bucket %d", b, middleOf(b), got)
			}
		}
	}
	if got := bucketOf(1 << 62); got != buckets-1 {
		t.Errorf("the longest duration is in bucket %d, want the last, %d", got, buckets-1)
	}
}

// TestQuantilesAgreeWithSorting compares with the exact result on durations from nanoseconds to minutes.
func TestQuantilesAgreeWithSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var h, part1, part2 Histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(rng.Int64N(1 << (1 + rng.IntN(36))))
		all = append(all, d)
		h.Record(d)
		if i%3 == 0 {
			part1.Record(d)
		} else {
			part2.Record(d)
		}
	}
	part1.Merge(&part2)
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, int(q*float64(len(all))+0.999999)-1)]
		got := h.Quantile(q)
		if off := (got - want).Abs(); float64(off) > float64(want)/128+1 {
			t.Errorf("quantile %v is %v, exactly %v: off by more than 1/128", q, got, want)
		}
		if merged := part1.Quantile(q); merged != got {
			t.Errorf("quantile %v of two merged halves is %v, of the whole %v", q, merged, got)
		}
	}
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	if h.Count() != 20_000 || h.Sum() != sum || h.Max() != all[len(all)-1] || h.Mean() != sum/20_000 {
		t.Errorf("count %d, sum %v, max %v, mean %v; want 20000, %v, %v, %v", h.Count(), h.Sum(), h.Max(), h.Mean(), sum, all[len(all)-1], sum/20_000)
	}
}

func TestEmptyHistogramReturnsZero(t *testing.T) {
	var h Histogram
	if h.Quantile(0.99) != 0 || h.Mean() != 0 || h.Max() != 0 {
		t.Errorf("an empty histogram answers p99 %v, mean %v, max %v; want zeros", h.Quantile(0.99), h.Mean(), h.Max())
	}
	h.Record(-time.Second)
	if h.Count() != 1 || h.Sum() != 0 {
		t.Errorf("a negative duration gives count %d, sum %v; want 1, 0s", h.Count(), h.Sum())
	}
}

func TestAllocs(t *testing.T) {
	var h, sum Histogram
	alloctest.Run(t, []alloctest.Case{
		{Name: "Record", Op: func() error {
			before := h.Count()
			if h.Record(time.Millisecond); h.Count() != before+1 {
				return errors.New("the count did not grow by one")
			}
			return nil
		}},
		{Name: "Quantile", Op: func() error {
			h.Record(time.Millisecond)
			if got := h.Quantile(0.5); got < 990*time.Microsecond || got > 1010*time.Microsecond {
				return fmt.Errorf("median %v, want about 1ms", got)
			}
			return nil
		}},
		{Name: "Merge", Op: func() error {
			before := sum.Count()
			if sum.Merge(&h); sum.Count() != before+h.Count() {
				return errors.New("the count did not grow by the other's")
			}
			return nil
		}},
	})
}

func ExampleHistogram() {
	var h Histogram
	for ms := range 100 {
		h.Record(time.Duration(ms) * time.Millisecond)
	}
	fmt.Println(h.Count(), h.Quantile(0.5).Round(time.Millisecond), h.Max())
	// Output: 100 49ms 99ms
}

func BenchmarkRecord(b *testing.B) {
	b.ReportAllocs()
	var h Histogram
	d := time.Duration(1)
	for b.Loop() {
		h.Record(d)
		d = d*5%(1<<40) + 1
	}
}
