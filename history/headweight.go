package history

import (
	"context"
	"fmt"
	"math"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/sizegen/heapsize"
)

// Bytes that the head keeps per series, as the allocator charges them. The types of tsdb are unexported:
// these are the sizes of their fields, and TestHeadWeight compares the sum with the heap.
const (
	seriesBytes    = 176 + 32 + 32 // memSeries, txRing and its first four numbers
	openBytes      = 48 + 32       // memChunk and XORChunk or HistogramChunk
	floatOpenBytes = 48            // xorAppender
	histOpenBytes  = 256 + 160     // HistogramAppender and the last histogram.Histogram, without their slices
	closedBytes    = 48 + 8        // mmappedChunk and the pointer to it
	postingBytes   = 9             // a reference in the postings of a label, with the spare capacity that append leaves

	// The buffer of the file of closed chunks, and a copy of the chunks in it.
	closedBuffer = 160 << 10

	// A label value of few series: its entries in the list of values and in the map of postings, and its
	// postings.
	valueBytes = 20 + 64
)

// headSample is the number of series that are sampled of each metric. Series of one metric are alike; a histogram weighs many
// times as much as a counter, so that the weight of a sample of all series depends on how many histograms it has.
const headSample = 256

// weighHead returns the heap bytes of a head's series: of each metric the number of its series times the average of an evenly
// drawn sample. It excludes the bytes of an empty head.
func weighHead(ctx context.Context, head *tsdb.Head) (int64, error) {
	count := head.NumSeries()
	if count == 0 {
		return 0, nil
	}
	ir, err := head.Index()
	if err != nil {
		return 0, fmt.Errorf("weigh the head: %w", err)
	}
	defer func() { _ = ir.Close() }() // it was only read
	cr, err := head.Chunks()
	if err != nil {
		return 0, fmt.Errorf("weigh the head: %w", err)
	}
	defer func() { _ = cr.Close() }() // it was only read
	metrics, err := ir.LabelValues(ctx, promlabel.MetricNameLabel, nil)
	if err != nil {
		return 0, fmt.Errorf("weigh the head: %w", err)
	}
	w := headWeigher{chunks: cr}
	bytes := stripeBytes(float64(count))
	for _, metric := range metrics {
		n, err := w.metric(ctx, ir, metric)
		if err != nil {
			return 0, fmt.Errorf("weigh the head: %w", err)
		}
		bytes += n
	}
	if w.closed {
		bytes += closedBuffer
	}
	return bytes, nil
}

// A headWeigher adds up series.
type headWeigher struct {
	chunks  tsdb.ChunkReader
	builder labels.ScratchBuilder
	metas   []chunks.Meta
	h       histogram.Histogram

	seen, bytes int64 // of the current metric
	closed      bool  // some have closed chunks
}

// metric returns the bytes of all series of a metric.
func (w *headWeigher) metric(ctx context.Context, ir tsdb.IndexReader, name string) (int64, error) {
	count := uint64(0)
	all, err := ir.Postings(ctx, promlabel.MetricNameLabel, name)
	if err != nil {
		return 0, err
	}
	for all.Next() {
		count++
	}
	if all, err = ir.Postings(ctx, promlabel.MetricNameLabel, name); err != nil {
		return 0, err
	}
	w.seen, w.bytes = 0, 0
	every := max(count/headSample, 1)
	for n := uint64(0); all.Next(); n++ {
		const spread = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: neighbors are spread over all bits
		if n*spread>>32%every != 0 {
			continue
		}
		if err := ir.Series(all.At(), &w.builder, &w.metas); err != nil {
			continue // it was just removed
		}
		if err := w.series(); err != nil {
			return 0, err
		}
	}
	if err := all.Err(); err != nil || w.seen == 0 {
		return 0, err
	}
	return int64(float64(w.bytes) / float64(w.seen) * float64(count)), nil
}

func (w *headWeigher) series() error {
	w.seen++
	w.bytes += seriesBytes + postingBytes // of all series
	text := int64(0)
	info := false
	w.builder.Sort()
	w.builder.Labels().Range(func(l labels.Label) {
		text += int64(len(l.Name) + len(l.Value) + 2) // with their length prefixes
		w.bytes += postingBytes
		switch {
		case l.Name == promlabel.MetricNameLabel && l.Value == stmtseries.Info.String():
			info = true
		case l.Name == stmtseries.LabelText:
			w.bytes += valueBytes + 8
		}
	})
	if info { // one per digest
		w.bytes += valueBytes + 64
	}
	w.bytes += int64(heapsize.Object(uintptr(text), false))
	if len(w.metas) == 0 {
		return nil
	}
	w.bytes += closedBytes * int64(len(w.metas)-1)
	w.closed = w.closed || len(w.metas) > 1
	return w.open(&w.metas[len(w.metas)-1])
}

// open adds the open chunk of a series.
func (w *headWeigher) open(m *chunks.Meta) error {
	c, _, err := w.chunks.ChunkOrIterable(*m)
	if err != nil || c == nil {
		return nil //nolint:nilerr // it has just become a block
	}
	w.bytes += openBytes + int64(heapsize.Bytes(c.Bytes()))
	if c.Encoding() != chunkenc.EncHistogram {
		w.bytes += floatOpenBytes
		return nil
	}
	w.bytes += histOpenBytes
	it := c.Iterator(nil)
	if it.Next() != chunkenc.ValHistogram {
		return it.Err()
	}
	_, h := it.AtHistogram(&w.h)
	buckets := int64(heapsize.Array(uintptr(len(h.PositiveBuckets)), 8, false))
	spans := int64(heapsize.Array(uintptr(len(h.PositiveSpans)), 8, false))
	w.bytes += 3*buckets + 2*spans // of the appender's slices, their growth, and those of the last histogram
	return nil
}

// stripeBytes returns the bytes of the maps of a head's stripes for a number of series: by number, and by
// hash.
func stripeBytes(series float64) int64 {
	const stripes = tsdb.DefaultStripeSize
	whole, part := math.Modf(series / stripes)
	bytes := stripes * ((1-part)*float64(mapBytes(int(whole))) + part*float64(mapBytes(int(whole)+1)))
	// Hashes are randomly distributed.
	each := series / stripes
	p := math.Exp(-each)
	for n := 0; float64(n) < each+10*math.Sqrt(each)+10; n++ {
		bytes += stripes * p * float64(mapBytes(n))
		p *= each / float64(n+1)
	}
	return int64(bytes)
}

// mapBytes returns the bytes of the groups of a map from 8 to 8 bytes with n entries.
func mapBytes(n int) int64 {
	const group = 144
	switch {
	case n == 0:
		return 0
	case n <= 8:
		return group
	}
	slots := 16
	for slots*7/8 < n {
		slots *= 2
	}
	return 48 + int64(slots/8)*group
}

// A recordSize tracks the size of the write-ahead log's records: the log keeps a buffer for the largest one.
type recordSize struct {
	series, floats, histograms int64 // of the current commit
	largest                    int64
}

// sample adds the bytes of a sample to the records of its commit, including its series if that is new.
func (r *recordSize) sample(series labels.Labels, h *histogram.Histogram) {
	if !series.IsEmpty() {
		r.series += int64(series.ByteSize()) + 12
	}
	if h == nil {
		r.floats += 14
		return
	}
	r.histograms += 30 + 2*int64(len(h.PositiveBuckets)) + 4*int64(len(h.PositiveSpans))
}

func (r *recordSize) commit() {
	*r = recordSize{largest: max(r.largest, r.series, r.floats, r.histograms)}
}

// heapBytes returns the bytes of the buffer, which has room for incompressible data.
func (r *recordSize) heapBytes() int64 {
	if r.largest == 0 {
		return 0
	}
	return int64(heapsize.Object(uintptr(32+r.largest+r.largest/6), false))
}

// heapBytes returns the bytes that a writer keeps per Key, and the buffer of the log. The labels of infos
// belong to the head's series.
func (w *writer) heapBytes() int64 {
	const names = 3 * 16 // of a Key
	tracks := len(w.tracks) + len(w.ended)
	tags := int64(heapsize.Map(w.tags.tracks)) + int64(len(w.tags.tracks))*int64(heapsize.Boxed([calls.NumTagMetrics]tagTrack{}))
	return tags + int64(heapsize.Map(w.tracks)+heapsize.Map(w.byKey)+heapsize.Map(w.infos)) +
		int64(tracks)*(names+int64(heapsize.Boxed(track{}))) + int64(len(w.infos))*int64(heapsize.Boxed(info{})) + w.records.heapBytes() + w.sums.heapBytes()
}

// weigh records the heap bytes of the head and its writer. It must not be called during a round.
func (in *instance) weigh(ctx context.Context) error {
	head, err := weighHead(ctx, in.db.Current().Head())
	if err != nil {
		return err
	}
	in.heap.Store(head + in.writer.heapBytes())
	in.weighed.at, in.weighed.series = in.writer.last, in.db.Current().Head().NumSeries()
	return nil
}

// weightOutdated reports whether the head must be weighed again: once per minute, and when the number of series
// has changed by more than an eighth.
func (in *instance) weightOutdated() bool {
	series, was := in.db.Current().Head().NumSeries(), in.weighed.series
	return in.writer.last-in.weighed.at >= RefreshAge.Milliseconds() || series > was+was/8 || series < was-was/8
}

// HeapBytes returns the heap bytes of the head's series and the writer's state, as of the last minute. It
// excludes an empty head, which an Archive always has.
func (a *Archive) HeapBytes() (bytes int64) {
	for _, in := range a.all() {
		bytes += in.heap.Load()
	}
	return bytes
}
