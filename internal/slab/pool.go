package slab

import (
	"math/bits"
	"strconv"
)

// Sizes of slabs: four per doubling from minSlab to MaxSlab, so that a slab exceeds the requested size by at
// most a quarter, 1/10 on average.
const (
	minSlabBits = 10 // 1 KiB
	maxSlabBits = 24
	stepBits    = 2
	classes     = (maxSlabBits-minSlabBits)<<stepBits + 1

	// MaxSlab is the largest slab that a Pool keeps. Larger ones are allocated for one borrower.
	MaxSlab = 1 << maxSlabBits
)

// DefaultIdleBytes is the default bound of idle slabs in a pool.
const DefaultIdleBytes = 64 << 20

// PoolOptions configures a Pool. The zero value is usable.
type PoolOptions struct {
	// IdleBytes bounds the size of idle slabs. Default: DefaultIdleBytes; less than 0 keeps none.
	IdleBytes int64

	// Protect detects uses of released slabs: each slab is in a separate mapping, to which every access
	// faults after its release, and which is kept until IdleBytes of them exist. Slabs are then never reused,
	// and each call costs system calls.
	Protect bool
}

// A Pool lends slabs of bytes. It is safe for concurrent use, and meant to be shared by the whole process:
// each call takes one lock for some tens of nanoseconds, and should serve thousands of entries.
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
	// n-1 is in the doubling that starts at 1<<top; its next bits select the quarter.
	top := bits.Len(uint(n-1)) - 1
	quarter := (n - 1) >> (top - stepBits) & (1<<stepBits - 1)
	return (top-minSlabBits)<<stepBits + quarter + 1, (1<<stepBits + quarter + 1) << (top - stepBits)
}

// Size returns the bytes of a slab for n bytes: the amount to charge to a quota.
func (p *Pool) Size(n int) int64 {
	if n <= 0 {
		return 0
	}
	_, size := classOf(n)
	return int64(size)
}

// Bytes lends a slab of n bytes with arbitrary content. The caller releases it once. It does not allocate if
// one of its size is idle.
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

// Trim frees idle slabs, the longest idle first, until at most keep bytes of them are left. It returns the
// number of bytes freed.
func (p *Pool) Trim(keep int64) int64 { return p.depot.trim(max(keep, 0)) }

// Age frees the slabs that have been idle since the previous call of Age, and returns the number of bytes
// freed. Called every minute, it frees slabs that have been unused for one to two minutes.
func (p *Pool) Age() int64 { return p.depot.age() }

// Stats returns the current counters.
func (p *Pool) Stats() PoolStats { return p.depot.counts() }

// A Slab is a handle to bytes lent by a Pool. It is a small value: copies of it are the same loan, and one of
// them is released, once. The zero Slab has no bytes and may be released any number of times.
type Slab struct {
	piece      *piece[byte]
	generation uint64
	n          int
}

// Bytes returns the bytes, valid until Release. After Release it returns nil and counts the mistake in
// PoolStats.Misused; with -tags invariants it panics. It does not allocate.
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

// Size returns the size of the slab in bytes, equal to the result of Pool.Size.
func (s Slab) Size() int64 {
	if s.piece == nil {
		return 0
	}
	_, size := classOf(s.n)
	return int64(size)
}

// Release returns the slab to its pool. A second Release, by any copy, only counts the mistake in
// PoolStats.Misused; with -tags invariants it panics. It does not allocate.
func (s Slab) Release() {
	if s.piece != nil {
		s.piece.depot.takeBack(s.piece, s.generation, s.n)
	}
}
