package querylog

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// Binds writes the values of a prepared statement's execution as a JSON array in both formats: first the
// statement's parameters by position, then the named values, for which names has a name, sorted by name.
// mysqlwire.StmtParams has both.
//
//	[{"type":"LONGLONG","value":42},{"type":"VAR_STRING","value":"abc","bytes":9000},
//	 {"type":"LONG_BLOB","long":true},{"name":"trace","type":"VAR_STRING","value":"f00d"}]
//
// "bytes" is the full length of a value that was truncated to MaxBind bytes; "unsigned" marks unsigned
// integers, "long" values that were sent separately from the execution. Under RedactLiterals values are
// omitted and "bytes" is always present; RedactAll writes nothing. Past MaxText bytes the list is truncated,
// and a field with the suffix "_count" has the number of values.
func (l *Line) Binds(name string, values []mysqlwire.BinaryValue, names [][]byte) {
	if l.Redaction == RedactAll {
		return
	}
	own := len(values)
	for own > 0 && own <= len(names) && len(names[own-1]) > 0 {
		own--
	}
	at := l.openNested(name)
	l.buf = append(l.buf, '[')
	for i := range values[:own] {
		if l.bindsFull(at, i) {
			break
		}
		l.bind(nil, &values[i])
	}
	l.sortNamed(values, names, own)
	for i, k := range l.order {
		if l.bindsFull(at, own+i) {
			break
		}
		l.bind(names[k], &values[k])
	}
	l.buf = append(l.buf, ']')
	full := l.MaxText > 0 && len(l.buf)-at > l.MaxText
	l.closeNested(at)
	if full {
		l.count(name, "_count", len(values))
	}
}

// sortNamed fills order with the indexes of the named values, sorted by name.
func (l *Line) sortNamed(values []mysqlwire.BinaryValue, names [][]byte, own int) {
	l.order = l.order[:0]
	for i := own; i < len(values); i++ {
		l.order = append(l.order, int32(i))
	}
	if len(l.order) > 1 {
		slices.SortStableFunc(l.order, func(a, b int32) int { return slices.Compare(names[a], names[b]) })
	}
}

// bindsFull reports whether the list that starts at offset at has reached its limit; if not, it separates
// value i from its predecessor.
func (l *Line) bindsFull(at, i int) bool {
	if l.MaxText > 0 && len(l.buf)-at > l.MaxText {
		return true
	}
	if i > 0 {
		l.buf = append(l.buf, ',')
	}
	return false
}

// bind appends one value as a JSON object.
func (l *Line) bind(name []byte, v *mysqlwire.BinaryValue) {
	b := append(l.buf, '{')
	if len(name) > 0 {
		b = append(appendJSONMember(b, "name", name), ',')
	}
	b = append(b, `"type":"`...)
	b = appendTypeName(b, v.Type)
	b = append(b, '"')
	if v.Unsigned {
		b = append(b, `,"unsigned":true`...)
	}
	switch {
	case v.Long:
		b = append(b, `,"long":true`...)
	case v.IsNull() && l.Redaction == RedactNone:
		b = append(b, `,"value":null`...)
	case l.Redaction != RedactNone:
		b = append(b, `,"bytes":`...)
		b = strconv.AppendInt(b, int64(len(v.Data)), 10)
	default:
		b = l.appendBindValue(append(b, ','), v)
	}
	l.buf = append(b, '}')
}

// appendTypeName appends the name of t without allocating for unknown types.
func appendTypeName(dst []byte, t mysqlwire.ColumnType) []byte {
	if t <= mysqlwire.TypeTypedArray || t >= mysqlwire.TypeVector {
		return append(dst, t.String()...)
	}
	dst = append(dst, "type 0x"...)
	return strconv.AppendUint(dst, uint64(t), 16)
}

// appendBindValue appends a value. One that is too short for its type, which no server or client sends, is written
// like a string.
func (l *Line) appendBindValue(b []byte, v *mysqlwire.BinaryValue) []byte {
	if numeric, whole := v.Numeric(); numeric && !whole {
		return l.appendBindText(b, v)
	}
	switch v.Type {
	case mysqlwire.TypeTiny, mysqlwire.TypeShort, mysqlwire.TypeYear, mysqlwire.TypeLong,
		mysqlwire.TypeInt24, mysqlwire.TypeLongLong:
		b = append(b, `"value":`...)
		b, _ = v.AppendText(b) // never fails
		return b
	case mysqlwire.TypeFloat, mysqlwire.TypeDouble:
		b = append(b, `"value":`...)
		if f, _ := v.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, '"') // JSON has no such numbers
			b = strconv.AppendFloat(b, f, 'g', -1, 64)
			return append(b, '"')
		}
		b, _ = v.AppendText(b)
		return b
	case mysqlwire.TypeDate, mysqlwire.TypeNewDate, mysqlwire.TypeDatetime, mysqlwire.TypeTimestamp,
		mysqlwire.TypeTime:
		b = append(b, `"value":"`...)
		b, _ = v.AppendText(b) // digits and separators only
		return append(b, '"')
	}
	return l.appendBindText(b, v)
}

func (l *Line) appendBindText(b []byte, v *mysqlwire.BinaryValue) []byte {
	data := v.Data
	if l.MaxBind > 0 {
		data = cutText(data, l.MaxBind)
	}
	b = appendJSONMember(b, "value", data)
	if len(data) < len(v.Data) {
		b = append(b, `,"bytes":`...)
		b = strconv.AppendInt(b, int64(len(v.Data)), 10)
	}
	return b
}

// appendJSONMember appends a name and a string; if v is not UTF-8, as base64 with the suffix "_base64".
func appendJSONMember(dst []byte, name string, v []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	if utf8.Valid(v) {
		return appendJSONString(append(dst, '"', ':'), v)
	}
	return appendBase64(append(dst, `_base64":`...), v)
}

// A Tag is one key and value of a sqlcommenter comment.
type Tag struct{ Key, Value []byte }

// maxTags is the maximum number of tags written per statement.
const maxTags = 64

// Tags writes tags as a JSON object in both formats, in the given order. Of tags with equal keys the first
// one counts. A key that is not UTF-8 is escaped as by appendEscaped, a value that is not UTF-8 becomes an
// object {"base64":"…"}. Only the first 64 are written; a field with the suffix "_count" then has their
// number. RedactAll writes nothing.
func (l *Line) Tags(name string, tags []Tag) {
	if l.Redaction == RedactAll {
		return
	}
	all := len(tags)
	tags = tags[:min(all, maxTags)]
	at := l.openNested(name)
	l.buf = append(l.buf, '{')
	first := true
	for i := range tags {
		if slices.ContainsFunc(tags[:i], func(t Tag) bool { return string(t.Key) == string(tags[i].Key) }) {
			continue
		}
		if !first {
			l.buf = append(l.buf, ',')
		}
		first = false
		l.jsonString(tags[i].Key, true)
		l.buf = append(l.buf, ':')
		l.jsonString(tags[i].Value, false)
	}
	l.buf = append(l.buf, '}')
	l.closeNested(at)
	if all > maxTags {
		l.count(name, "_count", all)
	}
}

// jsonString appends a string inside a nested value.
func (l *Line) jsonString(b []byte, isKey bool) {
	switch {
	case utf8.Valid(b):
		l.buf = appendJSONString(l.buf, b)
	case isKey:
		l.scratch = AppendEscaped(l.scratch[:0], b)
		l.buf = appendJSONString(l.buf, l.scratch)
	default:
		l.buf = append(l.buf, `{"base64":`...)
		l.buf = appendBase64(l.buf, b)
		l.buf = append(l.buf, '}')
	}
}
