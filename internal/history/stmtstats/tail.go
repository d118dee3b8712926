package stmtstats

import "math"

// A Tail finds the bucket of a high quantile over several spreads. It reads of each spread only the buckets
// that may be above it. A Tail can be reused: Begin resets it.
type Tail struct {
	rank  uint64 // the result is the highest bucket with at least this many durations in it and above it
	seen  uint64 // durations in counts
	found bool   // seen is at least rank
	floor int    // found: the result is not below it; else the lowest bucket with durations
	top   int    // the highest bucket with durations

	counts [NumBuckets]uint64 // of the buckets from floor to top; the others are 0
}

// Begin starts the search for the q-quantile of count durations.
func (t *Tail) Begin(q float64, count uint64) {
	if t.floor <= t.top {
		clear(t.counts[t.floor : t.top+1])
	}
	t.rank = count - rankOf(q, count) + 1
	t.seen, t.found, t.floor, t.top = 0, false, NumBuckets, -1
}

// rankOf returns the rank of the q-quantile among count sorted durations, from 1; 0 if there are none.
func rankOf(q float64, count uint64) uint64 {
	return min(max(uint64(math.Ceil(q*float64(count))), 1), count)
}

// Add adds a spread.
func (t *Tail) Add(spread []byte) error {
	if len(spread) == 0 {
		return nil
	}
	_, at := Uvarint(spread, 0)
	if at < 0 {
		return errSpread
	}
	above := NumBuckets
	for at < len(spread) {
		var gap, count uint64
		// Most numbers have one byte, and a function call for each would cost more than decoding it.
		if gap = uint64(spread[at]); gap < 0x80 {
			at++
		} else if gap, at = longUvarint(spread, at); at < 0 {
			return errSpread
		}
		if gap >= uint64(above) || at == len(spread) {
			return errSpread
		}
		if count = uint64(spread[at]); count < 0x80 {
			at++
		} else if count, at = longUvarint(spread, at); at < 0 {
			return errSpread
		}
		above -= int(gap) + 1
		if count == 0 {
			return errSpread
		}
		if t.found && above < t.floor {
			return nil
		}
		t.count(above, count)
	}
	return nil
}

// count adds to a bucket that is not below the floor.
func (t *Tail) count(bucket int, n uint64) {
	t.counts[bucket] += n
	t.seen += n
	t.top = max(t.top, bucket)
	if !t.found {
		t.floor = min(t.floor, bucket)
		t.found = t.seen >= t.rank
	}
	if t.found {
		for t.seen-t.counts[t.floor] >= t.rank {
			t.seen -= t.counts[t.floor]
			t.counts[t.floor] = 0
			t.floor++
		}
	}
}

// Bucket returns the bucket of the quantile.
func (t *Tail) Bucket() int {
	if !t.found {
		return zeroBucket
	}
	return t.floor
}
