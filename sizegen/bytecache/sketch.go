package bytecache

import "github.com/taredb/tare/sizegen/heapsize"

const (
	// maxFrequency is the largest value of a four-bit counter.
	maxFrequency = 15

	// wordsPerGroup is the sketch's size relative to the table: 64 counters for a group of 7 slots.
	wordsPerGroup = 4

	// blockWords is one cache line: the four counters of a hash are in one block.
	blockWords = 8

	agingFactor = 10
)

// A sketch estimates how often a hash occurred recently: a count-min sketch of four-bit counters, sixteen per
// word, all halved after a number of additions in proportion to its width.
type sketch struct {
	words  []uint64 // a power of two, at least one block
	added  int
	period int
}

func newSketch(groups int) sketch {
	words := groups * wordsPerGroup
	return sketch{words: make([]uint64, words), period: agingFactor * tableRoom(groups)}
}

func sketchBytes(groups int) int64 {
	return int64(heapsize.Array(uintptr(groups*wordsPerGroup), 8, false))
}

// counter returns the word and the shift of the i-th of the four counters of a hash: each uses two separate
// words of the block.
func (s *sketch) counter(hash uint64, i uint) (word *uint64, shift uint64) {
	// The table uses the low bits; these are mixed again.
	h := hash * 0xD6E8FEB86659FD93
	h ^= h >> 32
	block := h & uint64(len(s.words)/blockWords-1) * blockWords
	pick := h * 0x9E3779B97F4A7C15 >> (8 * i) >> 24
	return &s.words[block+uint64(2*i)+pick&1], pick >> 1 & 15 * 4
}

// add counts hash n times.
func (s *sketch) add(hash uint64, n uint32) {
	for i := range uint(4) {
		word, shift := s.counter(hash, i)
		have := *word >> shift & maxFrequency
		more := min(uint64(n), maxFrequency-have)
		*word += more << shift
	}
	if s.added += int(n); s.added >= s.period {
		s.age()
	}
}

// estimate returns how often hash was counted, at most maxFrequency.
func (s *sketch) estimate(hash uint64) uint32 {
	least := uint64(maxFrequency)
	for i := range uint(4) {
		word, shift := s.counter(hash, i)
		least = min(least, *word>>shift&maxFrequency)
	}
	return uint32(least)
}

// age halves all counters. The mask keeps a counter's low bit from becoming its neighbor's high one.
func (s *sketch) age() {
	for i := range s.words {
		s.words[i] = s.words[i] >> 1 & 0x7777_7777_7777_7777
	}
	s.added /= 2
}

// resized returns a sketch for another number of groups with the same estimates: a larger one repeats the
// counters, a smaller one keeps the maximum of those that are merged.
func (s *sketch) resized(groups int) sketch {
	r := newSketch(groups)
	for i := range max(len(r.words), len(s.words)) {
		to, from := &r.words[i&(len(r.words)-1)], s.words[i&(len(s.words)-1)]
		for shift := 0; shift < 64; shift += 4 {
			c := max(*to>>shift&maxFrequency, from>>shift&maxFrequency)
			*to = *to&^(maxFrequency<<shift) | c<<shift
		}
	}
	r.added = min(s.added, r.period-1)
	return r
}
