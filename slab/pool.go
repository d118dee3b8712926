package slab

import (
	"math/bits"
	"strconv"
)

// Sizes of slabs: four in each doubling from minSlab to MaxSlab, so that a slab is at most a
// quarter larger than what was asked for, 1/10 on average.
const (
	minSlabBits = 12 // 4 KiB
	maxSlabBits = 24
	stepBits    = 2
	classes     = (maxSlabBits-minSlabBits)<<stepBits + 1

	// MaxSlab is the largest slab that a Pool keeps. Larger ones are made for one borrower.
	MaxSlab = 1 << maxSlabBits
)

// DefaultIdleBytes is what pools keep idle unless told otherwise.
const DefaultIdleBytes = 64 << 20

// PoolOptions say what a Pool keeps. The zero value is usable.
type PoolOptions struct {
	// IdleBytes is the most that slabs which nobody uses may take. Default:
	// DefaultIdleBytes; less than 0 keeps none.
	IdleBytes int64

	// Protect finds uses of released slabs: each slab lies in a mapping of its own, which is
	// closed to every access when the slab is released, and kept until IdleBytes of them are.
	// Slabs are then never used again, and each call costs system calls.
	Protect bool
}

// A Pool lends slabs of bytes. It is safe for concurrent use, and meant to be shared by the whole
// process: each call takes one lock for some tens of nanoseconds, and is meant to be worth
// thousands of entries.
type Pool struct{ depot *depot[byte] }

// NewPool returns an empty pool.
func NewPool(o PoolOptions) *Pool {
	d := newDepot[byte](classes, idleBytes(o.IdleBytes))
	d.protect = o.Protect
	d.overwrite = invariants && !o.Protect
	return &Pool{depot: d}
}

func idleBytes(option int64) int64 {
	if option == 0 {
		return DefaultIdleBytes
	}
	return max(option, 0)
}

// classOf returns the class of slabs for n bytes and their size.
func classOf(n int) (class, size int) {
	switch {
	case n > MaxSlab:
		return ownClass, n
	case n <= 1<<minSlabBits:
		return 0, 1 << minSlabBits
	}
	// n-1 is in the doubling that begins at 1<<top; its next bits say in which quarter.
	top := bits.Len(uint(n-1)) - 1
	quarter := (n - 1) >> (top - stepBits) & (1<<stepBits - 1)
	return (top-minSlabBits)<<stepBits + quarter + 1, (1<<stepBits + quarter + 1) << (top - stepBits)
}

// Size returns the bytes that a slab for n bytes takes: what a quota is charged for it.
func (p *Pool) Size(n int) int64 {
	if n <= 0 {
		return 0
	}
	_, size := classOf(n)
	return int64(size)
}

// Bytes lends a slab of n bytes. Their content is whatever it was. The caller releases it once.
// It does not allocate when one of its size is idle.
func (p *Pool) Bytes(n int) Slab {
	if n <= 0 {
		if n < 0 {
			panic("BUG: slab: a slab of " + strconv.Itoa(n) + " bytes")
		}
		return Slab{}
	}
	class, size := classOf(n)
	s, generation := p.depot.borrow(class, size)
	return Slab{piece: s, generation: generation, n: n}
}

// Trim gives idle slabs back to the system, those first that have been idle longest, until at
// most keep bytes of them are left. It returns how many bytes went.
func (p *Pool) Trim(keep int64) int64 { return p.depot.trim(max(keep, 0)) }

// Age gives back the slabs that have been idle since the call of Age before, and returns how many
// bytes went. Called every minute, it gives back what has not been of use for one to two.
func (p *Pool) Age() int64 { return p.depot.age() }

// Stats returns the counts as they are now.
func (p *Pool) Stats() PoolStats { return p.depot.counts() }

// A Slab is a handle to bytes that a Pool has lent. It is a small value: copies of it are the same
// loan, and one of them is released, once. The zero Slab has no bytes and may be released
// any number of times.
type Slab struct {
	piece      *piece[byte]
	generation uint64
	n          int
}

// Bytes returns the bytes, valid until Release. After it, Bytes returns nil and counts the
// mistake in PoolStats.Misused; with -tags invariants it panics. It does not allocate.
func (s Slab) Bytes() []byte {
	if s.piece == nil {
		return nil
	}
	if s.piece.generation.Load() != s.generation {
		s.piece.depot.misuse("bytes of a released slab")
		return nil
	}
	return s.piece.items[:s.n:s.n]
}

// Size returns the bytes that the slab takes, which Pool.Size told before.
func (s Slab) Size() int64 {
	if s.piece == nil {
		return 0
	}
	_, size := classOf(s.n)
	return int64(size)
}

// Release gives the slab back to its pool. A second Release, by whichever copy, does nothing but
// count the mistake in PoolStats.Misused; with -tags invariants it panics. It does not allocate.
func (s Slab) Release() {
	if s.piece != nil {
		s.piece.depot.giveBack(s.piece, s.generation, s.n)
	}
}
