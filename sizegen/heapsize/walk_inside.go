package heapsize

import "unsafe"

// Inside records size bytes at p, which according to the caller are offset bytes into an object of whole
// bytes: a slice of an array field, or the target of a pointer to a field. It reports whether this is the
// first visit. An object that is never reached as a whole is charged whole, without the objects behind its
// other fields. If no object of that size can start offset bytes before p, or before the p of another call on
// the same page, the size bytes are charged as a separate object.
func (w *Walk) Inside(p unsafe.Pointer, size, offset, whole uintptr, pointers bool) bool {
	if p == nil || size == 0 {
		return false
	}
	apart := whole > 0 && !startsObject(uintptr(p)-offset, whole, pointers)
	w.apart = w.apart || apart
	return w.visit(span{addr: uintptr(p), size: size, whole: uint32(min(whole, 1<<32-1)), pointers: pointers, apart: apart})
}

// separateParts makes separate objects of the spans that are apart, and of those on their pages for which the
// same was stated: all objects of a page have the same class. The spans are sorted.
func (w *Walk) separateParts() {
	if !w.apart {
		return
	}
	page := classes().page
	for i := 0; i < len(w.spans); {
		var refuted uint32
		end := i
		for ; end < len(w.spans) && w.spans[end].addr/page == w.spans[i].addr/page; end++ {
			if s := &w.spans[end]; s.apart {
				refuted = s.whole
			}
		}
		for ; i < end; i++ {
			if s := &w.spans[i]; s.apart || s.whole == refuted {
				s.whole = 0
			}
		}
	}
}

// InsideSlice is [Walk.Inside] for the array behind s, if the capacity of s is at most most.
// A slice of larger capacity has a separate array.
func InsideSlice[T any](w *Walk, s []T, most int, offset, whole uintptr, pointers bool) bool {
	if cap(s) > most {
		whole = 0
	} else {
		// s may start after the first element.
		offset += uintptr(most-cap(s)) * unsafe.Sizeof(*new(T))
	}
	return w.Inside(unsafe.Pointer(unsafe.SliceData(s)), uintptr(cap(s))*unsafe.Sizeof(*new(T)), offset, whole, pointers)
}

// startsObject reports whether an object of size bytes may start at p. Objects of one class are adjacent from
// the start of a span: of one page for classes up to 1 KiB, of at most ten for others. Few addresses that are
// not starts pass, which separateParts finds mostly; the tests check both on each Go release.
func startsObject(p, size uintptr, pointers bool) bool {
	if size == 0 || nearVariables(p) {
		return false
	}
	class, t := Object(size, pointers), classes()
	if class > largestSmall {
		return p%t.page == 0
	}
	if pointers && size > t.headerPast {
		p -= t.header
	}
	spanBytes := t.page
	if class > 1024 {
		spanBytes *= 10
	}
	for at := p % t.page; at < spanBytes; at += t.page {
		if at%class == 0 {
			return true
		}
	}
	return false
}

// nearVariables reports whether p may be in the program's variables, whose arrays are not parts of objects. On
// 64-bit systems the heap is far from them.
func nearVariables(p uintptr) bool {
	const reach = 256 << 20 // at least the size of the program
	variable := uintptr(unsafe.Pointer(&classes))
	return wordSize == 8 && p+reach-variable < 2*reach
}
