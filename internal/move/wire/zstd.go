package wire

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/mysql/rowpb"
)

// A Compression is the compression of batches on the wire.
type Compression uint8

// The compressions. Zstd halves the size of rows of text, or better, and costs several times the CPU of
// everything else: it suits networks that are slower than a disk.
const (
	NoCompression Compression = iota
	Zstd
)

// message returns the compression as requested.
func (c Compression) message() rowpb.Compression {
	if c == Zstd {
		return rowpb.Compression_COMPRESSION_ZSTD
	}
	return rowpb.Compression_COMPRESSION_NONE
}

// zstdWindow bounds the window of a compressor, and so its memory; batches are smaller.
const zstdWindow = 512 << 10

// newPacker returns the compressor of a server, which is used concurrently.
func newPacker() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
}

// pack compresses the bytes of a message into room, and returns their original number.
func pack(data []byte, p *zstd.Encoder, room []byte) (packed []byte, unpacked uint32) {
	return p.EncodeAll(data, room[:0]), uint32(len(data))
}

// newUnpacker returns the decompressor of a client, which is used concurrently.
func newUnpacker(limit int) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(uint64(limit)), zstd.WithDecoderLowmem(true))
}

// unpack returns the bytes of a message, decompressed into room if they are compressed: unpacked is their
// original number, 0 if they are not compressed. A batch of more than limit bytes is an error.
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
