package tsblock

import (
	"sync"
	"unsafe"

	"github.com/taredb/tare/internal/slab"
)

// A Label is a name and a value. Both are views: those of a batch are valid until its Release.
type Label struct{ Name, Value string }

// A Chunk is the position of a chunk and its time range in milliseconds, both inclusive.
type Chunk struct {
	Ref              uint64 // segment number, from 0, << 32 | offset in the segment
	MinTime, MaxTime int64
}

// Entries are the memory pools of batches. One value is usually shared by the whole process. It is safe for
// concurrent use.
type Entries struct {
	labels *slab.Entries[Label]
	chunks *slab.Entries[Chunk]
	series *slab.Entries[seriesEntry]

	scratches sync.Pool // of *scratch, each used by one Reader
}

// NewEntries returns empty pools, each with the options o.
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

// Age frees slabs that have been idle since the previous call, as slab.Pool.Age does. It returns their bytes.
func (e *Entries) Age() int64 { return e.labels.Age() + e.chunks.Age() + e.series.Age() }

// A seriesEntry is one series of a batch.
type seriesEntry struct {
	labels []Label
	chunks []Chunk
	ref    uint32
	first  int32 // number of its first chunk in the batch
}

// A Batch has some series of a block: labels, chunk references and, after LoadChunks, chunk data. All of it
// is in slabs and valid until Release. A batch outlives the Reader that returned it. Only its read methods
// may be called concurrently.
type Batch struct {
	block      *Block
	series     []seriesEntry // a slice of its arena
	chunkCount int
	planned    int64
	released   bool

	account     account
	seriesArena slab.Arena[seriesEntry]
	labelArena  slab.Arena[Label]
	chunkArena  slab.Arena[Chunk]
	text        textArena

	data batchData // load.go: the bytes of the chunks

	compact compactBatch // replaces series after Compact
}

// A compactBatch is the part of a batch that is needed to load chunks.
type compactBatch struct {
	refs   []uint32 // of series
	ends   []uint32 // end index of the chunks of each series
	chunks []Chunk
}

// Len returns the number of series.
func (b *Batch) Len() int { return max(len(b.series), len(b.compact.refs)) }

// Labels returns the labels of series i, sorted by name. It must not be called after Compact.
func (b *Batch) Labels(i int) []Label { return b.series[i].labels }

// SeriesRef returns the reference of series i in the block's index.
func (b *Batch) SeriesRef(i int) uint32 {
	if b.compact.refs != nil {
		return b.compact.refs[i]
	}
	return b.series[i].ref
}

// Chunks returns the chunks of series i that overlap the time range, in the order of their minimum times. They may
// overlap each other.
func (b *Batch) Chunks(i int) []Chunk {
	if b.compact.refs != nil {
		return b.compact.chunks[b.compact.start(i):b.compact.ends[i]]
	}
	return b.series[i].chunks
}

// start returns the index of the first chunk of series i.
func (c *compactBatch) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return c.ends[i-1]
}

// Compact frees the memory that is not needed to load chunks: labels and earlier views of references become
// invalid, and references take 24 bytes each and 8 bytes per series. If the query has no room for both forms
// at once, Compact returns an error and changes nothing.
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
	b.account.release(slab.Series, b.account.held[slotOf(slab.Series)]-bytes)
	b.series, b.compact = nil, c
	return nil
}

// ChunkCount returns the number of chunks of all series.
func (b *Batch) ChunkCount() int { return b.chunkCount }

// PlannedBytes returns the size of the chunks as estimated from their references.
func (b *Batch) PlannedBytes() int64 { return b.planned }

// chunkNumber returns the index of chunk j of series i among all chunks of the batch.
func (b *Batch) chunkNumber(i, j int) int {
	if b.compact.refs != nil {
		return int(b.compact.start(i)) + j
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
	block.retain()
	return b
}

// Release frees all memory of the batch. It must be called exactly once. It invalidates everything that the
// batch's methods returned.
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
	b.block.release()
}
