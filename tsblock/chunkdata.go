package tsblock

import (
	"sync"
	"unsafe"

	"github.com/taredb/tare/slab"
)

// ChunkData are the bytes of some chunks, in slabs. Use Block.ReadChunks to fill it. The zero
// value has none. It is safe for concurrent use by those who read it; it must not be copied.
type ChunkData struct {
	pool  *slab.Pool
	quota *slab.Quota

	views []chunkView // in viewsIn
	// The slabs: viewsIn, and those that views are of.
	viewsIn slab.Slab

	mu       sync.Mutex // while data is loaded: guards what follows
	slabs    []slab.Slab
	bytes    [][]byte // of slabs
	reserved int64    // of quota, for Chunks
}

// A chunkView says where a chunk's data lies. It has no pointers, so that a million of them are
// nothing to the collector.
type chunkView struct {
	slab     uint32
	off, len uint32
	encoding byte
}

const chunkViewBytes = int(unsafe.Sizeof(chunkView{}))

// Len returns the number of chunks.
func (d *ChunkData) Len() int { return len(d.views) }

// At returns chunk i: the byte that says how it is encoded, and its data, which is valid
// until Release. It does not allocate.
func (d *ChunkData) At(i int) (encoding byte, data []byte) {
	v := d.views[i]
	return v.encoding, d.bytes[v.slab][v.off : v.off+v.len : v.off+v.len]
}

// Size returns the bytes that the data takes in slabs, which is what it has reserved of the quota.
func (d *ChunkData) Size() int64 { return d.reserved }

// Release gives the slabs and the quota's bytes back. The data that At returned is no longer
// valid. The value may be filled again; releasing one that is empty does nothing.
func (d *ChunkData) Release() {
	d.viewsIn.Release()
	for _, s := range d.slabs {
		s.Release()
	}
	if d.quota != nil {
		d.quota.Return(slab.Chunks, d.reserved)
	}
	clear(d.slabs)
	clear(d.bytes)
	d.slabs, d.bytes = d.slabs[:0], d.bytes[:0]
	d.viewsIn, d.views, d.reserved, d.pool, d.quota = slab.Slab{}, nil, 0, nil, nil
}

// reserve takes n bytes of the quota for the data.
func (d *ChunkData) reserve(n int64) error {
	if d.quota != nil {
		if err := d.quota.Reserve(slab.Chunks, n); err != nil {
			return err
		}
	}
	d.reserved += n
	return nil
}

// add lends a slab of n bytes, which have been reserved, and returns its number.
func (d *ChunkData) add(n int) (number int, bytes []byte) {
	s := d.pool.Bytes(n)
	d.slabs, d.bytes = append(d.slabs, s), append(d.bytes, s.Bytes())
	return len(d.slabs) - 1, s.Bytes()
}

// extend reserves and lends a slab of n bytes while others load.
func (d *ChunkData) extend(n int) (number int, bytes []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reserve(d.pool.Size(n)); err != nil {
		return 0, nil, err
	}
	number, bytes = d.add(n)
	return number, bytes, nil
}
