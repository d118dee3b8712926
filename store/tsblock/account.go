package tsblock

import "github.com/taredb/tare/internal/slab"

// An account tracks the bytes that one owner has reserved of a query's quota, so that it can return exactly
// those. Without a quota nothing is bounded.
type account struct {
	quota *slab.Quota
	held  [3]int64 // of Postings, Series and Values
}

// reserve reserves n bytes of the quota.
func (a *account) reserve(what slab.Purpose, n int64) error {
	if a.quota == nil || n == 0 {
		return nil
	}
	if err := a.quota.Reserve(what, n); err != nil {
		return err
	}
	a.held[slotOf(what)] += n
	return nil
}

// release returns n bytes to the quota.
func (a *account) release(what slab.Purpose, n int64) {
	if a.quota == nil || n == 0 {
		return
	}
	a.held[slotOf(what)] -= n
	a.quota.Return(what, n)
}

// close returns all reserved bytes.
func (a *account) close() {
	for _, what := range [...]slab.Purpose{slab.Postings, slab.Series, slab.Values} {
		a.release(what, a.held[slotOf(what)])
	}
}

func slotOf(what slab.Purpose) int {
	switch what {
	case slab.Postings:
		return 0
	case slab.Series:
		return 1
	case slab.Values:
		return 2
	}
	panic("BUG: an index needs no bytes for " + what.String())
}
