package stmtstats

import "math"

// A Tail finds the bucket that a high quantile of several spreads together is in. It reads of each spread no more than the
// buckets that may be above it. It is a place to work in: Begin empties it.
type Tail struct {
	rank  uint64 // what is asked for is the highest bucket that has so many durations, together with those above it
	seen  uint64 // durations in counts
	found bool   // seen is not less than rank
	floor int    // found: no bucket below it may be the one; else the lowest that has any
	top   int    // the highest that has any

	counts [NumBuckets]uint64 // of the buckets from floor to top; the others are 0
}

// Begin has t look for the q-quantile of so many durations.
func (t *Tail) Begin(q float64, count uint64) {
	if t.floor <= t.top {
		clear(t.counts[t.floor : t.top+1])
	}
	t.rank = count - rankOf(q, count) + 1
	t.seen, t.found, t.floor, t.top = 0, false, NumBuckets, -1
}

// rankOf is which of so many durations, in order and from 1 on, is the q-quantile; 0 of none.
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
		// Most numbers are of one byte, and a function for each would cost more than they do.
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

// Bucket returns the one that was looked for.
func (t *Tail) Bucket() int {
	if !t.found {
		return zeroBucket
	}
	return t.floor
}
