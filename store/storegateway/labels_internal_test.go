package storegateway

import (
	"slices"
	"strconv"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

// TestLimitedUnion compares unions of random lists with sorting them.
func TestLimitedUnion(t *testing.T) {
	rng := testseed.Rand(t)
	list := func() (texts []string) {
		for range rng.IntN(6) {
			texts = append(texts, strconv.Itoa(rng.IntN(10)))
		}
		return texts
	}
	for range 20_000 {
		b, limit := list(), rng.IntN(4)
		cut := func(texts []string) []string {
			if limit > 0 && len(texts) > limit {
				return texts[:limit]
			}
			return texts
		}
		a := list()
		slices.Sort(a)
		a = cut(slices.Compact(a))
		before, unsorted := slices.Clone(a), slices.Clone(b)
		got := limitedUnion(a, b, limit)
		want := slices.Concat(a, b)
		slices.Sort(want)
		if want = cut(slices.Compact(want)); !slices.Equal(got, want) || !slices.Equal(a, before) || !slices.Equal(b, unsorted) {
			t.Fatalf("union of %q and %q, limit %d: %q, want %q", a, b, limit, got, want)
		}
	}
}
