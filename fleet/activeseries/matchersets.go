package activeseries

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/taredb/tare/sizegen/heapsize"
)

// errMatcherSets is the error of Tracker.Add for a new combination of matchers after 65,535 others.
var errMatcherSets = errors.New("more than 65,535 combinations of matchers")

// matcherSets numbers the combinations of matchers that series satisfy. There are few, since most series
// satisfy the same ones, and a series then needs two bytes for all its matchers.
type matcherSets struct {
	matchers int
	shape    heapsize.MapShape

	mu      sync.RWMutex
	numbers map[string]uint16 // by members; guarded by mu
	members []string          // by number: the matchers as big-endian words, padded by noMatcher; guarded by mu
}

// noMatcher pads combinations to 16 bytes, from which on the allocator accounts for each string separately.
const noMatcher = math.MaxUint16

func (s *matcherSets) init(matchers int) {
	s.matchers = matchers
	s.shape = heapsize.ShapeOf[string, uint16]()
	s.numbers = map[string]uint16{}
}

// number returns the number of a combination. It allocates for a new one.
func (s *matcherSets) number(matchers []uint16) (uint16, error) {
	var space [64]byte
	key := space[:0]
	for i, m := range matchers {
		if int(m) >= s.matchers || i > 0 && m <= matchers[i-1] {
			panic("BUG: matchers of a series are not in order, or there are not so many")
		}
		key = binary.BigEndian.AppendUint16(key, m)
	}
	for len(key) < 16 {
		key = binary.BigEndian.AppendUint16(key, noMatcher)
	}
	s.mu.RLock()
	n, ok := s.numbers[string(key)]
	s.mu.RUnlock()
	if ok {
		return n, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.numbers[string(key)]; ok {
		return n, nil
	}
	if len(s.members) == math.MaxUint16 {
		return 0, errMatcherSets
	}
	n = uint16(len(s.members))
	set := string(key)
	s.members = append(s.members, set)
	s.numbers[set] = n
	return n, nil
}

// addCounts adds the series of each combination to the counts of its matchers.
func (s *matcherSets) addCounts(dst []int64, bySet []int32) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for set, n := range bySet {
		for set := s.members[set]; len(set) > 0; set = set[2:] {
			if m := uint16(set[0])<<8 | uint16(set[1]); m != noMatcher {
				dst[m] += int64(n)
			}
		}
	}
}

func (s *matcherSets) bytes() uintptr {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := heapsize.MapOf(s.shape, s.numbers) + heapsize.Array(uintptr(cap(s.members)), 16, true)
	for _, set := range s.members {
		n += heapsize.String(set)
	}
	return n
}
