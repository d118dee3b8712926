package promapi

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/encoding/protowire"
)

// appendProtoBytes appends the tag and the length of a message of n bytes.
func appendProtoBytes(dst []byte, num protowire.Number, n int) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(n))
}

// appendProtoVarint appends a field, which is omitted if it is 0.
func appendProtoVarint(dst []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, num, protowire.VarintType)
	return protowire.AppendVarint(dst, v)
}

func sizeProtoVarint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

// appendProtoFloat appends a double, which is omitted if it is 0, but not if it is -0.
func appendProtoFloat(dst []byte, num protowire.Number, f float64) []byte {
	bits := math.Float64bits(f)
	if bits == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, num, protowire.Fixed64Type)
	return protowire.AppendFixed64(dst, bits)
}

func appendProtoString(dst []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	dst = appendProtoBytes(dst, num, len(s))
	return append(dst, s...)
}

// sizeProtoLabel returns the size of a Label without its tag and length.
func sizeProtoLabel(l labels.Label) int {
	n := 0
	for _, s := range [...]string{l.Name, l.Value} {
		if s != "" {
			n += 1 + protowire.SizeBytes(len(s))
		}
	}
	return n
}

// appendProtoLabels appends labels as field 1, as in TimeSeries and ChunkedSeries.
func appendProtoLabels(dst []byte, ls labels.Labels) []byte {
	ls.Range(func(l labels.Label) {
		dst = appendProtoBytes(dst, 1, sizeProtoLabel(l))
		dst = appendProtoString(dst, 1, l.Name)
		dst = appendProtoString(dst, 2, l.Value)
	})
	return dst
}

// appendProtoSample appends TimeSeries.samples.
func appendProtoSample(dst []byte, t int64, f float64) []byte {
	n := sizeProtoVarint(uint64(t))
	if math.Float64bits(f) != 0 {
		n += 9
	}
	dst = appendProtoBytes(dst, 2, n)
	dst = appendProtoFloat(dst, 1, f)
	return appendProtoVarint(dst, 2, uint64(t))
}

// AppendHistogram appends a histogram with integer counts, at a time in Unix milliseconds, as field num of a TimeSeries: 4 of
// prometheus.TimeSeries, 3 of io.prometheus.write.v2.TimeSeries. It does not allocate when dst has room.
func AppendHistogram(dst []byte, num protowire.Number, t int64, h *histogram.Histogram) []byte {
	return appendProtoMessage(dst, num, func(b []byte) []byte {
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), h.Count)
		b = appendProtoFloat(b, 3, h.Sum)
		b = appendProtoVarint(b, 4, protowire.EncodeZigZag(int64(h.Schema)))
		b = appendProtoFloat(b, 5, h.ZeroThreshold)
		b = protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), h.ZeroCount)
		b = appendProtoSpans(b, 8, h.NegativeSpans)
		b = appendProtoDeltas(b, 9, h.NegativeBuckets)
		b = appendProtoSpans(b, 11, h.PositiveSpans)
		b = appendProtoDeltas(b, 12, h.PositiveBuckets)
		b = appendProtoVarint(b, 14, uint64(h.CounterResetHint))
		b = appendProtoVarint(b, 15, uint64(t))
		return appendProtoFloats(b, 16, h.CustomValues)
	})
}

// AppendFloatHistogram is AppendHistogram for float counts.
func AppendFloatHistogram(dst []byte, num protowire.Number, t int64, h *histogram.FloatHistogram) []byte {
	return appendProtoMessage(dst, num, func(b []byte) []byte {
		b = protowire.AppendFixed64(protowire.AppendTag(b, 2, protowire.Fixed64Type), math.Float64bits(h.Count))
		b = appendProtoFloat(b, 3, h.Sum)
		b = appendProtoVarint(b, 4, protowire.EncodeZigZag(int64(h.Schema)))
		b = appendProtoFloat(b, 5, h.ZeroThreshold)
		b = protowire.AppendFixed64(protowire.AppendTag(b, 7, protowire.Fixed64Type), math.Float64bits(h.ZeroCount))
		b = appendProtoSpans(b, 8, h.NegativeSpans)
		b = appendProtoFloats(b, 10, h.NegativeBuckets)
		b = appendProtoSpans(b, 11, h.PositiveSpans)
		b = appendProtoFloats(b, 13, h.PositiveBuckets)
		b = appendProtoVarint(b, 14, uint64(h.CounterResetHint))
		b = appendProtoVarint(b, 15, uint64(t))
		return appendProtoFloats(b, 16, h.CustomValues)
	})
}

// appendProtoMessage appends a message whose size is unknown before it is encoded.
func appendProtoMessage(dst []byte, num protowire.Number, body func([]byte) []byte) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	start := len(dst)
	dst = body(dst)
	n := len(dst) - start
	head := protowire.SizeVarint(uint64(n))
	dst = append(dst, make([]byte, head)...)
	copy(dst[start+head:], dst[start:start+n])
	protowire.AppendVarint(dst[start:start], uint64(n))
	return dst
}

func appendProtoSpans(dst []byte, num protowire.Number, spans []histogram.Span) []byte {
	for _, s := range spans {
		offset, length := protowire.EncodeZigZag(int64(s.Offset)), uint64(s.Length)
		dst = appendProtoBytes(dst, num, sizeProtoVarint(offset)+sizeProtoVarint(length))
		dst = appendProtoVarint(dst, 1, offset)
		dst = appendProtoVarint(dst, 2, length)
	}
	return dst
}

func appendProtoDeltas(dst []byte, num protowire.Number, list []int64) []byte {
	if len(list) == 0 {
		return dst
	}
	n := 0
	for _, v := range list {
		n += protowire.SizeVarint(protowire.EncodeZigZag(v))
	}
	dst = appendProtoBytes(dst, num, n)
	for _, v := range list {
		dst = protowire.AppendVarint(dst, protowire.EncodeZigZag(v))
	}
	return dst
}

func appendProtoFloats(dst []byte, num protowire.Number, list []float64) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = appendProtoBytes(dst, num, 8*len(list))
	for _, v := range list {
		dst = protowire.AppendFixed64(dst, math.Float64bits(v))
	}
	return dst
}
