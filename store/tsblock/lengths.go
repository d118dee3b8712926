package tsblock

import "sync/atomic"

// maxEstimate bounds the bytes read for a chunk whose end is unknown.
const maxEstimate = 64 << 10

// leastEstimate is slightly more than the maximum of Prometheus' float chunks. It keeps a block of which only
// short chunks were read so far from being read twice when it has longer ones.
const leastEstimate = 1280

// chunkLengths estimates the length of a block's chunks from those that were read. A load updates it once, after its
// last range: the next plan is independent of the order in which ranges arrive. Concurrent loads may miss each
// other's updates, which only makes the estimates less precise.
type chunkLengths struct {
	average, longest atomic.Int64 // in bytes; 0 before the first chunk
}

// A loadLengths has the number of chunks of a load, their bytes, and the length of the longest.
type loadLengths struct {
	n, bytes, longest atomic.Int64
}

// add adds the chunks of a range.
func (l *loadLengths) add(n, bytes, longest int64) {
	l.n.Add(n)
	l.bytes.Add(bytes)
	for {
		before := l.longest.Load()
		if longest <= before || l.longest.CompareAndSwap(before, longest) {
			return
		}
	}
}

// learn records the chunks of a load. The average follows it by an eighth of the difference, and the longest decays
// by a sixteenth, so that neither keeps the value of an exception.
func (l *chunkLengths) learn(of *loadLengths) {
	n, bytes, longest := of.n.Load(), of.bytes.Load(), of.longest.Load()
	if n == 0 {
		return
	}
	now, before := (bytes+n-1)/n, l.average.Load()
	if before > 0 {
		now = before + (now-before)/8
	}
	if now != before {
		l.average.Store(now)
	}
	if before = l.longest.Load(); longest < before {
		longest = before - (before-longest)/16
	}
	if longest != before {
		l.longest.Store(longest)
	}
}

// mean returns the average length of a chunk, or otherwise if none was read.
func (l *chunkLengths) mean(otherwise int64) int64 {
	if n := l.average.Load(); n > 0 {
		return n
	}
	return otherwise
}

// estimate returns a length that a chunk most likely does not exceed.
func (l *chunkLengths) estimate() int64 {
	n := l.longest.Load()
	if n == 0 {
		return defaultEstimate
	}
	return min(max(n+n/4, leastEstimate), maxEstimate)
}
