package tsblock

import (
	"sync"
	"unsafe"

	"github.com/taredb/tare/slab"
)

// A Label is a name and a value. Both are views: those of a batch are valid until its Release.
type Label struct{ Name, Value string }

// A Chunk says where a chunk lies and which times it spans, in milliseconds, both inclusive.
type Chunk struct {
	Ref              uint64 // segment number, from 0, << 32 | offset in the segment
	MinTime, MaxTime int64
}

// Entries are the pools of what batches are made of. They are meant to be shared by the whole
// process, and are safe for concurrent use.
type Entries struct {
	labels *slab.Entries[Label]
	chunks *slab.Entries[Chunk]
	series *slab.Entries[seriesEntry]

	scratches sync.Pool // of *scratch, each lent to one Reader
}

// NewEntries returns empty pools, each with those options.
func NewEntries(o slab.EntriesOptions) *Entries {
	return &Entries{
		labels: slab.NewEntries[Label](o),
		chunks: slab.NewEntries[Chunk](o),
		series: slab.NewEntries[seriesEntry](o),
	}
}

// Stats returns the sum of the pools' counts.
func (e *Entries) Stats() slab.PoolStats {
	return e.labels.Stats().Add(e.chunks.Stats()).Add(e.series.Stats())
}

// Age gives back slabs that have been idle since the call before, as slab.Pool.Age does.
func (e *Entries) Age() int64 { return e.labels.Age() + e.chunks.Age() + e.series.Age() }

// A seriesEntry is one series of a batch.
type seriesEntry struct {
	labels []Label
	chunks []Chunk
	ref    uint32
	first  int32 // number of its first chunk among the batch's
}

// A Batch is some series of a block: labels, chunk references and, after LoadChunks, chunk data. All of it
// lies in slabs, and is valid until Release. It outlives the Reader that made it. It is
// not for concurrent use but for reading.
type Batch struct {
	block      *Block
	series     []seriesEntry // a run of its arena
	chunkCount int
	planned    int64
	released   bool

	account     account
	seriesArena slab.Arena[seriesEntry]
	labelArena  slab.Arena[Label]
	chunkArena  slab.Arena[Chunk]
	text        textArena

	data batchData // load.go: the bytes of the chunks

	compact compactBatch // in place of series, once Compact was called
}

// A compactBatch is what of a batch is needed to load chunks.
type compactBatch struct {
	refs   []uint32 // of series
	ends   []uint32 // where the chunks of each end
	chunks []Chunk
}

// Len returns the number of series.
func (b *Batch) Len() int { return max(len(b.series), len(b.compact.refs)) }

// Labels returns the labels of series i, sorted by name. After Compact there are none.
func (b *Batch) Labels(i int) []Label { return b.series[i].labels }

// SeriesRef returns the number by which the block's index knows series i.
func (b *Batch) SeriesRef(i int) uint32 {
	if b.compact.refs != nil {
		return b.compact.refs[i]
	}
	return b.series[i].ref
}

// Chunks returns the chunks of series i that have a part in the time range, in the index's order.
func (b *Batch) Chunks(i int) []Chunk {
	if b.compact.refs != nil {
		return b.compact.chunks[b.compact.begin(i):b.compact.ends[i]]
	}
	return b.series[i].chunks
}

// begin is where the chunks of series i begin.
func (c *compactBatch) begin(i int) uint32 {
	if i == 0 {
		return 0
	}
	return c.ends[i-1]
}

// Compact gives back what of the batch is not needed to load chunks: labels are no longer valid, nor are views of
// references, which take 24 bytes each and 8 bytes per series from now on. It fails, and changes nothing, if
// the query may not hold both forms for a moment.
func (b *Batch) Compact() error {
	if b.released {
		panic("BUG: a released batch is compacted")
	}
	if b.compact.refs != nil || len(b.series) == 0 {
		return nil
	}
	bytes := int64(len(b.series))*8 + int64(b.chunkCount)*int64(unsafe.Sizeof(Chunk{}))
	if err := b.account.reserve(slab.Series, bytes); err != nil {
		return err
	}
	numbers := make([]uint32, 2*len(b.series))
	c := compactBatch{refs: numbers[:len(b.series)], ends: numbers[len(b.series):], chunks: make([]Chunk, 0, b.chunkCount)}
	for i := range b.series {
		c.refs[i] = b.series[i].ref
		c.chunks = append(c.chunks, b.series[i].chunks...)
		c.ends[i] = uint32(len(c.chunks))
	}
	b.seriesArena.Release()
	b.labelArena.Release()
	b.chunkArena.Release()
	b.text.release()
	b.account.giveBack(slab.Series, b.account.held[slotOf(slab.Series)]-bytes)
	b.series, b.compact = nil, c
	return nil
}

// ChunkCount returns the number of chunks of all series.
func (b *Batch) ChunkCount() int { return b.chunkCount }

// PlannedBytes returns what the chunks are expected to take, as their references tell.
func (b *Batch) PlannedBytes() int64 { return b.planned }

// chunkNumber returns the place of chunk j of series i among all chunks of the batch.
func (b *Batch) chunkNumber(i, j int) int {
	if b.compact.refs != nil {
		return int(b.compact.begin(i)) + j
	}
	return int(b.series[i].first) + j
}

// newBatch returns an empty batch.
func newBatch(block *Block, quota *slab.Quota) *Batch {
	e := block.options.Entries
	b := &Batch{
		block:       block,
		account:     account{quota: quota},
		seriesArena: e.series.Arena(),
		labelArena:  e.labels.Arena(),
		chunkArena:  e.chunks.Arena(),
		text:        textArena{pool: block.options.Pool},
	}
	block.hold()
	return b
}

// Release gives all memory back, exactly once. What the batch's methods returned is no longer
// valid.
func (b *Batch) Release() {
	if b.released {
		panic("BUG: batch released twice")
	}
	b.released = true
	b.data.release()
	b.seriesArena.Release()
	b.labelArena.Release()
	b.chunkArena.Release()
	b.text.release()
	b.account.close()
	b.series, b.compact, b.chunkCount = nil, compactBatch{}, 0
	b.block.letGo()
}
