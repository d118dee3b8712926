package storegateway

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/store/tsblock"
)

// A mixedIterator iterates over the samples of a series of which some blocks are downsampled. It decodes one chunk
// at a time, in the order of the chunks' times, and skips times that earlier chunks had samples of.
type mixedIterator struct {
	series     *oneSeries
	mint, maxt int64 // milliseconds, both inclusive
	chunks     []mixedChunk
	n          int // index of the next chunk
	samples    []mixedSample
	i          int // index of the current sample
	lastT      int64
	counter    counterState
	charged    int64 // bytes reserved for samples
	err        error
}

// A mixedChunk is the position of a chunk: its number in a place of the series.
type mixedChunk struct {
	mint     int64
	place, j int32
}

// A mixedSample is a decoded sample.
type mixedSample struct {
	t       int64
	kind    chunkenc.ValueType
	value   float64
	integer *histogram.Histogram      // of kind ValHistogram
	float   *histogram.FloatHistogram // of kind ValFloatHistogram
}

var _ chunkenc.Iterator = (*mixedIterator)(nil)

// reset positions the iterator before the first sample.
func (it *mixedIterator) reset(s *oneSeries) {
	charged := int64(0)
	if it.series != nil && it.series.of == s.of {
		charged = it.charged
	}
	*it = mixedIterator{
		series: s, mint: math.MinInt64, maxt: math.MaxInt64, lastT: math.MinInt64, i: -1,
		chunks: it.chunks[:0], samples: it.samples[:0], charged: charged,
	}
	if s.of.trim {
		it.mint, it.maxt = s.of.mint, s.of.maxt
	}
	for n, p := range s.places {
		from, to := partOf(p.held)
		for j, c := range p.held.batch.Chunks(p.i) {
			if c.MinTime <= min(to, s.of.maxt) && c.MaxTime >= max(from, s.of.mint) {
				it.chunks = append(it.chunks, mixedChunk{c.MinTime, int32(n), int32(j)})
			}
		}
	}
	slices.SortStableFunc(it.chunks, func(a, b mixedChunk) int { return cmp.Compare(a.mint, b.mint) })
}

// Next implements chunkenc.Iterator.
func (it *mixedIterator) Next() chunkenc.ValueType {
	for it.err == nil {
		for it.i+1 < len(it.samples) {
			it.i++
			s := &it.samples[it.i]
			if s.t <= it.lastT || s.t < it.mint {
				continue
			}
			if s.t > it.maxt {
				it.n, it.samples, it.i = len(it.chunks), it.samples[:0], -1
				return chunkenc.ValNone
			}
			it.lastT = s.t
			return s.kind
		}
		if it.samples, it.i = it.samples[:0], -1; it.n >= len(it.chunks) {
			return chunkenc.ValNone
		}
		it.n++
		it.err = it.decode(it.chunks[it.n-1])
	}
	return chunkenc.ValNone
}

// Seek implements chunkenc.Iterator. Chunks of counters are not skipped: their resets count.
func (it *mixedIterator) Seek(t milliseconds) chunkenc.ValueType {
	if it.err != nil {
		return chunkenc.ValNone
	}
	if it.i >= 0 && it.samples[it.i].t >= t {
		return it.samples[it.i].kind
	}
	if it.series.of.reads != counters && (len(it.samples) == 0 || it.samples[len(it.samples)-1].t < t) {
		it.samples, it.i = it.samples[:0], -1
		for it.n < len(it.chunks) && it.chunkEnd(it.chunks[it.n]) < t {
			it.n++
		}
	}
	for {
		kind := it.Next()
		if kind == chunkenc.ValNone || it.AtT() >= t {
			return kind
		}
	}
}

func (it *mixedIterator) chunkEnd(c mixedChunk) int64 {
	p := it.series.places[c.place]
	return p.held.batch.Chunks(p.i)[c.j].MaxTime
}

// decode sets samples to those of a chunk.
func (it *mixedIterator) decode(at mixedChunk) (err error) {
	p := it.series.places[at.place]
	windows := it.series.of.windows
	if err := windows.cancelled(); err != nil {
		return err
	}
	if err := windows.acquire(p.held); err != nil {
		return err
	}
	defer windows.release(p.held)
	encoding, data := p.held.batch.Data(p.i, int(at.j))
	c := p.held.batch.Chunks(p.i)[at.j]
	if err = it.decodeData(encoding, data); err == nil {
		err = it.misplaced(encoding, c)
	}
	if err != nil {
		return chunkError(p.held, it.series.labels, c, err)
	}
	from, to := partOf(p.held)
	if it.series.of.reads == counters && encoding == tsblock.EncodingAggregates {
		from, to = math.MinInt64, math.MaxInt64 // counters are not divided
	}
	deleted := p.deleted()
	it.samples = slices.DeleteFunc(it.samples, func(s mixedSample) bool { return s.t < from || s.t > to || deletedAt(deleted, s.t) })
	if it.series.of.reads == counters {
		it.removeResets()
	}
	return nil
}

// misplaced returns an error if a sample of a chunk is outside of the chunk's times or not after the one before it. Counters
// start with a raw sample that may be before the chunk's times, and end with two samples of the same time.
func (it *mixedIterator) misplaced(encoding byte, c tsblock.Chunk) error {
	if it.series.of.reads == counters && encoding == tsblock.EncodingAggregates {
		c.MinTime = math.MinInt64
	}
	least := c.MinTime
	for i := range it.samples {
		if err := misplaced(it.samples[i].t, least, c); err != nil {
			return err
		}
		if c.MinTime != math.MinInt64 {
			least = it.samples[i].t + 1
		}
	}
	return nil
}

// removeResets replaces the floats of a chunk by values that only rise.
func (it *mixedIterator) removeResets() {
	kept := it.samples[:0]
	for _, s := range it.samples {
		if s.kind == chunkenc.ValFloat {
			v, ok := it.counter.add(s.t, s.value)
			if !ok {
				continue
			}
			s.value = v
		}
		kept = append(kept, s)
	}
	it.samples = kept
}

// decodeData sets samples to those of a chunk's data.
func (it *mixedIterator) decodeData(encoding byte, data []byte) error {
	if encoding != tsblock.EncodingAggregates {
		err := it.charge(encoding, data)
		if err == nil {
			it.samples, err = appendSamples(it.samples[:0], encoding, data)
		}
		return err
	}
	all, err := tsblock.SplitAggregates(data)
	if err != nil {
		return err
	}
	reads := it.series.of.reads
	wanted := &all[reads.aggregate()]
	if len(wanted.Data) == 0 {
		if sum := &all[tsblock.AggregateSum]; len(sum.Data) > 0 && chunkenc.Encoding(sum.Encoding) != chunkenc.EncXOR {
			it.samples = it.samples[:0]
			return nil // histograms have no minimum and no maximum
		}
		return fmt.Errorf("it has no aggregate %s", reads.aggregate())
	}
	if err := it.charge(wanted.Encoding, wanted.Data); err != nil {
		return err
	}
	if it.samples, err = appendSamples(it.samples[:0], wanted.Encoding, wanted.Data); err != nil || reads != averages {
		return err
	}
	count := &all[tsblock.AggregateCount]
	if len(count.Data) == 0 {
		return fmt.Errorf("it has no aggregate %s", tsblock.AggregateCount)
	}
	divisors, err := appendSamples(nil, count.Encoding, count.Data)
	if err != nil {
		return err
	}
	return divide(it.samples, divisors)
}

// freeDecoded is the size of decoded samples that no select is charged for: more than those of chunks that Prometheus and
// Thanos write.
const freeDecoded = 1 << 20

// charge reserves the bytes of a chunk's decoded samples, which can be a hundred times as many as those of the chunk.
func (it *mixedIterator) charge(encoding byte, data []byte) error {
	n := decodedBytes(encoding, data)
	if n <= max(freeDecoded, it.charged) {
		return nil
	}
	if err := it.series.of.reserve(n - it.charged); err != nil {
		return err
	}
	it.charged = n
	return nil
}

// decodedBytes returns the approximate size of the decoded samples of a chunk.
func decodedBytes(encoding byte, data []byte) int64 {
	if checkChunk(encoding, data) != nil {
		return 0 // it is not decoded
	}
	samples, each := int64(binary.BigEndian.Uint16(data)), int64(unsafe.Sizeof(mixedSample{}))
	switch chunkenc.Encoding(encoding) {
	case chunkenc.EncXOR, chunkenc.EncXOR2:
		return samples * each
	}
	if l, err := readLayout(data[leastChunkData:]); err == nil {
		each += int64(unsafe.Sizeof(histogram.FloatHistogram{})) + 8*int64(l.buckets()+l.positive.spans+l.negative.spans+l.bounds)
	}
	return samples * each
}

// divide divides sums by counts, which must have the same times.
func divide(sums, counts []mixedSample) error {
	if len(sums) != len(counts) {
		return errors.New("its sums and counts differ in number")
	}
	for i := range sums {
		s, c := &sums[i], &counts[i]
		switch {
		case s.t != c.t || c.kind != chunkenc.ValFloat:
			return errors.New("its sums and counts differ in their times")
		case s.kind == chunkenc.ValFloat:
			s.value /= c.value
		case s.kind == chunkenc.ValFloatHistogram:
			s.float.Div(c.value)
		default:
			return errors.New("a sum is a histogram of integers")
		}
	}
	return nil
}

// appendSamples decodes a chunk that has samples.
func appendSamples(dst []mixedSample, encoding byte, data []byte) ([]mixedSample, error) {
	chunk, err := openChunk(encoding, data)
	if err != nil {
		return dst, err
	}
	it := chunk.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		s := mixedSample{kind: kind}
		switch kind {
		case chunkenc.ValHistogram:
			s.t, s.integer = it.AtHistogram(nil)
		case chunkenc.ValFloatHistogram:
			s.t, s.float = it.AtFloatHistogram(nil)
		default:
			s.t, s.value = it.At()
		}
		dst = append(dst, s)
	}
	return dst, it.Err()
}

func (it *mixedIterator) now() *mixedSample { return &it.samples[it.i] }

// At implements chunkenc.Iterator.
func (it *mixedIterator) At() (int64, float64) { return it.now().t, it.now().value }

// AtHistogram implements chunkenc.Iterator.
func (it *mixedIterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	s := it.now()
	if h == nil {
		return s.t, s.integer.Copy()
	}
	s.integer.CopyTo(h)
	return s.t, h
}

// AtFloatHistogram implements chunkenc.Iterator.
func (it *mixedIterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	s := it.now()
	switch {
	case s.integer != nil:
		return s.t, s.integer.ToFloat(h)
	case h == nil:
		return s.t, s.float.Copy()
	}
	s.float.CopyTo(h)
	return s.t, h
}

// AtT implements chunkenc.Iterator.
func (it *mixedIterator) AtT() int64 { return it.now().t }

// AtST implements chunkenc.Iterator. Downsampled blocks have no start timestamps.
func (it *mixedIterator) AtST() int64 { return 0 }

// Err implements chunkenc.Iterator.
func (it *mixedIterator) Err() error { return it.err }
