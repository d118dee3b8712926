package storegateway

import (
	"context"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tombstones"
	"github.com/prometheus/prometheus/util/annotations"
)

// ChunkQueryable returns the gateway as those take it who want chunks, such as remote read. It is
// as Queryable in everything else. A series' chunks are copies, made at once; those that reach
// out of the time range are encoded anew without what is outside, and so are those of a series
// whose blocks overlap.
func (g *Gateway) ChunkQueryable(tenant func(context.Context) (string, error)) storage.ChunkQueryable {
	return chunkQueryable{g, tenant}
}

type chunkQueryable struct {
	gateway *Gateway
	tenant  func(context.Context) (string, error)
}

// ChunkQuerier implements storage.ChunkQueryable.
func (c chunkQueryable) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return &chunkQuerier{sourceOfSeries{gateway: c.gateway, tenant: c.tenant, mint: mint, maxt: maxt}}, nil
}

// A chunkQuerier is one of chunks.
type chunkQuerier struct{ sourceOfSeries }

var _ storage.ChunkQuerier = (*chunkQuerier)(nil)

// Select implements storage.ChunkQuerier.
func (q *chunkQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	l, err := q.choose(ctx, hints, ms, true)
	if err != nil {
		return storage.ErrChunkSeriesSet(err)
	}
	return &chunkSet{selected: l, i: -1}
}

// A chunkSet walks the series of a select.
type chunkSet struct {
	*selected
	i int
}

var _ storage.ChunkSeriesSet = (*chunkSet)(nil)

func (s *chunkSet) Next() bool {
	if s.i < len(s.series) {
		s.i++
	}
	return s.i < len(s.series)
}

func (s *chunkSet) At() storage.ChunkSeries           { return (*chunkSeries)(&s.series[s.i]) }
func (s *chunkSet) Err() error                        { return nil }
func (s *chunkSet) Warnings() annotations.Annotations { return s.set.missing.annotations() }

// A chunkSeries is a series whose chunks are wanted.
type chunkSeries oneSeries

// Labels implements storage.ChunkSeries.
func (s *chunkSeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.ChunkSeries.
func (s *chunkSeries) Iterator(it chunks.Iterator) chunks.Iterator {
	if (*oneSeries)(s).overlaps() {
		return storage.NewSeriesToChunkEncoder((*oneSeries)(s)).Iterator(it)
	}
	list, ok := it.(*chunkList)
	if !ok {
		list = &chunkList{}
	}
	list.metas, list.i, list.err = list.metas[:0], -1, nil
	for _, p := range s.places {
		if list.err = s.copyChunks(list, p); list.err != nil {
			break
		}
	}
	return list
}

// copyChunks appends copies of the chunks that a block has of the series.
func (s *chunkSeries) copyChunks(list *chunkList, at place) error {
	w := s.of.windows
	if err := w.enter(at.held); err != nil {
		return err
	}
	defer w.leave(at.held)
	cs := at.held.batch.Chunks(at.i)
	size := 0
	for j := range cs {
		_, data := at.held.batch.Data(at.i, j)
		size += len(data)
	}
	text := make([]byte, 0, size)
	floats := make([]chunkenc.XORChunk, len(cs))
	mint, maxt := s.of.set.request.MinTime, s.of.set.request.MaxTime
	deleted := at.deleted()
	for j, c := range cs {
		encoding, data := at.held.batch.Data(at.i, j)
		begin := len(text)
		text = append(text, data...)
		var chunk chunkenc.Chunk = &floats[j]
		if chunkenc.Encoding(encoding) != chunkenc.EncXOR {
			var err error
			if chunk, err = chunkenc.NewEmptyChunk(chunkenc.Encoding(encoding)); err != nil {
				return fmt.Errorf("block %s: series %s: chunk of times %d to %d: %w",
					at.held.stream.handle.id(), s.labels, c.MinTime, c.MaxTime, err)
			}
		}
		chunk.Reset(text[begin:len(text):len(text)])
		meta := chunks.Meta{MinTime: c.MinTime, MaxTime: c.MaxTime, Chunk: chunk}
		inside := !s.of.trim || c.MinTime >= mint && c.MaxTime <= maxt
		if inside && !touches(deleted, c.MinTime, c.MaxTime) {
			list.metas = append(list.metas, meta)
			continue
		}
		from, to := mint, maxt
		if !s.of.trim {
			from, to = c.MinTime, c.MaxTime
		}
		if err := list.appendPart(s.labels, chunk, from, to, deleted); err != nil {
			return fmt.Errorf("block %s: series %s: chunk of times %d to %d: %w",
				at.held.stream.handle.id(), s.labels, c.MinTime, c.MaxTime, err)
		}
	}
	return nil
}

// A chunkList walks chunks that are in memory.
type chunkList struct {
	metas []chunks.Meta
	i     int
	err   error
}

var _ chunks.Iterator = (*chunkList)(nil)

// Next implements chunks.Iterator.
func (l *chunkList) Next() bool {
	if l.err != nil || l.i >= len(l.metas) {
		return false
	}
	l.i++
	return l.i < len(l.metas)
}

// At implements chunks.Iterator.
func (l *chunkList) At() chunks.Meta { return l.metas[l.i] }

// Err implements chunks.Iterator.
func (l *chunkList) Err() error { return l.err }

// appendPart appends what a chunk has from mint to maxt and was not deleted, encoded again.
func (l *chunkList) appendPart(ls labels.Labels, chunk chunkenc.Chunk, mint, maxt int64, deleted tombstones.Intervals) error {
	encoded := storage.NewSeriesToChunkEncoder(&storage.SeriesEntry{
		Lset: ls,
		SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
			return &keptIterator{Iterator: chunk.Iterator(nil), mint: mint, maxt: maxt, deleted: deleted}
		},
	}).Iterator(nil)
	for encoded.Next() {
		l.metas = append(l.metas, encoded.At())
	}
	return encoded.Err()
}
