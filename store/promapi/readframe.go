package promapi

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"google.golang.org/protobuf/encoding/protowire"
)

// A frame is a ChunkedReadResponse with chunks of one series, framed by its length as a varint and its CRC32C
// in big-endian order.
type frame struct {
	query  int
	labels []byte // fields of the ChunkedSeries
	chunks []byte
	size   int // room in an empty frame of this series
	room   int // rest of the room; the last chunk may exceed it
	crc    *crc32.Table
}

// reset starts the frames of a series.
func (f *frame) reset(ls labels.Labels, limit int) {
	f.labels = appendProtoLabels(f.labels[:0], ls)
	f.chunks = f.chunks[:0]
	f.size = limit
	ls.Range(func(l labels.Label) { f.size -= sizeProtoLabel(l) })
	f.room = f.size
}

// add appends a chunk.
func (f *frame) add(m chunks.Meta) {
	data, enc := m.Chunk.Bytes(), uint64(m.Chunk.Encoding())
	n := sizeProtoVarint(uint64(m.MinTime)) + sizeProtoVarint(uint64(m.MaxTime)) + sizeProtoVarint(enc)
	if len(data) > 0 {
		n += 1 + protowire.SizeBytes(len(data))
	}
	f.chunks = appendProtoBytes(f.chunks, 2, n)
	f.chunks = appendProtoVarint(f.chunks, 1, uint64(m.MinTime))
	f.chunks = appendProtoVarint(f.chunks, 2, uint64(m.MaxTime))
	f.chunks = appendProtoVarint(f.chunks, 3, enc)
	if len(data) > 0 {
		f.chunks = appendProtoBytes(f.chunks, 4, len(data))
		f.chunks = append(f.chunks, data...)
	}
	f.room -= n
}

// appendTo appends the frame and empties it for the next one of the series.
func (f *frame) appendTo(dst []byte) []byte {
	if f.crc == nil {
		f.crc = crc32.MakeTable(crc32.Castagnoli)
	}
	n := len(f.labels) + len(f.chunks)
	index := uint64(f.query)
	size := 1 + protowire.SizeVarint(uint64(n)) + n + sizeProtoVarint(index)
	dst = binary.AppendUvarint(dst, uint64(size))
	sum := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendProtoBytes(dst, 1, n)
	dst = append(dst, f.labels...)
	dst = append(dst, f.chunks...)
	dst = appendProtoVarint(dst, 2, index)
	binary.BigEndian.PutUint32(dst[sum:], crc32.Checksum(dst[sum+4:], f.crc))
	f.chunks = f.chunks[:0]
	f.room = f.size
	return dst
}
