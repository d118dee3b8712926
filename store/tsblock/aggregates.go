package tsblock

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// EncodingAggregates is the encoding byte of the chunks of downsampled blocks, which contain one chunk per
// Aggregate.
const EncodingAggregates = 0xff

// An Aggregate is a function of the samples in one interval of a downsampled block.
type Aggregate uint8

// Aggregates in the order of their chunks.
const (
	AggregateCount Aggregate = iota
	AggregateSum
	AggregateMin
	AggregateMax

	// AggregateCounter has the values of a counter without its resets. Its first sample is the first raw one;
	// its last repeats the time of the one before and has the last raw value.
	AggregateCounter

	aggregateKinds
)

// String returns the name of the aggregate.
func (a Aggregate) String() string {
	switch a {
	case AggregateCount:
		return "count"
	case AggregateSum:
		return "sum"
	case AggregateMin:
		return "min"
	case AggregateMax:
		return "max"
	case AggregateCounter:
		return "counter"
	}
	return fmt.Sprintf("aggregate %d", uint8(a))
}

// Aggregates are the chunks of one EncodingAggregates chunk, by Aggregate. A chunk without data is not
// present: histograms have no minimum and no maximum.
type Aggregates [aggregateKinds]struct {
	Encoding byte // as in a chunk file
	Data     []byte
}

// SplitAggregates returns views of the chunks in the data of an EncodingAggregates chunk. It does not allocate,
// except for errors.
//
// The format is, for each aggregate, the length of the data as a uvarint, then the encoding byte and the data.
// With length 0 the encoding byte is omitted.
func SplitAggregates(data []byte) (Aggregates, error) {
	var all Aggregates
	for i := range all {
		n, width := binary.Uvarint(data)
		if width <= 0 {
			return Aggregates{}, fmt.Errorf("length of aggregate %s: %s", Aggregate(i), badVarint)
		}
		if data = data[width:]; n == 0 {
			continue
		}
		if n > maxChunkData || int(n)+encodingSize > len(data) {
			return Aggregates{}, fmt.Errorf("aggregate %s: %s", Aggregate(i), badLength)
		}
		end := encodingSize + int(n)
		all[i].Encoding, all[i].Data = data[0], data[encodingSize:end:end]
		data = data[end:]
	}
	if len(data) > 0 {
		return Aggregates{}, errors.New("bytes after the last aggregate")
	}
	return all, nil
}

// AppendTo appends the data of an EncodingAggregates chunk.
func (a *Aggregates) AppendTo(dst []byte) []byte {
	for i := range a {
		dst = binary.AppendUvarint(dst, uint64(len(a[i].Data)))
		if len(a[i].Data) > 0 {
			dst = append(dst, a[i].Encoding)
			dst = append(dst, a[i].Data...)
		}
	}
	return dst
}
