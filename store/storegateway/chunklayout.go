package storegateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

const (
	// leastChunkData is the size of a chunk's header: the number of samples, and flags of all encodings but XOR.
	leastChunkData = 3

	// wholeThreshold is the first byte of a zero threshold whose 8 bytes follow.
	wholeThreshold = 255
)

var errLayoutEnds = errors.New("the data ends within it")

// checkChunk returns an error for data that a decoder would read beyond, that has it allocate memory for more
// buckets than the data can contain, or whose histograms PromQL panics on. It does not allocate, except for errors.
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
	l, err := readLayout(data[leastChunkData:])
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return fmt.Errorf("layout of a histogram chunk: %w", err)
	}
	if most := 8 * uint64(len(data)); l.buckets() > most { // each has at least one bit
		return fmt.Errorf("a histogram chunk of %d bytes has spans of %d buckets", len(data), l.buckets())
	}
	return nil
}

// Bounds of the buckets of a histogram.
const (
	// maxBuckets bounds the buckets of one histogram. Decoders allocate 24 bytes for each, which may have one bit.
	maxBuckets = 1 << 16

	// maxBucketIndex bounds the index of a bucket: Prometheus computes with indexes of 32 bits.
	maxBucketIndex = 1 << 30
)

// A chunkLayout summarizes the layout of a histogram chunk: the zero threshold, the schema, the positive and the
// negative spans, each a number and pairs of length and offset, and with the schema of custom buckets their bounds. All
// but the threshold and some bounds are varbits.
type chunkLayout struct {
	schema             int32
	positive, negative chunkSpans
	bounds             uint64 // custom ones
	boundsOrdered      bool
}

// chunkSpans summarize the spans of one sign.
type chunkSpans struct {
	spans, buckets uint64
	least, most    int64 // indexes of buckets, each span's first and the one after its last
	first          int32 // offset of the first span
	backwards      bool  // another span has a negative offset
}

func (l *chunkLayout) buckets() uint64 { return l.positive.buckets + l.negative.buckets }

// check returns an error for a layout that Prometheus does not accept in a sample: its functions may panic.
func (l *chunkLayout) check() error {
	for _, s := range [...]*chunkSpans{&l.positive, &l.negative} {
		switch {
		case s.backwards:
			return errors.New("a span starts before the end of the one before it")
		case s.least < -maxBucketIndex || s.most > maxBucketIndex:
			return errors.New("the index of a bucket is out of range")
		}
	}
	if n := l.buckets(); n > maxBuckets {
		return fmt.Errorf("%d buckets are more than %d", n, maxBuckets)
	}
	if !histogram.IsCustomBucketsSchema(l.schema) {
		return nil // decoders return an error for unknown schemas
	}
	switch {
	case l.negative.spans > 0:
		return errors.New("custom buckets have negative spans")
	case l.positive.first < 0:
		return errors.New("a custom bucket is before the first bound")
	case l.positive.most > int64(l.bounds)+1:
		return fmt.Errorf("%d bounds are too few for custom buckets up to the one with number %d", l.bounds, l.positive.most)
	case !l.boundsOrdered:
		return errors.New("the bounds of custom buckets do not ascend")
	}
	return nil
}

// readLayout reads a layout. It does not allocate, except for errors.
func readLayout(layout []byte) (l chunkLayout, err error) {
	r := bitReader{data: layout}
	threshold, err := r.bits(8)
	if err != nil {
		return l, err
	}
	if threshold == wholeThreshold {
		r.at += 64
	}
	schema, err := r.signedVarbit()
	if err != nil {
		return l, err
	}
	l.schema = int32(schema)
	for _, s := range [...]*chunkSpans{&l.positive, &l.negative} {
		if err := s.read(&r); err != nil {
			return l, err
		}
	}
	if histogram.IsCustomBucketsSchema(l.schema) {
		err = l.readBounds(&r)
	}
	return l, err
}

// read reads the spans of one sign.
func (s *chunkSpans) read(r *bitReader) (err error) {
	if s.spans, err = r.varbit(); err != nil {
		return err
	}
	at := int64(0)
	for i := range s.spans {
		wide, err := r.varbit()
		if err != nil {
			return err
		}
		far, err := r.signedVarbit()
		if err != nil {
			return err
		}
		length, offset := uint32(wide), int32(far) // of more bits, the decoders use as many
		if i == 0 {
			s.first = offset
		} else {
			s.backwards = s.backwards || offset < 0
		}
		s.buckets += uint64(length)
		at += int64(offset)
		s.least = min(s.least, at)
		at += int64(length)
		s.most = max(s.most, at)
	}
	return nil
}

// readBounds reads the bounds of custom buckets.
func (l *chunkLayout) readBounds(r *bitReader) (err error) {
	if l.bounds, err = r.varbit(); err != nil {
		return err
	}
	l.boundsOrdered = true
	last := math.Inf(-1)
	for i := range l.bounds {
		short, err := r.varbit()
		if err != nil {
			return err
		}
		bound := float64(short-1) / 1000
		if short == 0 {
			whole, err := r.bits(64)
			if err != nil {
				return err
			}
			bound = math.Float64frombits(whole)
		}
		l.boundsOrdered = l.boundsOrdered && (bound > last || i == 0 && bound == last)
		last = bound
	}
	l.boundsOrdered = l.boundsOrdered && !math.IsInf(last, 1)
	return nil
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

// varbit reads an unsigned varbit.
func (r *bitReader) varbit() (uint64, error) {
	v, _, err := r.anyVarbit()
	return v, err
}

// signedVarbit reads a signed varbit.
func (r *bitReader) signedVarbit() (int64, error) {
	v, size, err := r.anyVarbit()
	if size > 0 && size < 64 && v > 1<<(size-1) {
		v -= 1 << size
	}
	return int64(v), err
}

// anyVarbit reads the bits of a varbit, and returns their number.
func (r *bitReader) anyVarbit() (v, size uint64, err error) {
	if r.at >= 8*uint64(len(r.data)) {
		return 0, 0, errLayoutEnds
	}
	i := r.at / 8
	next := uint16(r.data[i]) << 8
	if i+1 < uint64(len(r.data)) {
		next |= uint16(r.data[i+1])
	}
	ones := uint64(bits.LeadingZeros8(^uint8(next << (r.at % 8) >> 8)))
	r.at += min(ones+1, 8)
	v, err = r.bits(varbitSizes[ones])
	return v, varbitSizes[ones], err
}
