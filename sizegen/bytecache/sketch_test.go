package bytecache

import (
	"math/rand/v2"
	"testing"
)

func TestSketchCounts(t *testing.T) {
	s := newSketch(minGroups)
	for n := range uint32(20) {
		if got := s.estimate(42); got != min(n, maxFrequency) {
			t.Fatalf("after %d additions the estimate is %d", n, got)
		}
		s.add(42, 1)
	}
	s.add(43, 100)
	if got := s.estimate(43); got != maxFrequency {
		t.Errorf("after 100 additions at once the estimate is %d", got)
	}
}

// TestSketchAges checks that halving does not carry a bit into the neighboring counter.
func TestSketchAges(t *testing.T) {
	s, r := newSketch(minGroups), rand.New(rand.NewPCG(11, 12))
	for i := range s.words {
		s.words[i] = r.Uint64()
	}
	before := append([]uint64(nil), s.words...)
	s.age()
	for i, w := range s.words {
		for shift := 0; shift < 64; shift += 4 {
			if got, want := w>>shift&15, before[i]>>shift&15/2; got != want {
				t.Fatalf("word %d, counter %d: %d became %d", i, shift/4, before[i]>>shift&15, got)
			}
		}
	}
	s.added = s.period - 1
	s.add(1, 1)
	if s.added != s.period/2 {
		t.Errorf("after a period %d of %d additions are left", s.added, s.period)
	}
}

// TestSketchNeverTooLow checks that estimates are never too low.
func TestSketchNeverTooLow(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	s := newSketch(64)
	counts := map[uint64]uint32{}
	for range s.period - 1 {
		h := rng.Uint64N(2000) * 0x9E3779B97F4A7C15
		counts[h]++
		s.add(h, 1)
	}
	for _, groups := range []int{64, 512, 8192, 64, 8} {
		s = s.resized(groups)
		over := 0
		for h, n := range counts {
			switch got := s.estimate(h); {
			case got < min(n, maxFrequency):
				t.Fatalf("%d groups: counted %d times, estimate %d", groups, n, got)
			case got > n+2:
				over++
			}
		}
		if groups >= 64 && over > len(counts)/4 {
			t.Errorf("%d groups: %d of %d estimates are far too high", groups, over, len(counts))
		}
	}
}

// TestSketchResized keeps the estimates and the additions since the counters were halved, below the number that halves them.
func TestSketchResized(t *testing.T) {
	s := newSketch(4 * minGroups)
	for hash := range uint64(30) {
		s.add(hash, uint32(hash%maxFrequency)+1)
	}
	for _, groups := range []int{minGroups, 2 * minGroups, 4 * minGroups, 8 * minGroups} {
		for _, added := range []int{0, 5, newSketch(groups).period - 1, newSketch(groups).period, s.period} {
			s.added = added
			r := s.resized(groups)
			if want := min(added, newSketch(groups).period-1); r.added != want {
				t.Errorf("%d groups after %d additions: %d, want %d", groups, added, r.added, want)
			}
			for hash := range uint64(30) {
				if got, want := r.estimate(hash), s.estimate(hash); got < want || groups >= 4*minGroups && got != want {
					t.Errorf("%d groups: an estimate of %d, want %d", groups, got, want)
				}
			}
		}
	}
}
