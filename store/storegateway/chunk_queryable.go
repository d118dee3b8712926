package storegateway

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/taredb/tare/store/tsblock"
)

// ChunkQueryable returns the gateway as a queryable of chunks, for remote read for example. Otherwise it
// equals Queryable. Chunks are copies: those of one block are created when the iteration reaches the block,
// and charged until it leaves the block. Chunks that extend beyond the time range are re-encoded without the
// samples outside, as are the chunks of a series whose blocks overlap, all at once: they are charged when they are encoded.
func (g *Gateway) ChunkQueryable(tenant func(context.Context) (string, error)) storage.ChunkQueryable {
	return chunkQueryable{g, tenant}
}

type chunkQueryable struct {
	gateway *Gateway
	tenant  func(context.Context) (string, error)
}

// ChunkQuerier implements storage.ChunkQueryable.
func (c chunkQueryable) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return &chunkQuerier{querierBase{gateway: c.gateway, tenant: c.tenant, mint: mint, maxt: maxt}}, nil
}

// A chunkQuerier implements storage.ChunkQuerier.
type chunkQuerier struct{ querierBase }

var _ storage.ChunkQuerier = (*chunkQuerier)(nil)

// Select implements storage.ChunkQuerier.
func (q *chunkQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	return &chunkSet{q.newLazySelect(ctx, hints, ms, true)}
}

// A chunkSet iterates over the series of a select.
type chunkSet struct{ *lazySelect }

var _ storage.ChunkSeriesSet = (*chunkSet)(nil)

func (s *chunkSet) At() storage.ChunkSeries { return (*chunkSeries)(&s.of.series[s.i]) }

// A chunkSeries is a series that is read as chunks.
type chunkSeries oneSeries

// Labels implements storage.ChunkSeries.
func (s *chunkSeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.ChunkSeries.
func (s *chunkSeries) Iterator(it chunks.Iterator) chunks.Iterator {
	list, ok := it.(*chunkList)
	if !ok {
		list = &chunkList{}
	}
	*list = chunkList{metas: list.metas[:0], i: -1, series: s}
	if (*oneSeries)(s).overlaps() {
		list.place = len(s.places)
		var size int64
		if size, list.err = list.encode((*oneSeries)(s)); list.err == nil {
			list.err = s.of.reserveCopies(size)
		}
	}
	return list
}

// copyChunks appends copies of the series' chunks in one block.
func (s *chunkSeries) copyChunks(list *chunkList, at batchPos) error {
	w := s.of.windows
	if err := w.acquire(at.held); err != nil {
		return err
	}
	defer w.release(at.held)
	cs := at.held.batch.Chunks(at.i)
	var size int64
	for j := range cs {
		_, data := at.held.batch.Data(at.i, j)
		size += int64(len(data))
	}
	if err := s.of.reserveCopies(size); err != nil {
		return err
	}
	text := make([]byte, 0, size)
	floats := make([]chunkenc.XORChunk, len(cs))
	mint, maxt := s.of.mint, s.of.maxt
	deleted := at.deleted()
	for j, c := range cs {
		if c.MaxTime < mint || c.MinTime > maxt {
			continue // outside of this select: a select with the same matchers read them
		}
		encoding, data := at.held.batch.Data(at.i, j)
		if err := checkChunk(encoding, data); err != nil {
			return s.chunkError(at, c, err)
		}
		begin := len(text)
		text = append(text, data...)
		var chunk chunkenc.Chunk = &floats[j]
		if chunkenc.Encoding(encoding) != chunkenc.EncXOR {
			var err error
			if chunk, err = chunkenc.NewEmptyChunk(chunkenc.Encoding(encoding)); err != nil {
				return s.chunkError(at, c, err)
			}
		}
		chunk.Reset(text[begin:len(text):len(text)])
		meta := chunks.Meta{MinTime: c.MinTime, MaxTime: c.MaxTime, Chunk: chunk}
		inside := !s.of.trim || c.MinTime >= mint && c.MaxTime <= maxt
		if inside && !anyOverlap(deleted, c.MinTime, c.MaxTime) {
			list.metas = append(list.metas, meta)
			continue
		}
		from, to := mint, maxt
		if !s.of.trim {
			from, to = c.MinTime, c.MaxTime
		}
		part, err := list.appendPart(s.labels, chunk, c, from, to, deleted)
		if err != nil {
			return s.chunkError(at, c, err)
		}
		size += part
	}
	return s.of.reserveCopies(size)
}

// chunkError adds the block, the series and the times of an unreadable chunk to err.
func (s *chunkSeries) chunkError(at batchPos, c tsblock.Chunk, err error) error {
	return chunkError(at.held, s.labels, c, err)
}

// A chunkList iterates over the chunks of a series, block by block.
type chunkList struct {
	metas  []chunks.Meta // of one block
	i      int
	series *chunkSeries
	place  int // index of the next place of the series to read
	err    error
}

var _ chunks.Iterator = (*chunkList)(nil)

// Next implements chunks.Iterator.
func (l *chunkList) Next() bool {
	l.i++
	for l.err == nil && l.i >= len(l.metas) && l.place < len(l.series.places) {
		l.metas, l.i = l.metas[:0], 0
		l.err = l.series.copyChunks(l, l.series.places[l.place])
		l.place++
	}
	return l.err == nil && l.i < len(l.metas)
}

// At implements chunks.Iterator.
func (l *chunkList) At() chunks.Meta { return l.metas[l.i] }

// Err implements chunks.Iterator.
func (l *chunkList) Err() error { return l.err }

// appendPart re-encodes the samples of a chunk from mint to maxt that were not deleted, appends the result, and returns its
// bytes.
func (l *chunkList) appendPart(ls labels.Labels, chunk chunkenc.Chunk, of tsblock.Chunk, mint, maxt int64, deleted tombstones.Intervals) (int64, error) {
	return l.encode(&storage.SeriesEntry{
		Lset: ls,
		SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
			return &keptIterator{Iterator: chunk.Iterator(nil), chunk: of, least: of.MinTime, mint: mint, maxt: maxt, deleted: deleted}
		},
	})
}

// encode appends the samples of a series as new chunks, and returns their bytes.
func (l *chunkList) encode(series storage.Series) (size int64, err error) {
	encoded := storage.NewSeriesToChunkEncoder(series).Iterator(nil)
	for encoded.Next() {
		l.metas = append(l.metas, encoded.At())
		size += int64(len(encoded.At().Chunk.Bytes()))
	}
	return size, encoded.Err()
}
