package tsblock

import "sync/atomic"

// maxEstimate bounds what is read for a chunk whose end nothing tells.
const maxEstimate = 64 << 10

// leastEstimate is a little more than what Prometheus' chunks of floats take at most, so that
// a block of which only short chunks were read is not read twice where it has others.
const leastEstimate = 1280

// chunkLengths are what the chunks of a block that have been read take. Loads at the same time can
// miss what the other learned: the plans that are made with them are guesses anyway.
type chunkLengths struct {
	average, longest atomic.Int64 // bytes; 0 before the first
}

// learn takes in that n chunks of a range take that many bytes, and the longest of them. The average follows a
// range that differs by an eighth, and the longest goes down by a sixteenth, so that
// neither stays with what was exceptional.
func (l *chunkLengths) learn(n, bytes, longest int64) {
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

// mean returns about what a chunk takes, and otherwise when none has been read.
func (l *chunkLengths) mean(otherwise int64) int64 {
	if n := l.average.Load(); n > 0 {
		return n
	}
	return otherwise
}

// estimate returns what a chunk is most likely not to exceed.
func (l *chunkLengths) estimate() int64 {
	n := l.longest.Load()
	if n == 0 {
		return DefaultEstimate
	}
	return min(max(n+n/4, leastEstimate), maxEstimate)
}
