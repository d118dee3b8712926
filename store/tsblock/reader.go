package tsblock

import (
	"context"
	"unsafe"

	"github.com/taredb/tare/internal/slab"
)

// A Reader reads a block for one query. It reserves memory in the query's quota before it allocates or pins.
// It must not be used concurrently. Postings are valid until Close; batches outlive the reader.
type Reader struct {
	block   *Block
	account account
	open    bool // the block was open when the reader was created
	closed  bool
	head    *header // nil before it is loaded
	scratch *scratch
	slabs   []slab.Slab
	stats   Stats
}

// ReaderBytes is the heap size of a reader with one Postings and one SeriesReader, and BatchBytes that of a
// Batch, beyond the bytes that they charge.
const (
	ReaderBytes = int64(unsafe.Sizeof(Reader{}) + unsafe.Sizeof(SeriesReader{}) + unsafe.Sizeof(Postings{}))
	BatchBytes  = int64(unsafe.Sizeof(Batch{}))
)

// Reader returns a reader that is charged to q; without a quota nothing bounds it. The caller closes it.
// Reader costs two allocations and reads nothing.
func (b *Block) Reader(q *slab.Quota) *Reader {
	b.used.Store(true)
	r := &Reader{block: b, open: b.retain()}
	r.account.quota = q
	return r
}

// Stats returns the counts of the reader so far.
func (r *Reader) Stats() Stats { return r.stats }

// Close releases the resources of the reader. It invalidates its Postings and series readers.
func (r *Reader) Close() {
	if r.closed {
		panic("BUG: reader closed twice")
	}
	r.closed = true
	r.ReleaseIndex()
	r.block.release()
}

// ReleaseIndex releases the memory for reading the index: scratch space and lists. It invalidates the reader's
// Postings and series readers. The reader can still load chunks.
func (r *Reader) ReleaseIndex() {
	for _, s := range r.slabs {
		s.Release()
	}
	if r.scratch != nil {
		r.scratch.release()
		r.block.options.Entries.putScratch(r.scratch)
	}
	r.scratch, r.slabs, r.head = nil, nil, nil
	r.account.close()
}

// prepare loads the index header and allocates the scratch space.
func (r *Reader) prepare(ctx context.Context) (*header, error) {
	if r.head != nil {
		return r.head, nil
	}
	if r.closed {
		panic("BUG: use of a closed reader")
	}
	if !r.open {
		return nil, r.block.closedError()
	}
	h, err := r.block.header.get(ctx, r.block.options.Loads)
	if err != nil {
		return nil, err
	}
	s := r.block.options.Entries.scratch()
	if err := r.account.reserve(slab.Series, s.bytes()); err != nil {
		r.block.options.Entries.putScratch(s)
		return nil, err
	}
	r.scratch, r.head = s, h
	s.index.reader, s.local.reader, s.hashes.reader = r, r, r
	return h, nil
}

// alloc returns a slab that Close releases.
func (r *Reader) alloc(what slab.Purpose, n int) ([]byte, error) {
	if err := r.account.reserve(what, r.block.options.Pool.Size(n)); err != nil {
		return nil, err
	}
	s := r.block.options.Pool.Bytes(n)
	r.slabs = append(r.slabs, s)
	return s.Bytes(), nil
}

// freeAfter releases the slabs after the first lent ones.
func (r *Reader) freeAfter(what slab.Purpose, lent int) {
	for i, s := range r.slabs[lent:] {
		r.account.release(what, s.Size())
		s.Release()
		r.slabs[lent+i] = slab.Slab{}
	}
	r.slabs = r.slabs[:lent]
}
