package tsblock

import (
	"sync"
	"unsafe"

	"github.com/taredb/tare/slab"
)

// ChunkData has the bytes of some chunks, in slabs. Block.ReadChunks fills it. The zero value is empty.
// Reading it is safe for concurrent use. It must not be copied.
type ChunkData struct {
	pool  *slab.Pool
	quota *slab.Quota

	views []chunkView // stored in viewsIn
	// Slabs of views and of the data that they reference.
	viewsIn slab.Slab

	mu       sync.Mutex // guards the fields below while data is loaded
	slabs    []slab.Slab
	bytes    [][]byte // bytes of slabs
	reserved int64    // bytes of quota reserved for slab.Chunks
}

// A chunkView locates the data of a chunk. It has no pointers, so that the garbage collector does not scan
// it.
type chunkView struct {
	slab     uint32
	off, len uint32
	encoding byte
}

const chunkViewBytes = int(unsafe.Sizeof(chunkView{}))

// Len returns the number of chunks.
func (d *ChunkData) Len() int { return len(d.views) }

// At returns the encoding byte and the data of chunk i. The data is valid until Release. At does not
// allocate.
func (d *ChunkData) At(i int) (encoding byte, data []byte) {
	v := d.views[i]
	return v.encoding, d.bytes[v.slab][v.off : v.off+v.len : v.off+v.len]
}

// Size returns the bytes of the slabs, which are reserved of the quota.
func (d *ChunkData) Size() int64 { return d.reserved }

// Release frees the slabs and returns their bytes to the quota. Data returned by At becomes invalid. The
// value may be filled again. Releasing an empty value has no effect.
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

// reserve reserves n bytes of the quota.
func (d *ChunkData) reserve(n int64) error {
	if d.quota != nil {
		if err := d.quota.Reserve(slab.Chunks, n); err != nil {
			return err
		}
	}
	d.reserved += n
	return nil
}

// add takes a slab of n bytes, which are reserved already, from the pool and returns its number.
func (d *ChunkData) add(n int) (number int, bytes []byte) {
	s := d.pool.Bytes(n)
	d.slabs, d.bytes = append(d.slabs, s), append(d.bytes, s.Bytes())
	return len(d.slabs) - 1, s.Bytes()
}

// extend reserves and adds a slab of n bytes while other goroutines load.
func (d *ChunkData) extend(n int) (number int, bytes []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reserve(d.pool.Size(n)); err != nil {
		return 0, nil, err
	}
	number, bytes = d.add(n)
	return number, bytes, nil
}
