package tsblock

import (
	"context"
	"unsafe"

	"github.com/taredb/tare/slab"
)

// A Reader reads a block for one query. What it pins or allocates it reserves in the query's
// quota first. It is not for concurrent use. Lists of postings are valid until Close; batches
// outlive it.
type Reader struct {
	block   *Block
	account account
	open    bool // the block was when the reader began
	closed  bool
	head    *header // once loaded
	scratch *scratch
	slabs   []slab.Slab
	stats   Stats
}

// ReaderBytes is what a reader takes of the heap with one Postings and one SeriesReader, and BatchBytes what a Batch
// does, beside what they charge.
const (
	ReaderBytes = int64(unsafe.Sizeof(Reader{}) + unsafe.Sizeof(SeriesReader{}) + unsafe.Sizeof(Postings{}))
	BatchBytes  = int64(unsafe.Sizeof(Batch{}))
)

// Reader returns a reader that is charged to q; without a quota nothing bounds it. The caller closes it.
// It costs two allocations and reads nothing.
func (b *Block) Reader(q *slab.Quota) *Reader {
	b.used.Store(true)
	r := &Reader{block: b, open: b.hold()}
	r.account.quota = q
	return r
}

// Stats returns what the reader has done so far.
func (r *Reader) Stats() Stats { return r.stats }

// Close gives back what the reader holds. Postings and series readers that it made are no longer
// usable.
func (r *Reader) Close() {
	if r.closed {
		panic("BUG: reader closed twice")
	}
	r.closed = true
	r.Rest()
	r.block.letGo()
}

// Rest gives back what the reader holds for reading the index, scratch space and lists. Postings and series
// readers that it made are no longer usable. It still loads chunks.
func (r *Reader) Rest() {
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

// begin has the index header and the scratch space ready.
func (r *Reader) begin(ctx context.Context) (*header, error) {
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

// lend returns a slab that is given back on Close.
func (r *Reader) lend(what slab.Purpose, n int) ([]byte, error) {
	if err := r.account.reserve(what, r.block.options.Pool.Size(n)); err != nil {
		return nil, err
	}
	s := r.block.options.Pool.Bytes(n)
	r.slabs = append(r.slabs, s)
	return s.Bytes(), nil
}

// takeBack gives back the slabs lent since there were that many.
func (r *Reader) takeBack(what slab.Purpose, lent int) {
	for i, s := range r.slabs[lent:] {
		r.account.giveBack(what, s.Size())
		s.Release()
		r.slabs[lent+i] = slab.Slab{}
	}
	r.slabs = r.slabs[:lent]
}
