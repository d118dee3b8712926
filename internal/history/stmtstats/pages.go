package stmtstats

// A pageStack has the numbers of the free pages, on the heap. In the file, a page is free if nothing refers
// to it.
type pageStack struct {
	numbers []uint32 // with capacity for every page
}

func (s *pageStack) free() int { return len(s.numbers) }

func (s *pageStack) take() uint32 {
	last := len(s.numbers) - 1
	n := s.numbers[last]
	s.numbers = s.numbers[:last]
	return n
}

func (s *pageStack) put(n uint32) { s.numbers = append(s.numbers, n) }

// fill frees all pages without an owner, the lowest on top.
func (s *pageStack) fill(owned []bool) {
	s.numbers = make([]uint32, 0, len(owned))
	for n := len(owned) - 1; n > 0; n-- {
		if !owned[n] {
			s.put(uint32(n))
		}
	}
}

// clear zeroes the buckets of a page to which nothing refers yet.
func (p *page) clear() {
	for i := range p {
		p[i].Store(0)
	}
}
