package heapsize

import (
	"cmp"
	"slices"
	"unsafe"
)

// A stringRef is a string to detach: its location and its original value.
type stringRef struct {
	at  *string
	was string
}

func (r stringRef) addr() uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(r.was))) }

// String records the string at s. If Detach is set, Finish replaces *s by a copy that shares no memory with
// other values; overlapping strings of one value continue to share one copy.
func (w *Walk) String(s *string) {
	if w.Detach {
		w.strings = append(w.strings, stringRef{s, *s})
		return
	}
	w.countString(*s)
}

// countString records the bytes of s, which are not moved.
func (w *Walk) countString(s string) {
	if data := unsafe.Pointer(unsafe.StringData(s)); len(s) > 1 || len(s) == 1 && !static(data) {
		w.enter(data, span{size: uintptr(len(s)), sliced: true})
	}
}

// detach copies all strings into one allocation and returns its cost.
func (w *Walk) detach() uintptr {
	slices.SortFunc(w.strings, func(a, b stringRef) int {
		switch x, y := a.addr(), b.addr(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return cmp.Compare(len(b.was), len(a.was))
	})
	var total int
	var end uintptr
	for _, r := range w.strings {
		if r.was == "" {
			continue
		}
		// Only the part past the bytes already counted is new.
		from, to := max(r.addr(), end), r.addr()+uintptr(len(r.was))
		if to > from {
			total += int(to - from)
		}
		end = max(end, to)
	}
	if total == 0 {
		for _, r := range w.strings {
			*r.at = ""
		}
		return 0
	}
	// At least a whole tiny block: the copy shares its memory with no other object.
	arena := make([]byte, 0, max(total, tinyBlock))
	end = 0
	for _, r := range w.strings {
		if r.was == "" { // empty, but its pointer may keep a parent alive
			*r.at = ""
			continue
		}
		// The part covered by an earlier string of the same parent is already at the arena's end.
		covered := 0
		if r.addr() < end {
			covered = int(end - r.addr())
		}
		start := len(arena) - covered
		if covered < len(r.was) {
			arena = append(arena, r.was[covered:]...)
		}
		*r.at = unsafe.String(unsafe.SliceData(arena[start:]), len(r.was))
		end = max(end, r.addr()+uintptr(len(r.was)))
	}
	return Object(uintptr(cap(arena)), false)
}
