package heapsize

import "unsafe"

// Inside records size bytes at p, which according to the caller are offset bytes into an object of whole
// bytes: a slice of an array field, or the target of a pointer to a field. It reports whether this is the
// first visit. An object that is never reached as a whole is charged whole, without the objects behind its
// other fields. If no object of that size can start offset bytes before p, the size bytes are recorded as a
// separate object.
func (w *Walk) Inside(p unsafe.Pointer, size, offset, whole uintptr, pointers bool) bool {
	if p == nil || size == 0 {
		return false
	}
	if !startsObject(uintptr(p)-offset, whole, pointers) {
		whole = 0
	}
	return w.visit(span{addr: uintptr(p), size: size, whole: uint32(min(whole, 1<<32-1)), pointers: pointers})
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
// not starts pass; the tests check both on each Go release.
func startsObject(p, size uintptr, pointers bool) bool {
	if size == 0 {
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
