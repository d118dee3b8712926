package storegateway

import (
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/taredb/tare/store/tsblock"
)

// A sampleIterator iterates over the samples of a lane of a series in one block. It decodes chunks in place, from their
// slab, with one reusable chunk object per encoding. If its window was dropped in the meantime, it loads the
// window again and returns to its position.
type sampleIterator struct {
	series     *oneSeries
	at         batchPos
	lane       lane
	mint, maxt int64
	deleted    tombstones.Intervals

	j       int // index of the current chunk in the lane; -1 before the first
	read    int // samples read from it
	loads   uint32
	entered bool
	least   int64              // minimum time of the next sample of the chunk
	most    int64              // maximum time of samples of the chunk in the time range
	kind    chunkenc.ValueType // type of the current sample
	chunk   chunkenc.Iterator  // nil before the first chunk and at the end
	err     error

	readers map[byte]*chunkReader
}

// A chunkReader decodes chunks of one encoding.
type chunkReader struct {
	chunk    chunkenc.Chunk
	iterator chunkenc.Iterator
}

var _ chunkenc.Iterator = (*sampleIterator)(nil)

// reset positions the iterator before the first sample.
func (it *sampleIterator) reset(s *oneSeries, at batchPos, of lane) {
	readers := it.readers
	*it = sampleIterator{series: s, at: at, lane: of, deleted: at.deleted(), mint: math.MinInt64, maxt: math.MaxInt64, j: -1, readers: readers}
	if s.of.trim {
		it.mint, it.maxt = s.of.mint, s.of.maxt
	}
}

// Next implements chunkenc.Iterator. It does not allocate for floats once it has read a chunk of their
// encoding.
func (it *sampleIterator) Next() chunkenc.ValueType {
	for it.err == nil {
		if it.chunk != nil {
			if !it.ensureLoaded() {
				break
			}
			it.read++
			if kind := it.chunk.Next(); kind != chunkenc.ValNone {
				t := it.chunk.AtT()
				if t < it.least || t > it.most {
					it.err = it.chunkError(it.misplaced(t))
					break // if the sample is where it should be, it is after the time range
				}
				it.least = t + 1
				if t < it.mint {
					continue
				} else if it.deleted != nil && deletedAt(it.deleted, t) {
					continue
				}
				it.kind = kind
				return kind
			}
			if it.err = it.chunkError(it.chunk.Err()); it.err != nil {
				break
			}
		}
		if !it.open(it.j + 1) {
			break
		}
	}
	return it.finish()
}

// milliseconds is the unit of times. The name keeps vet from mistaking Seek for that of io.Seeker.
type milliseconds = int64

// Seek implements chunkenc.Iterator.
func (it *sampleIterator) Seek(t milliseconds) chunkenc.ValueType {
	if it.err != nil || it.series == nil {
		return chunkenc.ValNone
	}
	if it.kind != chunkenc.ValNone && it.AtT() >= t {
		return it.kind
	}
	chunks := it.at.held.batch.Chunks(it.at.i)
	n := it.lane.len(len(chunks))
	if it.j >= n {
		return it.finish()
	}
	// Skip chunks that end earlier.
	j := max(it.j, 0)
	for j < n && chunks[it.lane.chunk(j)].MaxTime < max(t, it.mint) {
		j++
	}
	if (j != it.j || it.chunk == nil) && !it.open(j) {
		return it.finish()
	}
	for {
		kind := it.Next()
		if kind == chunkenc.ValNone || it.chunk.AtT() >= t {
			return kind
		}
	}
}

// open opens chunk j, or the next one in the time range, and reports whether there is one.
func (it *sampleIterator) open(j int) bool {
	chunks := it.at.held.batch.Chunks(it.at.i)
	n := it.lane.len(len(chunks))
	for j < n && chunks[it.lane.chunk(j)].MaxTime < it.mint {
		j++
	}
	it.j, it.chunk, it.read, it.kind = j, nil, 0, chunkenc.ValNone
	if j >= n || chunks[it.lane.chunk(j)].MinTime > it.maxt {
		it.j = n
		return false
	}
	c := chunks[it.lane.chunk(j)]
	if it.err = it.series.of.windows.cancelled(); it.err != nil {
		return false
	}
	if !it.entered {
		if it.err = it.series.of.windows.acquire(it.at.held); it.err != nil {
			return false
		}
		it.entered = true
	} else if it.at.held.loads.Load() != it.loads {
		if it.err = it.series.of.windows.reload(it.at.held); it.err != nil {
			return false
		}
	}
	it.loads = it.at.held.loads.Load()
	encoding, data := it.at.held.batch.Data(it.at.i, it.lane.chunk(j))
	if err := checkChunk(encoding, data); err != nil {
		it.err = it.chunkError(err)
		return false
	}
	r := it.readers[encoding]
	if r == nil {
		chunk, err := chunkenc.NewEmptyChunk(chunkenc.Encoding(encoding))
		if err != nil {
			it.err = it.chunkError(err)
			return false
		}
		r = &chunkReader{chunk: chunk}
		if it.readers == nil {
			it.readers = make(map[byte]*chunkReader)
		}
		it.readers[encoding] = r
	}
	r.chunk.Reset(data)
	r.iterator = r.chunk.Iterator(r.iterator)
	it.chunk, it.least, it.most = r.iterator, c.MinTime, min(c.MaxTime, it.maxt)
	return true
}

// current returns the current chunk.
func (it *sampleIterator) current() tsblock.Chunk {
	return it.at.held.batch.Chunks(it.at.i)[it.lane.chunk(it.j)]
}

// misplaced returns an error if a sample of the chunk is outside of the times that the index has for the chunk, or not
// after the sample before it: the sample could take the place of one of another chunk or block.
func (it *sampleIterator) misplaced(t int64) error {
	return misplaced(t, it.least, it.current())
}

// misplaced returns an error if a sample of a chunk is outside of the chunk's times, or before the least time.
func misplaced(t, least int64, c tsblock.Chunk) error {
	switch {
	case t < c.MinTime || t > c.MaxTime:
		return fmt.Errorf("a sample of time %d is outside of them", t)
	case t < least:
		return errUnordered
	}
	return nil
}

// errUnordered reports a sample whose time is not after that of the sample before it.
var errUnordered = errors.New("its samples are not in the order of time")

// ensureLoaded reports whether the chunk's bytes are valid, after loading the window again if it was dropped.
func (it *sampleIterator) ensureLoaded() bool {
	if it.at.held.loads.Load() == it.loads {
		return true
	}
	read, least := it.read, it.least
	if !it.open(it.j) {
		return false
	}
	for range read {
		it.chunk.Next()
	}
	it.read, it.least = read, least
	return true
}

// finish finishes the iteration and releases the window.
func (it *sampleIterator) finish() chunkenc.ValueType {
	it.release()
	it.kind, it.chunk = chunkenc.ValNone, nil
	if it.series != nil {
		it.j = math.MaxInt - 1
	}
	return chunkenc.ValNone
}

// release releases the window's chunks.
func (it *sampleIterator) release() {
	if it.entered {
		it.entered = false
		it.series.of.windows.release(it.at.held)
	}
}

// chunkError adds the unreadable chunk to err.
func (it *sampleIterator) chunkError(err error) error {
	if err == nil {
		return nil
	}
	return chunkError(it.at.held, it.series.labels, it.current(), err)
}

// At implements chunkenc.Iterator.
func (it *sampleIterator) At() (int64, float64) { return it.chunk.At() }

// AtHistogram implements chunkenc.Iterator.
func (it *sampleIterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	return it.chunk.AtHistogram(h)
}

// AtFloatHistogram implements chunkenc.Iterator.
func (it *sampleIterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return it.chunk.AtFloatHistogram(h)
}

// AtT implements chunkenc.Iterator.
func (it *sampleIterator) AtT() int64 { return it.chunk.AtT() }

// AtST implements chunkenc.Iterator.
func (it *sampleIterator) AtST() int64 { return it.chunk.AtST() }

// Err implements chunkenc.Iterator.
func (it *sampleIterator) Err() error { return it.err }

// A blocksIterator iterates over the samples of a series whose chunks overlap, in one block or in several, each time
// once, as Prometheus does with blocks that overlap: of several samples of one time it yields one.
type blocksIterator struct {
	chunkenc.Iterator // the chain
	parts             []*sampleIterator
	charged           int64 // bytes reserved for parts, beyond one per block
}

func (it *blocksIterator) reset(s *oneSeries) {
	var chained []chunkenc.Iterator
	var err error
	for _, at := range s.places {
		lanes := lanesOf(at.held.batch.Chunks(at.i))
		if err = it.charge(s.of, int64(len(chained)+len(lanes)-len(s.places))*laneBytes); err != nil {
			lanes = []lane{nil}
		}
		for _, l := range lanes {
			p := it.part(len(chained))
			p.reset(s, at, l)
			p.err = err
			chained = append(chained, p)
		}
	}
	it.Iterator = storage.ChainSampleIteratorFromIterators(it.Iterator, chained)
}

// part returns the part with an index.
func (it *blocksIterator) part(i int) *sampleIterator {
	if i == len(it.parts) {
		it.parts = append(it.parts, &sampleIterator{})
	}
	return it.parts[i]
}

// charge reserves bytes of the select for parts, those reserved before included.
func (it *blocksIterator) charge(of *selected, bytes int64) error {
	if bytes <= it.charged {
		return nil
	}
	if err := of.reserve(bytes - it.charged); err != nil {
		return err
	}
	it.charged = bytes
	return nil
}

func (it *blocksIterator) release() {
	for _, p := range it.parts {
		p.release()
	}
}
