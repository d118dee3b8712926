package heapsize

// visit records s and reports whether it is new.
func (w *Walk) visit(s span) bool {
	if 4*(len(w.spans)+1) > 3*len(w.index) {
		w.growIndex()
	}
	i := w.slot(s)
	if w.index[i] != 0 {
		return false
	}
	w.settled = false
	w.spans = append(w.spans, s)
	w.index[i] = uint32(len(w.spans))
	return true
}

// slot returns the position of s in the index, or the free position for it.
func (w *Walk) slot(s span) uint64 {
	mask := uint64(len(w.index) - 1)
	// Fibonacci hashing: addresses differ in their middle bits.
	i := (uint64(s.addr)>>3 ^ uint64(s.size)<<40) * 0x9E3779B97F4A7C15 >> 32 & mask
	for ; w.index[i] != 0; i = (i + 1) & mask {
		if v := &w.spans[w.index[i]-1]; v.addr == s.addr && v.size == s.size {
			break
		}
	}
	return i
}

func (w *Walk) growIndex() {
	w.index = make([]uint32, max(64, 2*len(w.index)))
	for i, s := range w.spans {
		w.index[w.slot(s)] = uint32(i + 1)
	}
}
