package heapsize

import (
	"cmp"
	"reflect"
	"slices"
	"unsafe"
)

// maxKept is how many entries a Walk's lists keep room for between walks; one huge value
// must not make the Walk large for good.
const maxKept = 1 << 14

// A Walk adds up the heap bytes that one value holds. Code that knows the value's type, as
// cmd/sizegen writes it, leads the Walk over it: for each pointer, slice, map and string it
// tells the Walk what lies behind, and goes on into it when the Walk has not been there.
//
//	var w heapsize.Walk
//	w.Detach = true
//	plan.WalkHeap(&w)    // generated
//	bytes := w.Finish()  // strings are detached now
//	w.Reset()
//
// What is reached twice is counted once, cycles end, and a pointer into the middle of
// something also reached as a whole adds nothing.
//
// The zero Walk is ready. Reset makes it ready again and keeps its buffers, up to a bound, so
// that a warm Walk does not allocate but for detached strings. It is not safe for concurrent use.
type Walk struct {
	// Detach makes Finish replace each string told to String by a copy in one allocation
	// of the exact total size, so that the value pins no text that it was cut from. The
	// value must not be shared with other goroutines yet.
	Detach bool

	spans   []span
	index   []uint32 // open addressing over spans: position + 1, 0 is free
	strings []stringRef
	after   []func()
	pending []pending
	depth   int // of calls of Follow

	// Of types, not of the value: they outlive Reset.
	typeNames map[reflect.Type]string
	layouts   map[layoutPair]bool
	added     uintptr
	total     int64
}

// A span is one visited stretch of memory.
type span struct {
	addr, size uintptr
	whole      uint32 // bytes of the object that it is a part of, where that is known
	pointers   bool
}

func (s span) end() uintptr { return s.addr + s.size }

// Reset forgets the walked value.
func (w *Walk) Reset() {
	clear(w.strings)
	clear(w.after)
	clear(w.pending)
	if cap(w.spans) > maxKept || cap(w.strings) > maxKept || cap(w.after) > maxKept || cap(w.pending) > maxKept {
		*w = Walk{Detach: w.Detach, typeNames: w.typeNames, layouts: w.layouts}
		return
	}
	clear(w.index)
	w.spans, w.strings, w.after, w.pending = w.spans[:0], w.strings[:0], w.after[:0], w.pending[:0]
	w.added, w.total, w.depth = 0, 0, 0
}

// Enter tells of an object of size bytes at p, and reports whether this is its first visit,
// so that the caller goes on into it. Objects at one address are told apart by size: a struct
// and its first field are both entered, and charged once. A nil p or a size of 0 is no object.
//
// p is the start of an allocation as far as the caller knows. Behind a pointer into the
// middle of one that is never reached as a whole, the rest is held without being seen.
func (w *Walk) Enter(p unsafe.Pointer, size uintptr, pointers bool) bool {
	if p == nil || size == 0 {
		return false
	}
	return w.visit(span{addr: uintptr(p), size: size, pointers: pointers})
}

// Add adds n heap bytes that the caller worked out, such as [Object] of a part no address is
// known of.
func (w *Walk) Add(n uintptr) { w.added += n }

// WalkSlice tells of the array behind s, by capacity, and reports whether this is its first
// visit.
func WalkSlice[T any](w *Walk, s []T, pointers bool) bool {
	return w.Enter(unsafe.Pointer(unsafe.SliceData(s)), uintptr(cap(s))*unsafe.Sizeof(*new(T)), pointers)
}

// WalkMap tells of m and reports whether this is its first visit. What its keys and elements
// point to is the caller's to walk. Keys and elements cannot be changed inside a map: where they
// hold strings to detach, [Entries] takes copies to walk, and [PutBack] assigns them.
func WalkMap[K comparable, V any](w *Walk, m map[K]V, s MapShape) bool {
	if m == nil {
		return false
	}
	p := *(*unsafe.Pointer)(unsafe.Pointer(&m))
	if !w.visit(span{addr: uintptr(p), size: 1, pointers: true}) {
		return false
	}
	// The byte marked above stands for the header and is settled as one: taken off here.
	w.added += MapOf(s, m) - Object(1, true)
	return true
}

// Box tells of a non-pointer value of size bytes held in the interface variable that v points
// to, and reports whether this is the first visit of that box. Values from the runtime's
// static tables cost nothing. A value of pointer shape (one word, a pointer) has no box.
//
// A box is never changed: where it may hold strings to detach, [Unbox] takes its place.
func (w *Walk) Box(v unsafe.Pointer, size uintptr, pointers bool) bool {
	data := (*[2]unsafe.Pointer)(v)[1]
	if size <= 1 || pointers && size == wordSize || static(data) {
		return false
	}
	return w.Enter(data, size, pointers)
}

// static reports whether p is where the runtime keeps what it never allocates: boxed numbers
// below 256, which are also the strings of one byte, and the zero value that boxes of empty
// strings and nil slices share.
func static(p unsafe.Pointer) bool {
	number, zero := boxNumber(0), boxString("")
	const tableBytes = 256 * 8
	from := uintptr((*[2]unsafe.Pointer)(unsafe.Pointer(&number))[1])
	return uintptr(p)-from < tableBytes || p == (*[2]unsafe.Pointer)(unsafe.Pointer(&zero))[1]
}

// boxNumber and boxString have the runtime make a box: one of a constant would lie among the
// program's read-only data.
//
//go:noinline
func boxNumber(n uint64) any { return n }

//go:noinline
func boxString(s string) any { return s }

// After keeps f until Finish has detached the strings, and has it called then; functions run
// in the order they came. It serves parts of a value that can be replaced but not addressed.
func (w *Walk) After(f func()) { w.after = append(w.after, f) }

// Finish ends the walk: it detaches the strings, when that was asked for, and returns the heap
// bytes of the value.
func (w *Walk) Finish() int64 {
	sum := w.added
	if len(w.strings) > 0 {
		sum += w.detach()
	}
	for _, f := range w.after {
		f()
	}
	w.total = int64(sum + w.settle())
	return w.total
}

// Bytes returns what the last Finish did.
func (w *Walk) Bytes() int64 { return w.total }

// Objects returns how many objects the walk has visited: allocations, parts of them that it took for
// allocations, and strings to be detached.
func (w *Walk) Objects() int { return len(w.spans) + len(w.strings) }

// settle charges the visited spans: each merged stretch as the one object it is.
func (w *Walk) settle() uintptr {
	slices.SortFunc(w.spans, func(a, b span) int {
		switch {
		case a.addr < b.addr:
			return -1
		case a.addr > b.addr:
			return 1
		}
		return cmp.Compare(b.size, a.size)
	})
	var sum, lastTiny uintptr
	for i := 0; i < len(w.spans); {
		whole := w.spans[i]
		for i++; i < len(w.spans) && w.spans[i].addr < whole.end(); i++ {
			whole.size = max(whole.end(), w.spans[i].end()) - whole.addr
			// A span that is not marked as a part gives the bounds of the object.
			if whole.whole > 0 {
				whole.whole = w.spans[i].whole
			}
			whole.pointers = whole.pointers || w.spans[i].pointers
		}
		if uintptr(whole.whole) > whole.size {
			// A part of an object that was not reached as a whole, and perhaps more parts of it.
			whole.size = uintptr(whole.whole)
			for i < len(w.spans) && w.spans[i].whole > 0 && w.spans[i].addr < whole.end() {
				i++
			}
		}
		if !whole.pointers && whole.size < tinyBlock {
			// Several tiny objects share a block: it is charged once.
			block := whole.addr / tinyBlock
			if block == lastTiny {
				continue
			}
			lastTiny = block
		}
		sum += Object(whole.size, whole.pointers)
	}
	return sum
}
