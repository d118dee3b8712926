package rowstream

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/rowstream/rowpb"
)

// A Compression is how batches are packed for the wire.
type Compression uint8

// The compressions. Zstd halves what text of rows weighs, or better, and costs several times the
// CPU of everything else: it is for wires that are narrower than a disk.
const (
	NoCompression Compression = iota
	Zstd
)

// message is the compression as it is asked for.
func (c Compression) message() rowpb.Compression {
	if c == Zstd {
		return rowpb.Compression_COMPRESSION_ZSTD
	}
	return rowpb.Compression_COMPRESSION_NONE
}

// zstdWindow bounds what a compressor looks back, and so its memory; batches are smaller.
const zstdWindow = 512 << 10

// newPacker makes the compressor of a server. It is used by several goroutines at once.
func newPacker() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
}

// pack packs the bytes of a message in place of them, into room that it answers for the next
// time.
func pack(m *rowpb.Batch, p *zstd.Encoder, room []byte) []byte {
	if len(m.Bytes) == 0 {
		return room
	}
	m.Unpacked = uint32(len(m.Bytes))
	m.Bytes = p.EncodeAll(m.Bytes, room[:0])
	return m.Bytes
}

// newUnpacker makes the decompressor of a client. It is used by several goroutines at once.
func newUnpacker(limit int) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(uint64(limit)), zstd.WithDecoderLowmem(true))
}

// unpack is the bytes of a message as they were before they were packed, in room if they
// were. A batch of more than limit bytes is an error.
func unpack(m *rowpb.Batch, p *zstd.Decoder, room []byte, limit int) (bytes, newRoom []byte, err error) {
	if m.Unpacked == 0 {
		return m.Bytes, room, nil
	}
	if int64(m.Unpacked) > int64(limit) {
		return nil, room, fmt.Errorf("a batch of %d bytes; the limit is %d", m.Unpacked, limit)
	}
	if cap(room) < int(m.Unpacked) {
		room = make([]byte, 0, m.Unpacked)
	}
	room, err = p.DecodeAll(m.Bytes, room[:0])
	if err != nil {
		return nil, room[:0], fmt.Errorf("unpack a batch: %w", err)
	}
	if len(room) != int(m.Unpacked) {
		return nil, room[:0], fmt.Errorf("unpack a batch: it has %d bytes, its message says %d", len(room), m.Unpacked)
	}
	return room, room, nil
}
