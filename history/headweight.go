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
	tsdbindex "github.com/prometheus/prometheus/tsdb/index"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/stmtseries"
)

// What the head keeps of a series, as the allocator charges it. The types are tsdb's own and cannot be looked into: these are
// the sizes of their fields, and TestHeadWeight compares the sum with the heap.
const (
	seriesBytes    = 176 + 32 + 32 // memSeries, txRing and its first four numbers
	openBytes      = 48 + 32       // memChunk and XORChunk or HistogramChunk
	floatOpenBytes = 48            // xorAppender
	histOpenBytes  = 256 + 160     // HistogramAppender and the last histogram.Histogram, without their slices
	closedBytes    = 48 + 8        // mmappedChunk and the pointer to it
	postingBytes   = 9             // a reference in the list of a label, with the room that append leaves

	// The buffer of the file of closed chunks, and the chunks in it once more.
	closedBuffer = 160 << 10

	// A label value that few series have: its place among the values, its place in the map of lists, and its list.
	valueBytes = 20 + 64
)

// headSample is how many series are looked at to weigh a head.
const headSample = 1024

// weighHead is what the series of a head take of the heap: the number of series, times what some of them, which are drawn
// evenly, take on average. What an empty head takes is not in it.
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
	name, value := tsdbindex.AllPostingsKey()
	all, err := ir.Postings(ctx, name, value)
	if err != nil {
		return 0, fmt.Errorf("weigh the head: %w", err)
	}
	w := headWeigher{chunks: cr}
	every := max(count/headSample, 1)
	for n := uint64(0); all.Next(); n++ {
		const spread = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: neighbors are spread over all bits
		if n*spread>>32%every != 0 {
			continue
		}
		if err := ir.Series(all.At(), &w.builder, &w.metas); err != nil {
			continue // it has just gone
		}
		if err := w.series(); err != nil {
			return 0, fmt.Errorf("weigh the head: %w", err)
		}
	}
	if err := all.Err(); err != nil || w.seen == 0 {
		return 0, err
	}
	bytes := int64(float64(w.bytes)/float64(w.seen)*float64(count)) + stripeBytes(float64(count))
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

	seen, bytes int64
	closed      bool // some have chunks that are closed
}

func (w *headWeigher) series() error {
	w.seen++
	w.bytes += seriesBytes + postingBytes // of all series
	text := int64(0)
	info := false
	w.builder.Sort()
	w.builder.Labels().Range(func(l labels.Label) {
		text += int64(len(l.Name) + len(l.Value) + 2) // their lengths stand before them
		w.bytes += postingBytes
		switch {
		case l.Name == promlabel.MetricNameLabel && l.Value == stmtseries.Info.String():
			info = true
		case l.Name == stmtseries.LabelText:
			w.bytes += valueBytes + 8
		}
	})
	if info { // a digest has one
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

// open adds the chunk that samples are added to.
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
	w.bytes += 3*buckets + 2*spans // of the appender its own and their growth, and those of the last histogram
	return nil
}

// stripeBytes is what the maps of a head's stripes take with so many series: by number, and by hash.
func stripeBytes(series float64) int64 {
	const stripes = tsdb.DefaultStripeSize
	whole, part := math.Modf(series / stripes)
	bytes := stripes * ((1-part)*float64(mapBytes(int(whole))) + part*float64(mapBytes(int(whole)+1)))
	// Hashes fall where they like.
	each := series / stripes
	p := math.Exp(-each)
	for n := 0; float64(n) < each+10*math.Sqrt(each)+10; n++ {
		bytes += stripes * p * float64(mapBytes(n))
		p *= each / float64(n+1)
	}
	return int64(bytes)
}

// mapBytes is what a map of 8 bytes to 8 takes for its content.
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

// A recordSize follows how large the records of the write-ahead log become: the log keeps a buffer for the largest one.
type recordSize struct {
	series, floats, histograms int64 // of the commit under way
	largest                    int64
}

// sample adds what a sample takes in the records of its commit, with its series where that is new.
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

// heapBytes is the buffer, which has room for what cannot be compressed.
func (r *recordSize) heapBytes() int64 {
	if r.largest == 0 {
		return 0
	}
	return int64(heapsize.Object(uintptr(32+r.largest+r.largest/6), false))
}

// heapBytes is what a writer keeps of Keys, and the log of its records. The labels of infos are those of the head's series.
func (w *writer) heapBytes() int64 {
	const names = 3 * 16 // of a Key
	tracks := len(w.tracks) + len(w.ended)
	return int64(heapsize.Map(w.tracks)+heapsize.Map(w.byKey)+heapsize.Map(w.infos)) +
		int64(tracks)*(names+int64(heapsize.Boxed(track{}))) + int64(len(w.infos))*int64(heapsize.Boxed(info{})) + w.records.heapBytes() + w.sums.heapBytes()
}

// weigh notes what the head and its writer hold. It is called while no round runs.
func (in *instance) weigh(ctx context.Context) error {
	head, err := weighHead(ctx, in.db.Current().Head())
	if err != nil {
		return err
	}
	in.heap.Store(head + in.writer.heapBytes())
	in.weighed.at, in.weighed.series = in.writer.last, in.db.Current().Head().NumSeries()
	return nil
}

// outweighed says whether the head is to be weighed anew: once a minute, and when it has an eighth more series or less.
func (in *instance) outweighed() bool {
	series, was := in.db.Current().Head().NumSeries(), in.weighed.series
	return in.writer.last-in.weighed.at >= RefreshAge.Milliseconds() || series > was+was/8 || series < was-was/8
}

// HeapBytes is what the head's series and what is known of their Keys take of the heap, as of the last minute. An empty head, which
// an Archive has from the start on, is not in it.
func (a *Archive) HeapBytes() (bytes int64) {
	for _, in := range a.all() {
		bytes += in.heap.Load()
	}
	return bytes
}
