package storegateway

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// A walkIterator iterates over the samples of a series in several blocks whose chunks do not overlap, one
// block after the other: it loads the chunks of a block when it reaches the block, and releases them when it
// leaves. It yields the samples that Prometheus' iterator over all of them yields.
type walkIterator struct {
	series *oneSeries
	it     sampleIterator // of the current block
	n      int            // its index in series.places

	kind        chunkenc.ValueType // type of the current sample
	lastT       int64
	started     bool
	ended       bool
	consecutive bool // the sample follows the previous one in its chunk: counter reset hints are valid
	err         error
}

var _ chunkenc.Iterator = (*walkIterator)(nil)

// reset positions the iterator before the first sample of the series.
func (w *walkIterator) reset(s *oneSeries) {
	w.it.release()
	*w = walkIterator{series: s, it: sampleIterator{readers: w.it.readers}, lastT: math.MinInt64}
	w.it.reset(s, s.places[0], nil)
}

// follow advances to the next block, and reports whether there is one.
func (w *walkIterator) follow() bool {
	if w.err = w.it.err; w.err != nil || w.n+1 >= len(w.series.places) {
		w.ended, w.kind = true, chunkenc.ValNone
		return false
	}
	w.it.release()
	w.n++
	w.it.reset(w.series, w.series.places[w.n], nil)
	return true
}

// Next implements chunkenc.Iterator.
func (w *walkIterator) Next() chunkenc.ValueType {
	if w.ended {
		return chunkenc.ValNone
	}
	changed := !w.started
	w.started = true
	for {
		if kind := w.it.Next(); kind != chunkenc.ValNone {
			if t := w.it.AtT(); t > w.lastT {
				w.kind, w.lastT, w.consecutive = kind, t, !changed
				return kind
			}
			continue // the index has wrong times of chunks
		}
		if !w.follow() {
			return chunkenc.ValNone
		}
		changed = true
	}
}

// Seek implements chunkenc.Iterator.
func (w *walkIterator) Seek(t milliseconds) chunkenc.ValueType {
	switch {
	case w.ended:
		return chunkenc.ValNone
	case w.kind != chunkenc.ValNone && w.lastT >= t:
		return w.kind
	}
	w.started, w.consecutive = true, false
	for w.n+1 < len(w.series.places) && w.series.places[w.n].maxTime() < t && w.follow() {
	}
	for {
		if kind := w.it.Seek(max(t, w.lastT)); kind != chunkenc.ValNone {
			w.kind, w.lastT = kind, w.it.AtT()
			return kind
		}
		if !w.follow() {
			return chunkenc.ValNone
		}
	}
}

// maxTime returns the end time of the last chunk.
func (p *batchPos) maxTime() int64 {
	last := int64(math.MinInt64)
	for _, c := range p.held.batch.Chunks(p.i) {
		last = max(last, c.MaxTime)
	}
	return last
}

// At implements chunkenc.Iterator.
func (w *walkIterator) At() (int64, float64) { return w.it.At() }

// AtHistogram implements chunkenc.Iterator.
func (w *walkIterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	t, h := w.it.AtHistogram(h)
	if !w.consecutive && h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return t, h
}

// AtFloatHistogram implements chunkenc.Iterator.
func (w *walkIterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	t, h := w.it.AtFloatHistogram(h)
	if !w.consecutive && h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return t, h
}

// AtT implements chunkenc.Iterator.
func (w *walkIterator) AtT() int64 { return w.it.AtT() }

// AtST implements chunkenc.Iterator.
func (w *walkIterator) AtST() int64 { return w.it.AtST() }

// Err implements chunkenc.Iterator.
func (w *walkIterator) Err() error { return w.err }
