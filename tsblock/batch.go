package tsblock

import (
	"sync"

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
}

// Len returns the number of series.
func (b *Batch) Len() int { return len(b.series) }

// Labels returns the labels of series i, sorted by name.
func (b *Batch) Labels(i int) []Label { return b.series[i].labels }

// SeriesRef returns the number by which the block's index knows series i.
func (b *Batch) SeriesRef(i int) uint32 { return b.series[i].ref }

// Chunks returns the chunks of series i that have a part in the time range, in the index's order.
func (b *Batch) Chunks(i int) []Chunk { return b.series[i].chunks }

// ChunkCount returns the number of chunks of all series.
func (b *Batch) ChunkCount() int { return b.chunkCount }

// PlannedBytes returns what the chunks are expected to take, as their references tell.
func (b *Batch) PlannedBytes() int64 { return b.planned }

// Block returns the block that the series are of.
func (b *Batch) Block() *Block { return b.block }

// chunkNumber returns the place of chunk j of series i among all chunks of the batch.
func (b *Batch) chunkNumber(i, j int) int { return int(b.series[i].first) + j }

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
	b.series, b.chunkCount = nil, 0
	b.block.letGo()
}
