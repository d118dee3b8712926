package storegateway

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/tsblock"
)

// deletedAt reports whether the sample at t was deleted.
func deletedAt(ivs tombstones.Intervals, t int64) bool {
	for _, iv := range ivs {
		if t <= iv.Maxt {
			return t >= iv.Mint
		}
	}
	return false
}

// anyOverlap reports whether a sample from mint to maxt may have been deleted.
func anyOverlap(ivs tombstones.Intervals, mint, maxt int64) bool {
	return slices.ContainsFunc(ivs, func(iv tombstones.Interval) bool { return iv.Mint <= maxt && iv.Maxt >= mint })
}

// A keptIterator iterates over the samples of a chunk between two times that were not deleted. It does not
// support Seek, which encoders do not call.
type keptIterator struct {
	chunkenc.Iterator
	chunk      tsblock.Chunk
	mint, maxt int64
	deleted    tombstones.Intervals
	least      int64 // minimum time of the next sample
	err        error
}

// Next implements chunkenc.Iterator.
func (it *keptIterator) Next() chunkenc.ValueType {
	for {
		kind := it.Iterator.Next()
		if kind == chunkenc.ValNone {
			return chunkenc.ValNone
		}
		t := it.AtT()
		if it.err = misplaced(t, it.least, it.chunk); it.err != nil || t > it.maxt {
			return chunkenc.ValNone
		}
		if it.least = t + 1; t >= it.mint && !deletedAt(it.deleted, t) {
			return kind
		}
	}
}

// Err implements chunkenc.Iterator.
func (it *keptIterator) Err() error { return cmp.Or(it.err, it.Iterator.Err()) }

// appendKept appends the chunks of an entry. It re-encodes each chunk with deleted samples, or with samples that
// other blocks serve, without those, and charges that memory to the query until the set is closed.
func (set *SeriesSet) appendKept(dst []ChunkView, e *entry, deleted tombstones.Intervals) ([]ChunkView, error) {
	b := e.held.batch
	from, to := e.part()
	for j, c := range b.Chunks(e.i) {
		encoding, data := b.Data(e.i, j)
		if !anyOverlap(deleted, c.MinTime, c.MaxTime) && c.MinTime >= from && c.MaxTime <= to {
			dst = append(dst, ChunkView{MinTime: c.MinTime, MaxTime: c.MaxTime, Encoding: encoding, Data: data})
			continue
		}
		kept, err := keptChunks(encoding, data, c, from, to, deleted)
		if err != nil {
			return nil, chunkError(e.held, BuiltLabels(e.labels), c, err)
		}
		for _, k := range kept {
			if err := set.query.quota.Reserve(slab.Series, int64(len(k.Data))); err != nil {
				return nil, err
			}
			set.rewritten += int64(len(k.Data))
			dst = append(dst, k)
		}
	}
	return dst, nil
}

// keptChunks re-encodes the samples of a chunk between two times that were not deleted.
func keptChunks(encoding byte, data []byte, c tsblock.Chunk, mint, maxt int64, deleted tombstones.Intervals) ([]ChunkView, error) {
	if encoding == tsblock.EncodingAggregates {
		return keptAggregates(data, max(mint, c.MinTime), min(maxt, c.MaxTime))
	}
	chunk, err := openChunk(encoding, data)
	if err != nil {
		return nil, err
	}
	list := chunkList{}
	if _, err := list.appendPart(labels.EmptyLabels(), chunk, c, mint, maxt, deleted); err != nil {
		return nil, err
	}
	kept := make([]ChunkView, len(list.metas))
	for i, m := range list.metas {
		kept[i] = ChunkView{MinTime: m.MinTime, MaxTime: m.MaxTime, Encoding: byte(m.Chunk.Encoding()), Data: m.Chunk.Bytes()}
	}
	return kept, nil
}

// deleted returns the deleted ranges of the series.
func (p batchPos) deleted() tombstones.Intervals {
	return p.held.stream.handle.Deletions().Of(p.held.batch.SeriesRef(p.i))
}

// deleted returns the deleted ranges of the series.
func (e *entry) deleted() tombstones.Intervals {
	return e.held.stream.handle.Deletions().Of(e.held.batch.SeriesRef(e.i))
}
