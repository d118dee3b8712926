package tsblock

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The chunk file format, version 1: a header of 8 bytes, then chunks, each of which is the length
// of its data as a uvarint of at most 5 bytes, a byte that says how the data is encoded, the
// data, and the CRC32C of the two.
const (
	segmentMagic      = 0x85BD40DD
	segmentVersion    = 1
	segmentHeaderSize = 8

	maxChunkLenSize = binary.MaxVarintLen32
	encodingSize    = 1
	checksumSize    = 4

	// maxChunkData is the size of a whole segment file as Prometheus writes it: no chunk is
	// longer, whatever its length field says.
	maxChunkData = 512 << 20
)

// SegmentFile returns the name, within the block, of the chunk file with that number in references.
// They count from 0, file names from 1.
func SegmentFile(segment uint32) string { return fmt.Sprintf("chunks/%06d", uint64(segment)+1) }

// splitRef returns the segment and the offset that a chunk reference consists of.
func splitRef(ref uint64) (segment uint32, off int64) {
	return uint32(ref >> 32), int64(uint32(ref))
}

// checkSegmentHeader returns what is wrong with the header of a chunk file, or "".
func checkSegmentHeader(b []byte) string {
	switch {
	case len(b) < segmentHeaderSize:
		return endsEarly
	case binary.BigEndian.Uint32(b) != segmentMagic:
		return fmt.Sprintf("magic number %#08x is not that of a chunk file", b[:4])
	case b[4] != segmentVersion:
		return fmt.Sprintf("version %d of the chunk file format is not known", b[4])
	}
	return ""
}

// What is wrong with chunks, besides the words of errors.go.
const (
	absurdLength = "a chunk of more than 512 MiB"
	chunkOverlap = "a chunk goes on in the next"
)

// decodeChunk decodes the chunk that b begins with. The data is a view of b. size is what the chunk
// takes in the file: if it is more than b has, the rest is not decoded, and if b is too
// short to tell, it is 0. A reason other than "" says what cannot be. It does not allocate.
func decodeChunk(b []byte) (encoding byte, data []byte, size int, reason string) {
	n, width := binary.Uvarint(b[:min(len(b), maxChunkLenSize)])
	switch {
	case width == 0 && len(b) < maxChunkLenSize:
		return 0, nil, 0, ""
	case width <= 0:
		return 0, nil, 0, badVarint
	case n > maxChunkData:
		return 0, nil, 0, absurdLength
	}
	end := width + encodingSize + int(n)
	size = end + checksumSize
	if size > len(b) {
		return 0, nil, size, ""
	}
	if crc32.Checksum(b[width:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return 0, nil, size, badChecksum
	}
	return b[width], b[width+encodingSize : end : end], size, ""
}
