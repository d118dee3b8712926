package querylog

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Sampling chooses which entries are logged. The zero value logs all of them.
//
// The first three fields are conditions: an entry that meets one is logged for that reason. Of the others,
// OneIn logs a random part; if it is 0 they are logged only if no condition is set at all. PerDigest limits
// the entries chosen so far.
//
// The field sample_factor is the number of entries that a line represents, if more than one. Sums over a log,
// each value times its factor, estimate the sums over all entries that pass the conditions and OneIn.
type Sampling struct {
	SlowerThan   time.Duration // log entries that take at least this long; 0: no condition
	MoreRowsThan uint64        // log entries with more rows; 0: no condition
	Errors       bool          // log failed entries

	// OneIn logs one in OneIn of the entries that meet no condition.
	OneIn uint32

	// PerDigest is the maximum number of logged entries per second for one digest and reason. Suppressed
	// entries are added to the factor of the next logged one, so rare digests are always visible and frequent
	// ones still add up. 0: no limit.
	PerDigest uint32
}

// validate returns an error if s is invalid.
func (s *Sampling) validate() error {
	if s.SlowerThan < 0 {
		return errors.New("sampling: slower-than is negative")
	}
	return nil
}

// Reasons for logging an entry, the values of the field emit_reason.
const (
	emitAll    = "all"
	emitError  = "error"
	emitSlow   = "slow"
	emitRows   = "rows"
	emitSample = "sample"
)

// choose returns the reason for logging an entry and the number of entries it represents, or factor 0 if it
// is not logged.
func (s *Sampling) choose(f *Facts) (reason string, factor uint64) {
	switch {
	case s.Errors && f.Failed:
		return emitError, 1
	case s.SlowerThan > 0 && f.Total >= s.SlowerThan:
		return emitSlow, 1
	case s.MoreRowsThan > 0 && f.Rows > s.MoreRowsThan:
		return emitRows, 1
	case s.OneIn > 1:
		if rand.Uint32N(s.OneIn) != 0 {
			return "", 0
		}
		return emitSample, uint64(s.OneIn)
	case s.OneIn == 0 && (s.Errors || s.SlowerThan > 0 || s.MoreRowsThan > 0):
		return "", 0
	}
	return emitAll, 1
}

const (
	limiterShards = 64
	limiterSets   = 16 // in each shard
	limiterWays   = 4  // entries in each set
)

// A limiter counts the logged entries of each digest in the current second. Its memory is fixed. A digest
// that was evicted starts over, so it is logged more often, not less.
type limiter struct {
	perSecond uint32
	shards    [limiterShards]limiterShard
}

type limiterShard struct {
	mu   sync.Mutex
	sets [limiterSets][limiterWays]limit // under mu
	lost uint64                          // factors suppressed by evicted entries, under mu
	_    [64]byte
}

type limit struct {
	lo, hi uint64 // the digest, mixed with the reason; 0, 0: free
	second int64  // Unix time that count refers to
	count  uint32 // logged in that second
	held   uint64 // factors suppressed since the last logged one
}

// take returns the factor of an entry: its own plus those suppressed before it, or 0 if it is suppressed
// itself.
func (l *limiter) take(f *Facts, reason string, factor uint64) uint64 {
	lo := binary.LittleEndian.Uint64(f.Digest[:8])
	hi := binary.LittleEndian.Uint64(f.Digest[8:]) ^ uint64(reason[0])<<8 | 1
	h := mix(lo ^ hi)
	sh := &l.shards[h%limiterShards]
	second := f.End.Unix()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(h/limiterShards%limiterSets, lo, hi)
	if e.second != second {
		e.second, e.count = second, 0
	}
	if e.count >= l.perSecond {
		e.held += factor
		return 0
	}
	e.count++
	factor += e.held
	e.held = 0
	return factor
}

// find returns the entry of a digest. If there is none, it evicts the entry logged longest ago.
func (s *limiterShard) find(set, lo, hi uint64) *limit {
	ways := &s.sets[set]
	oldest := &ways[0]
	for i := range ways {
		e := &ways[i]
		if e.lo == lo && e.hi == hi {
			return e
		}
		if e.second < oldest.second {
			oldest = e
		}
	}
	s.lost += oldest.held
	*oldest = limit{lo: lo, hi: hi}
	return oldest
}

// held returns the number of currently suppressed entries, and of those whose digest was evicted.
func (l *limiter) held() (now, lost uint64) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for k := range s.sets {
			for w := range s.sets[k] {
				now += s.sets[k][w].held
			}
		}
		lost += s.lost
		s.mu.Unlock()
	}
	return now, lost
}
