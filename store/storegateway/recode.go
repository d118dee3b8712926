package storegateway

import (
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/store/tsblock"
)

// An EncodingError reports a chunk of an unknown encoding.
type EncodingError struct{ Encoding byte }

// Error returns the encoding and the known ones.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("encoding %d is unknown, supported are 1 to 6 (floats and histograms, with and without start timestamps) and 255 (aggregates)", e.Encoding)
}

// openChunk returns a chunk with the data, after checkChunk.
func openChunk(encoding byte, data []byte) (chunkenc.Chunk, error) {
	if err := checkChunk(encoding, data); err != nil {
		return nil, err
	}
	return chunkenc.FromData(chunkenc.Encoding(encoding), data)
}

// AppendWithoutStart appends a chunk re-encoded without its start timestamps: XOR2 becomes XOR, and histograms
// keep their counter reset hints. The result is usually one chunk.
func AppendWithoutStart(dst []ChunkView, c *ChunkView) (_ []ChunkView, err error) {
	defer func() {
		if r := recover(); r != nil { // decoders of foreign code, on damaged data
			err = fmt.Errorf("decode chunk: %v", r)
		}
	}()
	old, err := openChunk(c.Encoding, c.Data)
	if err != nil {
		return dst, err
	}
	var header chunkenc.CounterResetHeader
	encoding := chunkenc.EncXOR
	switch h := old.(type) {
	case *chunkenc.XOR2Chunk:
	case *chunkenc.HistogramSTChunk:
		header, encoding = h.GetCounterResetHeader(), chunkenc.EncHistogram
	case *chunkenc.FloatHistogramSTChunk:
		header, encoding = h.GetCounterResetHeader(), chunkenc.EncFloatHistogram
	default:
		return dst, fmt.Errorf("a chunk of encoding %d has no start timestamps", c.Encoding)
	}
	return appendRecoded(dst, old, encoding, header)
}

// BuiltLabels converts labels to Prometheus' type.
func BuiltLabels(ls []tsblock.Label) labels.Labels {
	b := labels.NewScratchBuilder(len(ls))
	for _, l := range ls {
		b.Add(l.Name, l.Value)
	}
	return b.Labels()
}

// histogramFlags is the offset of the flags of a histogram chunk.
const histogramFlags = 2

// appendRecoded appends the samples of a chunk in another encoding of the same kind of samples.
func appendRecoded(dst []ChunkView, old chunkenc.Chunk, encoding chunkenc.Encoding, header chunkenc.CounterResetHeader) ([]ChunkView, error) {
	r := recoder{encoding: encoding}
	it := old.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		if err := r.add(it, kind); err != nil {
			return dst, err
		}
	}
	if err := it.Err(); err != nil {
		return dst, fmt.Errorf("decode chunk: %w", err)
	}
	r.finish()
	if len(r.done) > 0 && encoding != chunkenc.EncXOR {
		flags := &r.done[0].Data[histogramFlags]
		*flags = *flags&^chunkenc.CounterResetHeaderMask | byte(header)
	}
	return append(dst, r.done...), nil
}

// A recoder encodes samples of one kind. It starts a new chunk where a histogram cannot be appended.
type recoder struct {
	encoding   chunkenc.Encoding
	chunk      chunkenc.Chunk // nil before the first sample
	app        chunkenc.Appender
	mint, maxt int64
	done       []ChunkView
}

// add appends the current sample of an iterator.
func (r *recoder) add(it chunkenc.Iterator, kind chunkenc.ValueType) error {
	if r.chunk == nil {
		chunk, err := chunkenc.NewEmptyChunk(r.encoding)
		if err != nil {
			return err
		}
		if r.app, err = chunk.Appender(); err != nil {
			return err
		}
		r.chunk, r.mint = chunk, it.AtT()
	} else if it.AtT() <= r.maxt {
		return errUnordered
	}
	var next chunkenc.Chunk
	var recoded bool
	var err error
	switch kind {
	case chunkenc.ValHistogram:
		_, h := it.AtHistogram(nil)
		next, recoded, r.app, err = r.app.AppendHistogram(nil, 0, it.AtT(), h, false)
	case chunkenc.ValFloatHistogram:
		_, h := it.AtFloatHistogram(nil)
		next, recoded, r.app, err = r.app.AppendFloatHistogram(nil, 0, it.AtT(), h, false)
	default:
		r.app.Append(0, it.AtT(), floatOf(it))
	}
	if err != nil {
		return err
	}
	if next != nil {
		if !recoded {
			r.finish()
			r.mint = it.AtT()
		}
		r.chunk = next
	}
	r.maxt = it.AtT()
	return nil
}

func floatOf(it chunkenc.Iterator) float64 {
	_, v := it.At()
	return v
}

// finish adds the current chunk to done.
func (r *recoder) finish() {
	if r.chunk != nil {
		r.done = append(r.done, ChunkView{MinTime: r.mint, MaxTime: r.maxt, Encoding: byte(r.encoding), Data: r.chunk.Bytes()})
	}
	r.chunk = nil
}
