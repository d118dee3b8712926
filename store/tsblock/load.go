package tsblock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/slab"
)

// batchData has the bytes of a batch's chunks.
type batchData struct{ chunkData }

func (d *batchData) release() { d.Release() }

// Data returns the encoding byte and the data of chunk j of series i. The data is a view, valid until
// DropChunks or Release. Data passes unknown encodings through. LoadChunks must have been called. Data does
// not allocate.
func (b *Batch) Data(i, j int) (encoding byte, data []byte) { return b.data.At(b.chunkNumber(i, j)) }

// DropChunks frees the bytes of the chunks and keeps the rest of the batch. LoadChunks can load them again.
func (b *Batch) DropChunks() { b.data.Release() }

// LoadChunks reads the data of all chunks of the batch. It plans the ranges to read, reserves their bytes in
// the query's quota, reads them into slabs, and checks the CRC of each chunk; there is no object, lock or
// copy per chunk. If it fails, nothing stays reserved. It does nothing if the data is loaded. It costs about
// ten allocations, regardless of the number of chunks.
func (r *Reader) LoadChunks(ctx context.Context, b *Batch) error {
	if b.released || r.closed {
		panic("BUG: chunks loaded for a batch or reader that is no more")
	}
	if b.chunkCount == 0 || b.data.Len() > 0 {
		return nil
	}
	l := chunkLoad{block: r.block, data: &b.data.chunkData}
	err := l.prepare(r.account.quota, b.chunkCount)
	if err == nil {
		l.take(b)
		err = l.run(ctx)
	}
	r.stats.Chunks.add(&l.usage)
	return err
}

// readChunks reads the chunks with the references refs, in any order, into d, which must be empty: d.At(i) is
// then the chunk of refs[i]. Its bytes are charged to q, if q is not nil. See Reader.LoadChunks.
func (b *Block) readChunks(ctx context.Context, q *slab.Quota, refs []uint64, d *chunkData) (Usage, error) {
	if d.Len() > 0 {
		panic("BUG: chunks read into data that is not empty")
	}
	if len(refs) == 0 {
		return Usage{}, nil
	}
	if !b.retain() {
		b.release()
		return Usage{}, fmt.Errorf("block %s: %w", b.prefix, errClosed)
	}
	defer b.release()
	l := chunkLoad{block: b, data: d}
	err := l.prepare(q, len(refs))
	if err == nil {
		copy(l.refs, refs)
		err = l.run(ctx)
	}
	return l.usage, err
}

// A chunkLoad loads chunks once: references become ranges, ranges are read into slabs, and slabs become
// views.
type chunkLoad struct {
	block *Block
	data  *chunkData

	work  slab.Slab // memory of refs and order during the load
	extra int64     // bytes reserved for work and ranges
	refs  []uint64  // first in the caller's order, then sorted
	order []uint32  // original index of each sorted reference; nil if refs was sorted

	names  []segmentName
	ranges []Range
	places []location // of ranges in slabs
	cached cachedBlock

	lengths loadLengths
	usage   Usage
}

// A segmentName is the object name of a chunk file.
type segmentName struct {
	segment uint32
	object  string
}

// A location is the destination of a range in the slabs.
type location struct {
	slab int
	off  int64
}

const (
	chunkRefBytes   = 8
	chunkOrderBytes = 4
	chunkRangeBytes = 40 + 16 // of a Range and its place
)

// prepare reserves and allocates the memory of n chunks besides their data.
func (l *chunkLoad) prepare(q *slab.Quota, n int) error {
	pool := l.block.options.Pool
	l.data.pool, l.data.quota = pool, q
	viewSize, workSize := n*chunkViewBytes, n*(chunkRefBytes+chunkOrderBytes)
	if err := l.data.reserve(pool.Size(viewSize)); err != nil {
		return l.failed(err)
	}
	if err := l.reserveExtra(pool.Size(workSize)); err != nil {
		return l.failed(err)
	}
	l.data.viewsIn = pool.Bytes(viewSize)
	l.data.views = slab.View[chunkView](l.data.viewsIn, n)
	l.work = pool.Bytes(workSize)
	l.refs = slab.View[uint64](l.work, n)
	return nil
}

// LoadBytes returns the peak of the bytes that LoadChunks reserves for the batch, planned from the
// references: it fetches nothing. The result is exact where a chunk ends at the next one of the batch or at
// the end of its file. Where the end of a chunk is unknown, it uses the block's estimate, and a longer chunk
// takes more. The memory of planning is reserved meanwhile.
func (r *Reader) LoadBytes(b *Batch) (int64, error) {
	if b.released || r.closed {
		panic("BUG: chunks planned for a batch or reader that is no more")
	}
	if b.chunkCount == 0 {
		return 0, nil
	}
	var data chunkData
	l := chunkLoad{block: r.block, data: &data}
	if err := l.prepare(r.account.quota, b.chunkCount); err != nil {
		return 0, err
	}
	l.take(b)
	if err := l.plan(CostsOf(r.block.source)); err != nil {
		return 0, l.failed(err)
	}
	l.places = make([]location, len(l.ranges))
	pool := r.block.options.Pool
	bytes := pool.Size(b.chunkCount*chunkViewBytes) + pool.Size(b.chunkCount*(chunkRefBytes+chunkOrderBytes)) +
		int64(cap(l.ranges))*chunkRangeBytes
	l.pack(func(size int64) { bytes += pool.Size(int(size)) })
	l.finish()
	data.Release()
	return bytes, nil
}

// take fills refs with the references of a batch's chunks.
func (l *chunkLoad) take(b *Batch) {
	k := 0
	for i := range b.Len() {
		for _, c := range b.Chunks(i) {
			l.refs[k] = c.Ref
			k++
		}
	}
}

// plan converts the references to ranges.
func (l *chunkLoad) plan(costs Costs) error {
	l.sort()
	if last, _ := splitRef(l.refs[len(l.refs)-1]); l.block.options.ChunkFiles > 0 && int64(last) >= int64(l.block.options.ChunkFiles) {
		return l.block.corrupt("index", 0, fmt.Sprintf("it has a chunk in %s, and the block has %d chunk files", SegmentFile(last), l.block.options.ChunkFiles))
	}
	o := PlanOptions{Gap: costs.Gap, Estimate: l.block.lengths.estimate(), SegmentSizes: l.block.segmentSizes()}
	if o.Gap == 0 {
		o.Gap = -1
	}
	plan, err := PlanChunks(make([]Range, 0, min(len(l.refs), 64)), l.refs, o)
	if err != nil {
		if c, ok := errors.AsType[*CorruptError](err); ok {
			c.Block = l.block.prefix
		}
		return err
	}
	l.ranges = plan.Ranges
	if l.cached = l.block.caches(); !l.cached.none() {
		l.ranges = alignRanges(l.ranges)
	}
	return l.reserveExtra(int64(cap(plan.Ranges)) * chunkRangeBytes)
}

// run loads the chunks from memory, or plans and reads. refs must be filled.
func (l *chunkLoad) run(ctx context.Context) error {
	known, err := l.loadKnown()
	if known {
		l.finish()
		return nil
	}
	if err != nil {
		return l.failed(err)
	}
	costs := CostsOf(l.block.source)
	if err := l.plan(costs); err != nil {
		return l.failed(err)
	}
	if err := l.allocate(); err != nil {
		return l.failed(err)
	}
	err = l.read(ctx, costs.Calls)
	l.usage.Wasted = l.usage.Fetched + l.usage.Disk + l.usage.Shared - l.usage.Touched
	if err != nil {
		return l.failed(err)
	}
	l.block.lengths.learn(&l.lengths)
	l.keepKnown()
	l.finish()
	return nil
}

// failed releases everything and returns err.
func (l *chunkLoad) failed(err error) error {
	l.finish()
	l.data.Release()
	return err
}

// finish releases the working memory of the load.
func (l *chunkLoad) finish() {
	l.work.Release()
	if l.data.quota != nil {
		l.data.quota.Return(slab.Chunks, l.extra)
	}
	l.work, l.extra, l.refs, l.order = slab.Slab{}, 0, nil, nil
}

func (l *chunkLoad) reserveExtra(n int64) error {
	if l.data.quota == nil {
		return nil
	}
	if err := l.data.quota.Reserve(slab.Chunks, n); err != nil {
		return err
	}
	l.extra += n
	return nil
}

// sort sorts the references in file order, in which they usually are.
func (l *chunkLoad) sort() {
	if slices.IsSorted(l.refs) {
		return
	}
	n := len(l.refs)
	l.order = slab.View[uint32](l.work, n*(chunkRefBytes+chunkOrderBytes)/chunkOrderBytes)[n*chunkRefBytes/chunkOrderBytes:]
	for i := range l.order {
		l.order[i] = uint32(i)
	}
	refs := l.refs
	slices.SortFunc(l.order, func(a, b uint32) int {
		switch {
		case refs[a] < refs[b]:
			return -1
		case refs[a] > refs[b]:
			return 1
		}
		return int(a) - int(b)
	})
	slices.Sort(l.refs)
}

// viewOf returns the view of the k-th of the sorted references.
func (l *chunkLoad) viewOf(k int) *chunkView {
	if l.order != nil {
		k = int(l.order[k])
	}
	return &l.data.views[k]
}

// allocate packs the ranges into as few slabs as possible, reserves their bytes, and takes the slabs from the
// pool.
func (l *chunkLoad) allocate() error {
	l.places = make([]location, len(l.ranges))
	var bytes int64
	count := l.pack(func(size int64) { bytes += l.data.pool.Size(int(size)) })
	if err := l.data.reserve(bytes); err != nil {
		return err
	}
	l.data.slabs = slices.Grow(l.data.slabs, count)
	l.data.bytes = slices.Grow(l.data.bytes, count)
	l.pack(func(size int64) { l.data.add(int(size)) })
	return nil
}

// pack assigns a location to each range and calls slabOf with the size of each slab.
func (l *chunkLoad) pack(slabOf func(size int64)) (count int) {
	var size int64
	for i := range l.ranges {
		n := l.ranges[i].Len
		if i > 0 && size+n > slab.MaxSlab {
			slabOf(size)
			count, size = count+1, 0
		}
		l.places[i] = location{count, size}
		size += n
	}
	slabOf(size)
	return count + 1
}

// object returns the object name of a segment.
func (l *chunkLoad) object(segment uint32) string {
	i, _ := slices.BinarySearchFunc(l.names, segment, func(n segmentName, s uint32) int { return int(int64(n.segment) - int64(s)) })
	return l.names[i].object
}

// name builds the object names of the ranges' segments.
func (l *chunkLoad) name() {
	for i := range l.ranges {
		if s := l.ranges[i].Segment; len(l.names) == 0 || l.names[len(l.names)-1].segment != s {
			l.names = append(l.names, segmentName{s, l.block.object(SegmentFile(s))})
		}
	}
}

// segmentSizes returns the lengths of the chunk files that the block's meta.json records.
func (b *Block) segmentSizes() []int64 {
	var sizes []int64
	for i := range b.meta.Thanos.Files {
		f := &b.meta.Thanos.Files[i]
		number, ok := strings.CutPrefix(f.Path, "chunks/")
		n, err := strconv.ParseUint(number, 10, 16)
		if !ok || err != nil || n == 0 {
			continue
		}
		if int(n) > len(sizes) {
			sizes = append(sizes, make([]int64, int(n)-len(sizes))...)
		}
		sizes[n-1] = f.Bytes
	}
	return sizes
}
