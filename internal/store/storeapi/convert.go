package storeapi

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A converter converts the chunks of series that the StoreAPI has no encoding for. Chunks with start timestamps
// are re-encoded without them. Of aggregates, it keeps those of the request.
type converter struct {
	quota      *slab.Quota
	aggregates []storepb.Aggr // of the request

	reserved int64 // bytes for the converted chunks of one series
	chunks   []storegateway.ChunkView
	encoded  []byte // aggregates of the current series as fields of AggrChunk
}

// close returns the bytes to the quota.
func (c *converter) close() {
	c.quota.Return(slab.ResponseBytes, c.reserved)
	c.reserved = 0
}

// reserve reserves bytes for the converted chunks of the current series, in place of those of earlier ones.
func (c *converter) reserve(bytes int64) error {
	if bytes <= c.reserved {
		return nil
	}
	if err := c.quota.Reserve(slab.ResponseBytes, bytes-c.reserved); err != nil {
		return err
	}
	c.reserved = bytes
	return nil
}

// convert returns the chunks of the set's current series with encodings that the StoreAPI defines. They are
// valid until the next call. A series that has only such chunks stays as it is, without allocation.
func (c *converter) convert(set *storegateway.SeriesSet) ([]storegateway.ChunkView, error) {
	all := set.At().Chunks
	first := unknownEncoding(all)
	if first < 0 {
		return all, nil
	}
	if err := c.growAggregates(all[first:]); err != nil {
		return nil, err
	}
	c.chunks = append(c.chunks[:0], all[:first]...)
	bytes := int64(cap(c.encoded))
	for i := first; i < len(all); i++ {
		from := len(c.chunks)
		if err := c.append(&all[i]); err != nil {
			return nil, conversionError(set, &all[i], err)
		}
		for _, added := range c.chunks[from:] {
			if all[i].Encoding != tsblock.EncodingAggregates {
				bytes += int64(cap(added.Data))
			}
		}
		if err := c.reserve(bytes + int64(cap(c.chunks))*int64(unsafe.Sizeof(all[i]))); err != nil {
			return nil, err
		}
	}
	return c.chunks, nil
}

// growAggregates makes room in encoded for the aggregates of all chunks, so that views of it stay valid.
func (c *converter) growAggregates(chunks []storegateway.ChunkView) error {
	size := 0
	for i := range chunks {
		if chunks[i].Encoding == tsblock.EncodingAggregates {
			size += len(chunks[i].Data) + maxAggregates*aggregateOverhead
		}
	}
	if c.encoded = c.encoded[:0]; size <= cap(c.encoded) {
		return nil
	}
	if err := c.reserve(int64(size)); err != nil {
		return err
	}
	c.encoded = make([]byte, 0, size)
	return nil
}

// append appends a chunk in the encodings of the StoreAPI.
func (c *converter) append(chunk *storegateway.ChunkView) (err error) {
	switch {
	case chunk.Encoding == tsblock.EncodingAggregates:
		err = c.appendAggregates(chunk)
	case unknownEncoding([]storegateway.ChunkView{*chunk}) < 0:
		c.chunks = append(c.chunks, *chunk)
	default:
		c.chunks, err = storegateway.AppendWithoutStart(c.chunks, chunk)
	}
	return err
}

// Bounds of the fields that represent a chunk's aggregates.
const (
	maxAggregates     = 5
	aggregateOverhead = 2 + 2 + 2*5 // tags, type, and the lengths of field and data
)

// appendAggregates appends a chunk of aggregates with the encoded fields of those that the request has.
func (c *converter) appendAggregates(chunk *storegateway.ChunkView) error {
	all, err := tsblock.SplitAggregates(chunk.Data)
	if err != nil {
		return err
	}
	begin := len(c.encoded)
	w := wire{buf: c.encoded[:cap(c.encoded)], n: begin}
	for kind := range all {
		a := &all[kind]
		if !c.requests(tsblock.Aggregate(kind)) {
			continue
		}
		if len(a.Data) == 0 {
			return fmt.Errorf("it has no aggregate %s", tsblock.Aggregate(kind))
		}
		if a.Encoding < firstEncoding || a.Encoding > lastEncoding {
			return &storegateway.EncodingError{Encoding: a.Encoding}
		}
		typ := chunkType(a.Encoding)
		w.field(tagChunkCount+byte(kind)<<3, dataLen(typ, len(a.Data)))
		w.number(tagDataType, typ)
		w.bytes(tagData, a.Data)
	}
	c.encoded = w.buf[:w.n]
	c.chunks = append(c.chunks, storegateway.ChunkView{
		MinTime: chunk.MinTime, MaxTime: chunk.MaxTime, Encoding: encodedFields, Data: c.encoded[begin:w.n:w.n],
	})
	return nil
}

// requests reports whether the request has the aggregate. The StoreAPI numbers raw samples before them.
func (c *converter) requests(kind tsblock.Aggregate) bool {
	return slices.Contains(c.aggregates, storepb.Aggr(kind)+storepb.Aggr_COUNT)
}

// conversionError adds the block and the series of a chunk to err.
func conversionError(set *storegateway.SeriesSet, c *storegateway.ChunkView, err error) error {
	reason := fmt.Sprintf("series %s: chunk of times %d to %d: %v", storegateway.BuiltLabels(set.At().Labels), c.MinTime, c.MaxTime, err)
	return set.Corrupt(c, reason)
}
