package storeapi

import (
	"encoding/binary"
	"math/bits"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/taredb/tare/internal/vtcodec"
	"github.com/taredb/tare/storegateway"
	"github.com/taredb/tare/tsblock"
)

// The tags of the fields that an answer to Series consists of: number<<3 | wire type, with wire
// type 2 for what has a length and 0 for numbers.
const (
	tagResponseSeries = 1<<3 | 2 // SeriesResponse.series, and SeriesBatch.series
	tagResponseBatch  = 4<<3 | 2

	tagSeriesLabel = 1<<3 | 2
	tagSeriesChunk = 2<<3 | 2

	tagLabelName  = 1<<3 | 2
	tagLabelValue = 2<<3 | 2

	tagChunkMinTime = 1 << 3
	tagChunkMaxTime = 2 << 3
	tagChunkRaw     = 3<<3 | 2

	tagDataType = 1 << 3
	tagData     = 2<<3 | 2
)

// uvarintLen returns the bytes of n as a varint.
func uvarintLen(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }

// fieldLen returns the bytes of a field with n bytes of content, tag and length included.
func fieldLen(n int) int { return 1 + uvarintLen(uint64(n)) + n }

// textLen is fieldLen for a string or bytes, which are left out when they are empty.
func textLen(n int) int {
	if n == 0 {
		return 0
	}
	return fieldLen(n)
}

// numberLen returns the bytes of a number's field, which is left out when it is 0.
func numberLen(n uint64) int {
	if n == 0 {
		return 0
	}
	return 1 + uvarintLen(n)
}

// labelsLen returns the bytes of the labels in a Series.
func labelsLen(ls []tsblock.Label) (n int) {
	for i := range ls {
		n += fieldLen(textLen(len(ls[i].Name)) + textLen(len(ls[i].Value)))
	}
	return n
}

// A wire writes protobuf fields into a buffer with room for them: whoever calls has measured
// them. It does not allocate.
type wire struct {
	buf []byte
	n   int // bytes written
}

func (w *wire) varint(v uint64) {
	w.n += binary.PutUvarint(w.buf[w.n:], v)
}

// field begins a field of n bytes.
func (w *wire) field(tag byte, n int) {
	w.buf[w.n] = tag
	w.n++
	w.varint(uint64(n))
}

func (w *wire) number(tag byte, v uint64) {
	if v != 0 {
		w.buf[w.n] = tag
		w.n++
		w.varint(v)
	}
}

func (w *wire) text(tag byte, s string) {
	if s != "" {
		w.field(tag, len(s))
		w.n += copy(w.buf[w.n:], s)
	}
}

func (w *wire) bytes(tag byte, b []byte) {
	if len(b) != 0 {
		w.field(tag, len(b))
		w.n += copy(w.buf[w.n:], b)
	}
}

func (w *wire) labels(ls []tsblock.Label) {
	for i := range ls {
		name, value := ls[i].Name, ls[i].Value
		w.field(tagSeriesLabel, textLen(len(name))+textLen(len(value)))
		w.text(tagLabelName, name)
		w.text(tagLabelValue, value)
	}
}

// dataLen returns the bytes of a Chunk of that type with n bytes of data.
func dataLen(typ uint64, n int) int { return numberLen(typ) + textLen(n) }

// chunkLen returns the bytes of an AggrChunk with raw samples.
func chunkLen(c *storegateway.ChunkView) int {
	return numberLen(uint64(c.MinTime)) + numberLen(uint64(c.MaxTime)) +
		fieldLen(dataLen(chunkType(c.Encoding), len(c.Data)))
}

// chunks writes the chunks of a Series.
func (w *wire) chunks(cs []storegateway.ChunkView) {
	for i := range cs {
		c := &cs[i]
		typ := chunkType(c.Encoding)
		w.field(tagSeriesChunk, chunkLen(c))
		w.number(tagChunkMinTime, uint64(c.MinTime))
		w.number(tagChunkMaxTime, uint64(c.MaxTime))
		w.field(tagChunkRaw, dataLen(typ, len(c.Data)))
		w.number(tagDataType, typ)
		w.bytes(tagData, c.Data)
	}
}

// Prometheus' encodings that the StoreAPI has a name for: EncXOR, EncHistogram and
// EncFloatHistogram, in the order of Chunk.Encoding.
const (
	firstEncoding = 1
	lastEncoding  = 3
)

// chunkType returns the Chunk.Encoding of a chunk whose encoding has passed unknownEncoding.
func chunkType(encoding byte) uint64 { return uint64(encoding) - firstEncoding }

// unknownEncoding returns the first chunk that the StoreAPI has no name for, -1 when it has all.
func unknownEncoding(cs []storegateway.ChunkView) int {
	for i := range cs {
		if e := cs[i].Encoding; e < firstEncoding || e > lastEncoding {
			return i
		}
	}
	return -1
}

// A codec encodes and decodes messages for a gRPC server: responses to Series are bytes
// already.
type codec struct{ vtcodec.Codec }

var _ encoding.CodecV2 = codec{}

// A vtMessage has code that vtprotobuf generated.
type vtMessage interface {
	SizeVT() int
	MarshalToSizedBufferVT(dst []byte) (int, error)
	UnmarshalVT(src []byte) error
}

// Marshal returns the bytes of v. It does not allocate for responses to Series.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*answer); ok {
		return m.buffers[:], nil
	}
	return c.Codec.Marshal(v)
}
