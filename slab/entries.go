package slab

import "strconv"

// Sizes of slabs of entries; doc.go has the measurements behind them.
const (
	// DefaultSlabEntries is how many entries a slab holds unless told otherwise.
	DefaultSlabEntries = 16_384

	// firstShare is how much smaller the second slab of an arena is than those after it, and the first than the
	// second, so that a query of a few entries does not hold a large one in each of its blocks.
	firstShare = 16
)

// EntriesOptions say what a pool of entries keeps. The zero value is usable.
type EntriesOptions struct {
	// SlabEntries is how many entries a slab holds; the second of each arena has a sixteenth
	// of them, and the first a sixteenth of that. Default: DefaultSlabEntries.
	SlabEntries int

	// IdleBytes is the most that slabs which nobody uses may take. Default:
	// DefaultIdleBytes; less than 0 keeps none.
	IdleBytes int64
}

// Entries lends slabs of values of type T to arenas, which hand them out in runs. It is safe for
// concurrent use, and meant to be shared by the whole process.
type Entries[T any] struct {
	depot *depot[T]
	sizes [3]int // entries of a first slab, of a second, and of those after it
}

// NewEntries returns an empty pool.
func NewEntries[T any](o EntriesOptions) *Entries[T] {
	n := o.SlabEntries
	if n <= 0 {
		n = DefaultSlabEntries
	}
	return &Entries[T]{depot: newDepot[T](3, idleBytes(o.IdleBytes)), sizes: [3]int{max(n/firstShare/firstShare, 1), max(n/firstShare, 1), n}}
}

// Arena returns an arena without slabs. It does not allocate.
func (e *Entries[T]) Arena() Arena[T] { return Arena[T]{from: e} }

// Trim gives idle slabs back until at most keep bytes of them are left, as Pool.Trim does.
func (e *Entries[T]) Trim(keep int64) int64 { return e.depot.trim(max(keep, 0)) }

// Age gives back the slabs that have been idle since the call before, as Pool.Age does.
func (e *Entries[T]) Age() int64 { return e.depot.age() }

// Stats returns the counts as they are now.
func (e *Entries[T]) Stats() PoolStats { return e.depot.counts() }

// An Arena hands out runs of entries from slabs of its own and releases them all at once. It
// belongs to one goroutine at a time. The zero Arena has no pool and must not be used.
type Arena[T any] struct {
	from *Entries[T]

	// The slab in use, and how many of its entries are handed out.
	current loan[T]
	used    int

	full  []loan[T] // slabs before it
	bytes int64
}

// A loan is a piece and the generation it was lent under.
type loan[T any] struct {
	piece      *piece[T]
	generation uint64
}

// Make returns n entries that lie side by side, with no room behind them. They are valid until
// Release. Entries of a type with pointers are zero; others hold whatever they held, so each is
// to be written before it is read. It takes no lock and does not allocate while the slab in use has
// room, which is but once in SlabEntries entries; a run of more than that is allocated
// for itself.
func (a *Arena[T]) Make(n int) []T {
	if p := a.current.piece; p != nil && n <= len(p.items)-a.used && n >= 0 {
		run := p.items[a.used : a.used+n : a.used+n]
		a.used += n
		return run
	}
	return a.grow(n)
}

// grow takes another slab and begins it with n entries.
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
		// The slab in use still has room for others.
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

// next returns the class and size of the slab that a run of n entries, which does not fit into
// the one in use, will be in.
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

// Need returns the bytes that Make(n) would take from the pool: 0 while the slab in use
// has room. It is what a quota has to be charged first. It does not allocate.
func (a *Arena[T]) Need(n int) int64 {
	if p := a.current.piece; n <= 0 || p != nil && n <= len(p.items)-a.used {
		return 0
	}
	_, size := a.next(n)
	return bytesOf[T](size)
}

// Bytes returns what the arena's slabs take.
func (a *Arena[T]) Bytes() int64 { return a.bytes }

// Release gives all slabs back to the pool, and the runs are no longer valid. The arena is empty
// afterwards and may be used again. Releasing an empty arena does nothing; releasing the copy of one
// that has been released counts in PoolStats.Misused, and panics with -tags invariants.
func (a *Arena[T]) Release() {
	if a.current.piece == nil {
		return
	}
	a.from.depot.giveBack(a.current.piece, a.current.generation, a.used)
	for i, l := range a.full {
		a.from.depot.giveBack(l.piece, l.generation, len(l.piece.items))
		a.full[i] = loan[T]{}
	}
	a.current, a.used, a.full, a.bytes = loan[T]{}, 0, a.full[:0], 0
}
