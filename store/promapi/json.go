package promapi

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/visible"
)

// appendTimestamp appends milliseconds as seconds: 1435781451.781. It does not allocate if dst has room.
func appendTimestamp(dst []byte, ms int64) []byte {
	u := uint64(ms)
	if ms < 0 {
		dst = append(dst, '-')
		u = -u // correct for the least int64 too
	}
	dst = strconv.AppendUint(dst, u/1000, 10)
	f := u % 1000
	if f == 0 {
		return dst
	}
	return append(dst, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
}

// exactInts bounds the integers that float64 represents exactly. It is below the 21 digits from which numbers
// have an exponent.
const exactInts = 1 << 53

// appendValue appends a sample's value in the API's form: a string with the shortest decimal that parses to
// the same float, with an exponent below 1e-6 and from 1e21. It does not allocate if dst has room.
func appendValue(dst []byte, f float64) []byte {
	dst = append(dst, '"')
	dst = appendFloat(dst, f)
	return append(dst, '"')
}

func appendFloat(dst []byte, f float64) []byte {
	// Most counters and gauges are integers, which format faster.
	if f > -exactInts && f < exactInts {
		if i := int64(f); float64(i) == f && (i != 0 || !math.Signbit(f)) {
			return strconv.AppendInt(dst, i, 10)
		}
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

// appendTime appends the time of a scalar or string, which Prometheus computes by float division.
func appendTime(dst []byte, ms int64) []byte {
	return strconv.AppendFloat(dst, float64(ms)/1000, 'f', -1, 64)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, and control characters and those that set the reading
// direction become escapes: Prometheus writes them as they are.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(dst, s[start:i]...)
				dst = append(dst, `\ufffd`...)
				start = i + 1
			case visible.IsControl(r):
				dst = visible.AppendEscape(append(dst, s[start:i]...), r)
				start = i + size
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendText appends s as a JSON string that is safe inside HTML and JavaScript, as the API writes all
// strings except those of a series' labels.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + 1
		case visible.IsControl(r): // those that end lines of JavaScript among them
			dst = visible.AppendEscape(append(dst, s[start:i]...), r)
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape appends an ASCII character that must be escaped.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// appendTexts appends an array of strings.
func appendTexts(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, s)
	}
	return append(dst, ']')
}

// appendLabels appends a series' labels as an object. It does not allocate if dst has room.
func appendLabels(dst []byte, ls labels.Labels) []byte {
	open := len(dst)
	dst = append(dst, '{')
	ls.Range(func(l labels.Label) {
		if len(dst) > open+1 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, l.Name)
		dst = append(dst, ':')
		dst = appendString(dst, l.Value)
	})
	return append(dst, '}')
}

// appendHistogram appends a native histogram: count, sum and the nonempty buckets, each as [boundaries,
// lower, upper, count]. The boundaries are 0 for (lower, upper], 1 for [lower, upper), 2 for both open, 3 for
// both closed. It allocates Prometheus' iterators over the buckets, a constant number.
func appendHistogram(dst []byte, h *histogram.FloatHistogram) []byte {
	dst = append(dst, `{"count":`...)
	dst = appendValue(dst, h.Count)
	dst = append(dst, `,"sum":`...)
	dst = appendValue(dst, h.Sum)
	found := false
	for it := h.AllBucketIterator(); it.Next(); {
		b := it.At()
		if b.Count == 0 {
			continue
		}
		if found {
			dst = append(dst, ',')
		} else {
			dst = append(dst, `,"buckets":[`...)
			found = true
		}
		boundaries := byte('2')
		switch {
		case b.LowerInclusive && b.UpperInclusive:
			boundaries = '3'
		case b.LowerInclusive:
			boundaries = '1'
		case b.UpperInclusive:
			boundaries = '0'
		}
		dst = append(dst, '[', boundaries, ',')
		dst = appendValue(dst, b.Lower)
		dst = append(dst, ',')
		dst = appendValue(dst, b.Upper)
		dst = append(dst, ',')
		dst = appendValue(dst, b.Count)
		dst = append(dst, ']')
	}
	if found {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
