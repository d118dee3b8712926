package slab

import "strconv"

// Sizes of slabs of entries; doc.go has the measurements.
const (
	// DefaultSlabEntries is the default number of entries in a slab.
	DefaultSlabEntries = 16_384

	// firstSlab, secondSlab and thirdSlab are the factors by which the first slabs of an arena are smaller than
	// later ones, so that a query of a few entries does not occupy a large slab in each of its blocks.
	firstSlab, secondSlab, thirdSlab = 2048, 256, 16
)

// EntriesOptions configures a pool of entries. The zero value is usable.
type EntriesOptions struct {
	// SlabEntries is the number of entries in a slab; the first slabs of each arena have 1/2048, 1/256 and 1/16
	// of them. Default: DefaultSlabEntries.
	SlabEntries int

	// IdleBytes bounds the size of idle slabs. Default: DefaultIdleBytes; less than 0 keeps none.
	IdleBytes int64
}

// Entries lends slabs of values of type T to arenas, which hand them out in runs. It is safe for
// concurrent use, and meant to be shared by the whole process.
type Entries[T any] struct {
	depot *depot[T]
	sizes [4]int // entries of an arena's first slab, its second, its third, and later ones
}

// NewEntries returns an empty pool.
func NewEntries[T any](o EntriesOptions) *Entries[T] {
	n := o.SlabEntries
	if n <= 0 {
		n = DefaultSlabEntries
	}
	return &Entries[T]{depot: newDepot[T](4, idleBytes(o.IdleBytes)), sizes: [4]int{max(n/firstSlab, 1), max(n/secondSlab, 1), max(n/thirdSlab, 1), n}}
}

// Arena returns an arena without slabs. It does not allocate.
func (e *Entries[T]) Arena() Arena[T] { return Arena[T]{from: e} }

// Trim frees idle slabs until at most keep bytes of them are left, like Pool.Trim.
func (e *Entries[T]) Trim(keep int64) int64 { return e.depot.trim(max(keep, 0)) }

// Age frees the slabs that have been idle since the previous call, like Pool.Age.
func (e *Entries[T]) Age() int64 { return e.depot.age() }

// Stats returns the current counters.
func (e *Entries[T]) Stats() PoolStats { return e.depot.counts() }

// An Arena hands out runs of entries from its slabs and releases them all at once. It is not safe for
// concurrent use. The zero Arena has no pool and must not be used.
type Arena[T any] struct {
	from *Entries[T]

	// The current slab, and the number of its entries handed out.
	current loan[T]
	used    int

	full  []loan[T] // earlier slabs
	bytes int64
}

// A loan is a piece and the generation of its loan.
type loan[T any] struct {
	piece      *piece[T]
	generation uint64
}

// Make returns n contiguous entries with no spare capacity, valid until Release. Entries of a type with
// pointers are zero; others contain arbitrary values and must be written before they are read. Make takes no
// lock and does not allocate while the current slab has room, that is except once in SlabEntries entries; a
// longer run is allocated separately.
func (a *Arena[T]) Make(n int) []T {
	if p := a.current.piece; p != nil && n <= len(p.items)-a.used && n >= 0 {
		run := p.items[a.used : a.used+n : a.used+n]
		a.used += n
		return run
	}
	return a.grow(n)
}

// grow adds a slab and hands out its first n entries.
func (a *Arena[T]) grow(n int) []T {
	if n < 0 {
		panic("BUG: slab: a run of " + strconv.Itoa(n) + " entries")
	}
	if n == 0 {
		return nil
	}
	class, size := a.next(n)
	p, generation := a.from.depot.borrow(class, size)
	a.bytes += p.bytes()
	l := loan[T]{p, generation}
	if class == ownClass && a.current.piece != nil {
		// The current slab still has room for others.
		a.full = append(a.full, l)
		return p.items[:n:n]
	}
	if a.current.piece != nil {
		if a.full == nil {
			a.full = make([]loan[T], 0, 4)
		}
		a.full = append(a.full, a.current)
	}
	a.current, a.used = l, n
	return p.items[:n:n]
}

// next returns the class and size of the slab for a run of n entries that does not fit the current one.
func (a *Arena[T]) next(n int) (class, size int) {
	last := len(a.from.sizes) - 1
	if p := a.current.piece; p != nil {
		class = min(p.class+1, last)
	}
	for class < last && n > a.from.sizes[class] {
		class++
	}
	if n > a.from.sizes[class] {
		return ownClass, n
	}
	return class, a.from.sizes[class]
}

// Need returns the bytes that Make(n) would take from the pool: 0 while the current slab has room. A quota
// has to be charged that amount first. It does not allocate.
func (a *Arena[T]) Need(n int) int64 {
	if p := a.current.piece; n <= 0 || p != nil && n <= len(p.items)-a.used {
		return 0
	}
	_, size := a.next(n)
	return bytesOf[T](size)
}

// Bytes returns the size of the arena's slabs.
func (a *Arena[T]) Bytes() int64 { return a.bytes }

// Release returns all slabs to the pool and invalidates the runs. The arena is empty afterwards and may be
// reused. Releasing an empty arena does nothing; releasing the copy of a released arena counts in
// PoolStats.Misused, and panics with -tags invariants.
func (a *Arena[T]) Release() {
	if a.current.piece == nil {
		return
	}
	a.from.depot.takeBack(a.current.piece, a.current.generation, a.used)
	for i, l := range a.full {
		a.from.depot.takeBack(l.piece, l.generation, len(l.piece.items))
		a.full[i] = loan[T]{}
	}
	a.current, a.used, a.full, a.bytes = loan[T]{}, 0, a.full[:0], 0
}
