package stmtstats

// A pageStack is the numbers of the pages that are nobody's. It is the heap's: a file tells whose
// a page is by who points to it.
type pageStack struct {
	numbers []uint32 // with room for every page
}

func (s *pageStack) free() int { return len(s.numbers) }

func (s *pageStack) take() uint32 {
	last := len(s.numbers) - 1
	n := s.numbers[last]
	s.numbers = s.numbers[:last]
	return n
}

func (s *pageStack) put(n uint32) { s.numbers = append(s.numbers, n) }

// fill makes free all pages that have no owner, the lowest on top.
func (s *pageStack) fill(owned []bool) {
	s.numbers = make([]uint32, 0, len(owned))
	for n := len(owned) - 1; n > 0; n-- {
		if !owned[n] {
			s.put(uint32(n))
		}
	}
}

// clear zeroes the buckets of a page that nobody has found yet.
func (p *page) clear() {
	for i := range p {
		p[i].Store(0)
	}
}
