package tsblock

import (
	"encoding/binary"
	"fmt"

	"github.com/taredb/tare/internal/crc32c"
)

// The chunk file format, version 1, is a header of 8 bytes, followed by chunks: the length of the data as a
// uvarint of at most 5 bytes, an encoding byte, the data, and the CRC32C of encoding and data.
const (
	segmentMagic      = 0x85BD40DD
	segmentVersion    = 1
	segmentHeaderSize = 8

	maxChunkLenSize = binary.MaxVarintLen32
	encodingSize    = 1
	checksumSize    = 4

	// maxChunkData is more than twice the length of the longest chunk that Prometheus writes: ten histograms of 65,536 buckets,
	// each of which takes at most nine bytes. A longer one is not read, so that it does not take a query's bytes.
	maxChunkData = 16 << 20
)

// SegmentFile returns the name, within the block, of the chunk file of a segment. Segments in references
// count from 0, file names from 1.
func SegmentFile(segment uint32) string { return fmt.Sprintf("chunks/%06d", uint64(segment)+1) }

// splitRef returns the segment and the offset of a chunk reference.
func splitRef(ref uint64) (segment uint32, off int64) {
	return uint32(ref >> 32), int64(uint32(ref))
}

// checkSegmentHeader returns the reason why the header of a chunk file is invalid, or "".
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

// Reasons why a chunk is corrupt, in addition to those of errors.go.
const (
	absurdLength = "a chunk of more than 16 MiB"
	chunkOverlap = "a chunk goes on in the next"
)

// decodeChunk decodes the chunk at the start of b. data is a view of b. size is the size of the chunk in the
// file: if b is shorter, data is not decoded; if b is too short even for the length, size is 0. A reason
// other than "" reports a corrupt chunk. decodeChunk does not allocate.
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
	encoding, data, reason = checkChunk(b[width:size])
	return encoding, data, size, reason
}

// checkChunk returns the encoding and the data of a chunk without its length, or the reason why it is corrupt.
func checkChunk(b []byte) (encoding byte, data []byte, reason string) {
	end := len(b) - checksumSize
	if crc32c.Checksum(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return 0, nil, badChecksum
	}
	return b[0], b[encodingSize:end:end], ""
}
