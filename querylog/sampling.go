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
// The first three fields are conditions: an entry that meets one is logged for that reason.
// Of the others, OneIn logs a random part; when it is 0 they are logged only if no condition
// is set at all. PerDigest limits whatever has been chosen so far.
//
// Each line says by sample_factor how many entries it stands for when that is more than
// one; sums over a log, each value times its factor, estimate the sums over all entries that
// the conditions and OneIn let through.
type Sampling struct {
	SlowerThan   time.Duration // log what takes at least this long; 0: no condition
	MoreRowsThan uint64        // log what returns more rows; 0: no condition
	Errors       bool          // log what fails

	// OneIn logs one in so many of the entries that meet no condition.
	OneIn uint32

	// PerDigest is how many entries a second of one digest and reason are logged at
	// most. What is held back is added to the factor of the next one that is logged, so
	// rare digests are always seen and frequent ones still add up. 0: no limit.
	PerDigest uint32
}

// Validate says what is wrong with s.
func (s *Sampling) Validate() error {
	if s.SlowerThan < 0 {
		return errors.New("sampling: slower-than is negative")
	}
	return nil
}

// Reasons for which an entry is logged, as the field emit_reason says them.
const (
	emitAll    = "all"
	emitError  = "error"
	emitSlow   = "slow"
	emitRows   = "rows"
	emitSample = "sample"
)

// choose answers why an entry is logged and how many it stands for, or factor 0 when it is
// not logged.
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

// A limiter counts what is logged in the present second of each digest, for as many
// digests as it has room: its memory is fixed. A digest that has lost its place begins
// anew, which logs it more often, not less.
type limiter struct {
	perSecond uint32
	shards    [limiterShards]limiterShard
}

type limiterShard struct {
	mu   sync.Mutex
	sets [limiterSets][limiterWays]limit // under mu
	lost uint64                          // factors held back by entries that lost their place, under mu
	_    [64]byte
}

type limit struct {
	lo, hi uint64 // the digest, mixed with the reason; 0, 0: free
	second int64  // Unix time that count counts in
	count  uint32 // logged in that second
	held   uint64 // factors held back since the last one logged
}

// take answers the factor of an entry: its own and what was held back before it, or 0 when
// it is held back itself.
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

// find answers the entry of a digest, over the one that was logged longest ago when the
// digest has none.
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

// held is how many entries are held back now, and how many lost their place while held.
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
