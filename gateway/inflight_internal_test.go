package gateway

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
)

// TestBusyOfManySessions lists 10,000 sessions, and compares the lists with those of all sessions, sorted. The lists never
// hold more than twice their length.
func TestBusyOfManySessions(t *testing.T) {
	rng := testseed.Rand(t)
	now := time.Unix(1e9, 0)
	before := func() time.Time { return now.Add(-time.Duration(rng.IntN(1e6)) * time.Millisecond) }
	all := make([]SessionInfo, 10_000)
	for i := range all {
		s := &all[i]
		s.Number, s.Activity = uint64(i+1), Activity(rng.IntN(len(activityNames)))
		if s.InCommand() {
			s.Since = before()
		}
		if s.Activity == ActivityTransaction || s.InCommand() && rng.IntN(2) == 0 {
			s.Transaction = before()
		}
	}
	for _, limit := range []int{0, 1, 100, 1000, 20_000} {
		age := time.Duration(rng.IntN(100)) * time.Second
		b := Busy{At: now}
		for _, s := range all {
			b.add(s, limit, age)
			if len(b.Sessions) > 2*limit+longestListed || len(b.Longest) > 2*longestListed {
				t.Fatalf("limit %d: lists of %d and %d sessions", limit, len(b.Sessions), len(b.Longest))
			}
		}
		b.finish(limit)
		var busy, open []SessionInfo
		for _, s := range all {
			if s.InCommand() && !s.Since.After(now.Add(-age)) || s.Activity == ActivityTransaction {
				busy = append(busy, s)
			}
			if !s.Transaction.IsZero() {
				open = append(open, s)
			}
		}
		slices.SortFunc(busy, func(x, y SessionInfo) int {
			if x.InCommand() != y.InCommand() {
				return cmp.Compare(y.Activity, x.Activity)
			}
			return cmp.Or(x.oldest().Compare(y.oldest()), cmp.Compare(x.Number, y.Number))
		})
		slices.SortFunc(open, func(x, y SessionInfo) int {
			return cmp.Or(x.Transaction.Compare(y.Transaction), cmp.Compare(x.Number, y.Number))
		})
		if want := busy[:min(limit, len(busy))]; !slices.Equal(b.Sessions, want) || limit > 0 && b.Dropped != len(busy)-len(want) {
			t.Errorf("limit %d, age %v: %d sessions, %d dropped; want %d of %d", limit, age, len(b.Sessions), b.Dropped, len(want), len(busy))
		}
		if want := open[:min(limit, longestListed)]; !slices.Equal(b.Longest, want) {
			t.Errorf("limit %d: the longest transactions are not the first of all", limit)
		}
		if b.OldestTransaction != open[0].Transaction {
			t.Errorf("the oldest transaction is %v, want %v", b.OldestTransaction, open[0].Transaction)
		}
	}
}
