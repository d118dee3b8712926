package wire

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

// pack packs the bytes of a message into room, and answers how many they were.
func pack(data []byte, p *zstd.Encoder, room []byte) (packed []byte, unpacked uint32) {
	return p.EncodeAll(data, room[:0]), uint32(len(data))
}

// newUnpacker makes the decompressor of a client. It is used by several goroutines at once.
func newUnpacker(limit int) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(uint64(limit)), zstd.WithDecoderLowmem(true))
}

// unpack is the bytes of a message as they were before they were packed, in room if they
// were: unpacked is how many, 0 when they come as they are. A batch of more than limit bytes is
// an error.
func unpack(data []byte, unpacked uint32, p *zstd.Decoder, room []byte, limit int) (bytes, newRoom []byte, err error) {
	if unpacked == 0 {
		return data, room, nil
	}
	if int64(unpacked) > int64(limit) {
		return nil, room, fmt.Errorf("a batch of %d bytes; the limit is %d", unpacked, limit)
	}
	if cap(room) < int(unpacked) {
		room = make([]byte, 0, unpacked)
	}
	room, err = p.DecodeAll(data, room[:0])
	if err != nil {
		return nil, room[:0], fmt.Errorf("unpack a batch: %w", err)
	}
	if len(room) != int(unpacked) {
		return nil, room[:0], fmt.Errorf("unpack a batch: it has %d bytes, its message says %d", len(room), unpacked)
	}
	return room, room, nil
}
