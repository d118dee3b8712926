package promapi

import (
	"math"
	"strconv"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// A sampleEncoder encodes the samples of one response. It caches two values that repeat: the times, since the
// series of a range query have the same steps, and the last value, since many gauges rarely change.
type sampleEncoder struct {
	// Times of a range query: texts[i] is `[1435781451.781,"` for the time start + i·step. Empty for other
	// queries and for ranges of many steps.
	start, step int64 // milliseconds
	texts       []stamp
	next        int // expected index of the next sample

	valid bool // bits and value have the last value
	bits  uint64
	value []byte
}

// A stamp is the text of the start of a sample.
type stamp struct {
	len  uint8
	text [27]byte // '[', sign, 16 digits, '.', 3 digits, ',', '"' is 24
}

// maxStamps bounds a range query's table of times: 28 B each. The API allows at most 11,001 steps.
const maxStamps = maxPoints + 1

// reset prepares the encoder for samples at the steps of a range; with steps 0, for samples without common
// steps.
func (e *sampleEncoder) reset(start, step int64, steps int) {
	e.start, e.step, e.next = start, step, 0
	e.texts = e.texts[:0]
	e.valid = false
	if steps > maxStamps {
		return
	}
	for i := range steps {
		var s stamp
		b := append(s.text[:0], '[')
		b = appendTimestamp(b, start+int64(i)*step)
		b = append(b, ',', '"')
		s.len = uint8(len(b))
		e.texts = append(e.texts, s)
	}
}

// appendPoint appends [time, "value"]. It does not allocate if dst has room.
func (e *sampleEncoder) appendPoint(dst []byte, t int64, f float64) []byte {
	i := e.next
	if i < len(e.texts) && e.start+int64(i)*e.step == t {
		e.next++
		s := &e.texts[i]
		dst = append(dst, s.text[:s.len]...)
	} else {
		dst = e.appendTime(dst, t)
	}
	if bits := math.Float64bits(f); !e.valid || bits != e.bits {
		e.value = appendFloat(e.value[:0], f)
		e.bits, e.valid = bits, true
	}
	dst = append(dst, e.value...)
	return append(dst, '"', ']')
}

// appendTime appends the start of a sample at another time than the expected one.
func (e *sampleEncoder) appendTime(dst []byte, t int64) []byte {
	if len(e.texts) > 0 {
		if d := t - e.start; d >= 0 && d%e.step == 0 && d/e.step < int64(len(e.texts)) {
			i := int(d / e.step)
			e.next = i + 1
			s := &e.texts[i]
			return append(dst, s.text[:s.len]...)
		}
	}
	dst = append(dst, '[')
	dst = appendTimestamp(dst, t)
	return append(dst, ',', '"')
}

// encodeValue writes the result of a query to out: {"resultType":…,"result":…, without the closing brace.
func (e *sampleEncoder) encodeValue(out *output, v parser.Value) {
	b := append(out.buf, `{"resultType":"`...)
	b = append(b, v.Type()...)
	b = append(b, `","result":`...)
	switch v := v.(type) {
	case promql.Matrix:
		b = e.encodeMatrix(out, b, v)
	case promql.Vector:
		b = e.encodeVector(out, b, v)
	case promql.Scalar:
		b = append(b, '[')
		b = appendTime(b, v.T)
		b = append(b, ',', '"')
		b = strconv.AppendFloat(b, v.V, 'f', -1, 64) // never with an exponent
		b = append(b, '"', ']')
	case promql.String:
		b = append(b, '[')
		b = appendTime(b, v.T)
		b = append(b, ',')
		b = appendText(b, v.V)
		b = append(b, ']')
	default:
		panic("BUG: a query's result is of type " + string(v.Type()))
	}
	out.buf = b
}

// encodeMatrix writes an array of series, each with values and histograms over time. b is out's buffer, and
// the result is its unsent part; encodeVector does the same.
func (e *sampleEncoder) encodeMatrix(out *output, b []byte, m promql.Matrix) []byte {
	b = append(b, '[')
	for i := range m {
		s := &m[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"metric":`...)
		b = appendLabels(b, s.Metric)
		b = e.encodeFloats(out, b, s.Floats)
		b = encodeHistograms(out, b, s.Histograms)
		b = append(b, '}')
		if out.err != nil {
			return b // the client has disconnected
		}
	}
	return append(b, ']')
}

// encodeFloats writes the values of a series, if it has any.
func (e *sampleEncoder) encodeFloats(out *output, b []byte, points []promql.FPoint) []byte {
	if len(points) == 0 {
		return b
	}
	e.next = 0
	b = append(b, `,"values":`...)
	before := byte('[')
	for _, p := range points {
		b = e.appendPoint(append(b, before), p.T, p.F)
		before = ','
		if len(b) >= flushAt {
			b = out.spill(b)
		}
	}
	return append(b, ']')
}

// encodeHistograms writes the histograms of a series, if it has any.
func encodeHistograms(out *output, b []byte, points []promql.HPoint) []byte {
	if len(points) == 0 {
		return b
	}
	b = append(b, `,"histograms":`...)
	before := byte('[')
	for _, p := range points {
		b = appendHistogramPoint(append(b, before), p)
		before = ','
		if len(b) >= flushAt {
			b = out.spill(b)
		}
	}
	return append(b, ']')
}

// encodeVector writes an array of series, each with one value or histogram.
func (e *sampleEncoder) encodeVector(out *output, b []byte, v promql.Vector) []byte {
	b = append(b, '[')
	for i := range v {
		s := &v[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"metric":`...)
		b = appendLabels(b, s.Metric)
		if s.H == nil {
			b = append(b, `,"value":`...)
			b = e.appendPoint(b, s.T, s.F)
		} else {
			b = append(b, `,"histogram":`...)
			b = appendHistogramPoint(b, promql.HPoint{T: s.T, H: s.H})
		}
		b = append(b, '}')
		if len(b) >= flushAt {
			b = out.spill(b)
		}
		if out.err != nil {
			return b
		}
	}
	return append(b, ']')
}

// appendHistogramPoint appends [time, {histogram}].
func appendHistogramPoint(dst []byte, p promql.HPoint) []byte {
	dst = append(dst, '[')
	dst = appendTimestamp(dst, p.T)
	dst = append(dst, ',')
	dst = appendHistogram(dst, p.H)
	return append(dst, ']')
}
