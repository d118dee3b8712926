package tsblock

import (
	"bytes"
	"sync"
	"unsafe"

	"github.com/taredb/tare/internal/slab"
)

// chunkData has the bytes of some chunks, in slabs. readChunks fills it. The zero value is empty.
// Reading it is safe for concurrent use. It must not be copied.
type chunkData struct {
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
func (d *chunkData) Len() int { return len(d.views) }

// At returns the encoding byte and the data of chunk i. The data is valid until Release. At does not
// allocate.
func (d *chunkData) At(i int) (encoding byte, data []byte) {
	v := d.views[i]
	return v.encoding, d.bytes[v.slab][v.off : v.off+v.len : v.off+v.len]
}

// Size returns the bytes of the slabs, which are reserved of the quota.
func (d *chunkData) Size() int64 { return d.reserved }

// Release frees the slabs and returns their bytes to the quota. Data returned by At becomes invalid. The
// value may be filled again. Releasing an empty value has no effect.
func (d *chunkData) Release() {
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
func (d *chunkData) reserve(n int64) error {
	if d.quota != nil {
		if err := d.quota.Reserve(slab.Chunks, n); err != nil {
			return err
		}
	}
	d.reserved += n
	return nil
}

// add takes a slab of n bytes, which are reserved already, from the pool and returns its number.
func (d *chunkData) add(n int) (number int, bytes []byte) {
	s := d.pool.Bytes(n)
	d.slabs, d.bytes = append(d.slabs, s), append(d.bytes, s.Bytes())
	return len(d.slabs) - 1, s.Bytes()
}

// Bounds of a load whose chunks are kept.
const (
	knownChunks     = 16
	knownChunkBytes = 4 << 10 // of each
)

// Chunks of small loads are kept in the cache of pages: where few series of many blocks are read, each block costs a
// request, or an open file, for about a kilobyte. A chunk is kept from its encoding byte to its checksum, which is
// checked each time. In the cache, chunks contend with pages as these do with each other: those that are read once
// displace no page that is read often.

// knownChunk returns the key of a chunk.
func (b *Block) knownChunk(ref uint64) pageKey {
	segment, off := splitRef(ref)
	return pageKey{block: b.number, page: uint32(off), file: chunkFile + fileKind(segment)}
}

// loadKnown loads the chunks of refs from the cache in memory if it has all of them.
func (l *chunkLoad) loadKnown() (found bool, err error) {
	if len(l.refs) > knownChunks {
		return false, nil
	}
	var known [knownChunks][]byte
	size := 0
	for i, ref := range l.refs {
		chunk, ok := l.block.options.Cache.pages.Get(l.block.knownChunk(ref))
		if !ok {
			return false, nil
		}
		if _, _, reason := checkChunk(chunk); reason != "" {
			return false, nil // damaged in memory: it is read again, and replaced
		}
		known[i], size = chunk, size+len(chunk)
	}
	if err := l.data.reserve(l.data.pool.Size(size)); err != nil {
		return false, err
	}
	number, memory := l.data.add(size)
	at := 0
	for i := range l.refs {
		n := copy(memory[at:], known[i])
		l.data.views[i] = chunkView{
			slab: uint32(number), encoding: memory[at],
			off: uint32(at + encodingSize), len: uint32(n - encodingSize - checksumSize),
		}
		at += n
	}
	l.usage.Items += int64(len(l.refs))
	l.usage.Touched += int64(size)
	l.usage.Cached += int64(size)
	return true, nil
}

// keepKnown adds the loaded chunks to the cache in memory if they are few and small.
func (l *chunkLoad) keepKnown() {
	if len(l.refs) > knownChunks {
		return
	}
	for i := range l.data.views {
		if l.data.views[i].len > knownChunkBytes {
			return
		}
	}
	for k, ref := range l.refs {
		v := l.viewOf(k)
		chunk := l.data.bytes[v.slab][v.off-encodingSize : v.off+v.len+checksumSize]
		l.block.options.Cache.pages.Set(l.block.knownChunk(ref), bytes.Clone(chunk))
	}
}

// extend reserves and adds a slab of n bytes while other goroutines load.
func (d *chunkData) extend(n int) (number int, bytes []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.reserve(d.pool.Size(n)); err != nil {
		return 0, nil, err
	}
	number, bytes = d.add(n)
	return number, bytes, nil
}
