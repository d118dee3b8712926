package heapsize

import (
	"cmp"
	"slices"
)

// findings are what a walk found besides bytes.
type findings struct {
	outside      int
	outsideBytes uintptr

	parts   int  // objects that were reached in part, and may hold more pointers
	pointed bool // one of them by a pointer
	part    span // the first of these or, if there is none, of the others
}

// Outside returns the number of visited objects that are not on the heap, and their bytes: constants and variables of
// the program, and memory of cgo or mmap. They are not charged.
func (w *Walk) Outside() (objects int, bytes int64) {
	w.settle()
	return w.found.outside, int64(w.found.outsideBytes)
}

// Parts returns the number of objects that the walk reached only in part, by pointers or slices into them, and that
// may point to more than the walk has seen. They are charged as a whole, but not the objects behind them.
func (w *Walk) Parts() int {
	w.settle()
	return w.found.parts
}

// Check returns an [Error] if the walk reached an object only by a pointer to a part of it: what the rest of the object
// points to is alive, and not counted. The error names the field of root, the pointer that the walk started from.
// Parts reached by slices are no error.
func (w *Walk) Check(root any) error {
	w.settle()
	if !w.found.pointed {
		return nil
	}
	return &Error{Where: pathTo(root, w.found.part.addr), Why: partError(w.found.part)}
}

// settle charges the objects of the visited spans.
func (w *Walk) settle() {
	if w.settled {
		return
	}
	w.settled, w.sum, w.found = true, 0, findings{}
	slices.SortFunc(w.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.base(), b.base()), cmp.Compare(a.addr, b.addr), cmp.Compare(b.size, a.size))
	})
	var lastTiny uintptr
	for i := 0; i < len(w.spans); {
		first := w.spans[i]
		end := i + 1
		switch first.kind {
		case within:
			for end < len(w.spans) && w.spans[end].base() == first.base() && w.spans[end].kind == within {
				end++
			}
			w.sum += uintptr(first.units) * 8
			if first.scanned {
				w.checkParts(w.spans[i:end])
			}
		case outside:
			w.found.outside++
			w.found.outsideBytes += first.size
		case alone:
			for ; end < len(w.spans) && w.spans[end].addr < first.end(); end++ {
				first.size = max(first.end(), w.spans[end].end()) - first.addr
				first.pointers = first.pointers || w.spans[end].pointers
			}
			if !first.pointers && first.size < tinyBlock {
				// Several tiny objects share a block: it is charged once.
				block := first.addr / tinyBlock
				if block == lastTiny {
					break
				}
				lastTiny = block
			}
			w.sum += Object(first.size, first.pointers)
		}
		i = end
	}
}

// checkParts records whether the spans of one object leave a part of it unseen.
func (w *Walk) checkParts(of []span) {
	first := of[0]
	size, whole := first.size, uintptr(first.units)*8
	seen := uintptr(first.before) <= classes().header
	slack := uintptr(first.slack)
	for _, s := range of[1:] {
		seen = seen && s.addr <= first.addr+size
		if s.end() > first.addr+size {
			size, slack = s.end()-first.addr, uintptr(s.slack)
		}
	}
	if seen && (Object(size, true) == whole || whole-size <= slack+classes().header) {
		return
	}
	w.found.parts++
	for _, s := range of {
		if !w.found.pointed && (!s.sliced || w.found.parts == 1) {
			w.found.part, w.found.pointed = s, !s.sliced
		}
	}
}
