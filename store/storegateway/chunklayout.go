package storegateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

const (
	// leastChunkData is the size of a chunk's header: the number of samples, and flags of all encodings but XOR.
	leastChunkData = 3

	// wholeThreshold is the first byte of a zero threshold whose 8 bytes follow.
	wholeThreshold = 255
)

var errLayoutEnds = errors.New("the data ends within it")

// checkChunk returns an error for data that a decoder would read beyond, or that has it allocate memory for more
// buckets than the data can contain. It does not allocate, except for errors.
func checkChunk(encoding byte, data []byte) error {
	if !chunkenc.IsValidEncoding(chunkenc.Encoding(encoding)) {
		return &EncodingError{encoding}
	}
	least := leastChunkData
	if chunkenc.Encoding(encoding) == chunkenc.EncXOR {
		least--
	}
	if len(data) < least {
		return fmt.Errorf("a chunk of %d bytes is shorter than its header", len(data))
	}
	switch chunkenc.Encoding(encoding) {
	case chunkenc.EncXOR, chunkenc.EncXOR2:
		return nil
	}
	if binary.BigEndian.Uint16(data) == 0 {
		return nil // no decoder reads the layout
	}
	buckets, err := countBuckets(data[leastChunkData:])
	if err != nil {
		return fmt.Errorf("layout of a histogram chunk: %w", err)
	}
	if most := 8 * uint64(len(data)); buckets > most { // each has at least one bit
		return fmt.Errorf("a histogram chunk of %d bytes has spans of %d buckets", len(data), buckets)
	}
	return nil
}

// countBuckets returns the number of buckets in the spans of a histogram chunk's layout, which is: the zero
// threshold, the schema, the positive and the negative spans, each a number and pairs of length and offset. All
// but the threshold are varbits.
func countBuckets(layout []byte) (buckets uint64, err error) {
	r := bitReader{data: layout}
	threshold, err := r.bits(8)
	if err != nil {
		return 0, err
	}
	if threshold == wholeThreshold {
		r.at += 64
	}
	if _, err := r.varbit(); err != nil { // the schema
		return 0, err
	}
	for range 2 {
		spans, err := r.varbit()
		if err != nil {
			return 0, err
		}
		for range spans {
			length, err := r.varbit()
			if err != nil {
				return 0, err
			}
			if _, err := r.varbit(); err != nil { // the offset
				return 0, err
			}
			buckets += uint64(uint32(length)) // of more bits, the decoders use as many
		}
	}
	return buckets, nil
}

// A bitReader reads numbers of chunks, most significant bit first.
type bitReader struct {
	data []byte
	at   uint64 // in bits
}

// bits reads a number of n bits, of at most 64.
func (r *bitReader) bits(n uint64) (v uint64, err error) {
	if r.at+n > 8*uint64(len(r.data)) {
		return 0, errLayoutEnds
	}
	for n > 0 {
		rest := 8 - r.at%8 // in the present byte
		take := min(n, rest)
		b := uint64(r.data[r.at/8]) >> (rest - take) & (1<<take - 1)
		v, n, r.at = v<<take|b, n-take, r.at+take
	}
	return v, nil
}

// varbitSizes are the sizes of the numbers after a prefix of 0 to 8 ones, of which all but the last end with a zero.
var varbitSizes = [...]uint64{0, 3, 6, 9, 12, 18, 25, 56, 64}

// varbit reads an unsigned varbit, or a signed one as its bits.
func (r *bitReader) varbit() (uint64, error) {
	if r.at >= 8*uint64(len(r.data)) {
		return 0, errLayoutEnds
	}
	i := r.at / 8
	next := uint16(r.data[i]) << 8
	if i+1 < uint64(len(r.data)) {
		next |= uint16(r.data[i+1])
	}
	ones := uint64(bits.LeadingZeros8(^uint8(next << (r.at % 8) >> 8)))
	r.at += min(ones+1, 8)
	return r.bits(varbitSizes[ones])
}
