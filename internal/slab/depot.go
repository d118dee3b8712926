package slab

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// A piece is memory that a depot lends: a run of items, and its loan state.
type piece[T any] struct {
	items []T
	depot *depot[T]

	// generation is odd while the piece is lent. A handle records the generation of its loan: it is valid as
	// long as the two are equal.
	generation atomic.Uint64

	class  int  // index into depot.shelves; ownClass if it returns to the heap
	mapped bool // items are in a separate mapping

	// While the piece is idle, under depot.mu.
	above, below *piece[T] // neighbors on its shelf
	stamp        uint64    // order of the pieces' returns
	round        uint64    // depot.round at its return
}

// ownClass marks pieces that are allocated for one borrower and not kept.
const ownClass = -1

// A shelf is a stack of the idle pieces of one class: the last returned piece is lent first, because it is
// the likeliest to be in the CPU's caches.
type shelf[T any] struct {
	top, bottom *piece[T]
}

// A depot lends pieces and keeps returned ones, up to a bound in bytes. One call of borrow or takeBack takes
// its lock once.
type depot[T any] struct {
	idleBytes int64
	protect   bool // pieces are in mappings, and are never lent twice
	overwrite bool // returned pieces are overwritten, if they have no pointers
	pointers  bool // items have pointers: they are cleared on return

	views sync.Map // reflect.Type of a View -> whether it has pointers; used with invariants

	mu      sync.Mutex
	shelves []shelf[T]
	stamp   uint64
	round   uint64 // calls of age
	stats   PoolStats
}

func newDepot[T any](classes int, idleBytes int64) *depot[T] {
	return &depot[T]{shelves: make([]shelf[T], classes), idleBytes: idleBytes, overwrite: invariants, pointers: hasPointers[T]()}
}

// bytes returns the size of the piece.
func (p *piece[T]) bytes() int64 { return bytesOf[T](cap(p.items)) }

func bytesOf[T any](n int) int64 {
	var t T
	return int64(n) * int64(unsafe.Sizeof(t))
}

// borrow lends a piece of size items and returns the generation of its handle.
func (d *depot[T]) borrow(class, size int) (*piece[T], uint64) {
	d.mu.Lock()
	d.stats.Calls++
	d.stats.out(bytesOf[T](size))
	var p *piece[T]
	if class != ownClass && !d.protect {
		p = d.take(&d.shelves[class])
	}
	if p == nil {
		d.stats.Made++
		if class == ownClass {
			d.stats.Oversize++
		}
	}
	d.mu.Unlock()
	if p == nil {
		p = d.make(class, size)
	}
	return p, p.generation.Add(1)
}

func (d *depot[T]) make(class, size int) *piece[T] {
	p := &piece[T]{depot: d, class: class}
	if d.protect {
		if b := mapBytes(int(bytesOf[T](size))); b != nil {
			p.items, p.mapped = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), size), true
			return p
		}
	}
	p.items = make([]T, size)
	return p
}

// take removes the top of a shelf.
func (d *depot[T]) take(s *shelf[T]) *piece[T] {
	p := s.top
	if p == nil {
		return nil
	}
	d.remove(s, p)
	return p
}

func (d *depot[T]) remove(s *shelf[T], p *piece[T]) {
	if p.above != nil {
		p.above.below = p.below
	} else {
		s.top = p.below
	}
	if p.below != nil {
		p.below.above = p.above
	} else {
		s.bottom = p.above
	}
	p.above, p.below = nil, nil
	d.stats.Idle--
	d.stats.IdleBytes -= p.bytes()
}

// takeBack ends the loan of that generation and keeps the piece; used is the number of its items that were
// handed out. It reports false and does nothing if the loan was over.
func (d *depot[T]) takeBack(p *piece[T], generation uint64, used int) bool {
	if !p.generation.CompareAndSwap(generation, generation+1) {
		d.misuse("released twice")
		return false
	}
	switch {
	case d.pointers:
		clear(p.items[:used])
	case d.overwrite:
		overwrite(p.items)
	}
	if p.mapped {
		protectBytes(rawBytes(p.items))
	}
	d.mu.Lock()
	d.stats.Releases++
	d.stats.in(p.bytes())
	var gone *piece[T]
	if p.class == ownClass && !p.mapped || p.bytes() > d.idleBytes {
		gone = p
	} else {
		gone = d.evict(d.idleBytes - p.bytes())
		d.put(p)
	}
	d.mu.Unlock()
	d.free(gone)
	return true
}

// put pushes p onto its shelf.
func (d *depot[T]) put(p *piece[T]) {
	s := &d.shelves[max(p.class, 0)]
	d.stamp++
	p.stamp, p.round = d.stamp, d.round
	p.below = s.top
	if s.top != nil {
		s.top.above = p
	} else {
		s.bottom = p
	}
	s.top = p
	d.stats.Idle++
	d.stats.IdleBytes += p.bytes()
}

// evict removes idle pieces from the shelves, the longest idle first, until at most keep bytes are idle, and
// returns them linked by below.
func (d *depot[T]) evict(keep int64) *piece[T] {
	var gone *piece[T]
	for d.stats.IdleBytes > keep {
		oldest := &d.shelves[0]
		for i := range d.shelves {
			s := &d.shelves[i]
			if s.bottom != nil && (oldest.bottom == nil || s.bottom.stamp < oldest.bottom.stamp) {
				oldest = s
			}
		}
		p := oldest.bottom
		d.remove(oldest, p)
		d.stats.GivenBack++
		p.below, gone = gone, p
	}
	return gone
}

// free returns pieces that are linked by below to the system: mappings immediately, heap memory by dropping
// the references.
func (d *depot[T]) free(gone *piece[T]) {
	for p := gone; p != nil; p = p.below {
		if p.mapped {
			unmapBytes(rawBytes(p.items))
			p.items, p.mapped = nil, false
		}
	}
}

// trim frees idle pieces until at most keep bytes are idle.
func (d *depot[T]) trim(keep int64) int64 {
	d.mu.Lock()
	before := d.stats.IdleBytes
	gone := d.evict(keep)
	freed := before - d.stats.IdleBytes
	d.mu.Unlock()
	d.free(gone)
	return freed
}

// age frees the pieces that have been idle since the previous call.
func (d *depot[T]) age() int64 {
	d.mu.Lock()
	before := d.stats.IdleBytes
	var gone *piece[T]
	for i := range d.shelves {
		s := &d.shelves[i]
		for s.bottom != nil && s.bottom.round < d.round {
			p := s.bottom
			d.remove(s, p)
			d.stats.GivenBack++
			p.below, gone = gone, p
		}
	}
	d.round++
	freed := before - d.stats.IdleBytes
	d.mu.Unlock()
	d.free(gone)
	return freed
}

func (d *depot[T]) counts() PoolStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// misuse counts the use of a handle whose loan is over; with invariants it panics.
func (d *depot[T]) misuse(what string) {
	d.mu.Lock()
	d.stats.Misused++
	d.mu.Unlock()
	if invariants {
		panic("BUG: slab: " + what)
	}
}
