package querylog

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Format is the format of a line.
type Format uint8

const (
	// JSON writes one RFC 8259 object per line. A string that is not UTF-8 is written in standard base64,
	// under its name with the suffix "_base64".
	JSON Format = iota

	// Text writes one record per line, its fields "name:value" separated by tabs, values escaped by
	// appendEscaped (labeled tab-separated values, http://ltsv.org).
	Text
)

// String returns the format's name in options and URLs.
func (f Format) String() string {
	switch f {
	case JSON:
		return "json"
	case Text:
		return "text"
	}
	return "format " + strconv.Itoa(int(f))
}

// ParseFormat returns the format whose String is s.
func ParseFormat(s string) (Format, error) {
	switch s {
	case "json":
		return JSON, nil
	case "text":
		return Text, nil
	}
	return 0, fmt.Errorf("unknown log format %q: want json or text", s)
}

// A Line builds one record's line, field by field, after the bytes passed to Begin. The zero Line writes JSON
// without redaction or limits. Field names are trusted: they must consist of letters, digits and underscores.
// Methods do not allocate if the buffer has room.
//
// A Line caches the last second it formatted, so a reused Line writes times faster. It is not safe for
// concurrent use.
type Line struct {
	Format    Format
	Redaction Redaction

	// MaxText and MaxBind bound the bytes written of a statement's text and of one bind variable; 0 means no
	// bound. The full length is written in addition.
	MaxText, MaxBind int

	// OriginalText writes a statement's original text in addition to the normalized one.
	OriginalText bool

	buf    []byte
	sec    int64 // the second cached in second
	second [20]byte
	warm   bool // second is valid

	scratch []byte  // for redacted error texts and unusual keys
	order   []int32 // for sorting bind variables
}

// Begin starts a line of the kind at the end of dst.
func (l *Line) Begin(dst []byte, kind string) {
	if l.Format == JSON {
		l.buf = append(dst, `{"kind":"`...)
		l.buf = append(l.buf, kind...)
		l.buf = append(l.buf, '"')
		return
	}
	l.buf = append(dst, "kind:"...)
	l.buf = append(l.buf, kind...)
}

// End completes the line and returns the bytes passed to Begin followed by the line, with a line feed at its
// end.
func (l *Line) End() []byte {
	b := l.buf
	l.buf = nil
	if l.Format == JSON {
		return append(b, '}', '\n')
	}
	return append(b, '\n')
}

// key appends the separator and the name of a field.
func (l *Line) key(name string) {
	b := l.buf
	n := len(b)
	if cap(b)-n < len(name)+4 {
		b = slices.Grow(b, len(name)+4)
	}
	if l.Format == JSON {
		b = b[:n+len(name)+4]
		b[n], b[n+1] = ',', '"'
		copy(b[n+2:], name)
		b[len(b)-2], b[len(b)-1] = '"', ':'
	} else {
		b = b[:n+len(name)+2]
		b[n] = '\t'
		copy(b[n+1:], name)
		b[len(b)-1] = ':'
	}
	l.buf = b
}

// String writes a string field.
func (l *Line) String(name, value string) { l.Bytes(name, view(value)) }

// Bytes writes a string field with value b. In JSON, a value that is not UTF-8 is written in base64 under the
// name with the suffix "_base64".
func (l *Line) Bytes(name string, b []byte) {
	l.key(name)
	l.bytesValue(b)
}

// bytesValue writes b as the value of the field.
func (l *Line) bytesValue(b []byte) {
	if l.Format == Text {
		l.buf = AppendEscaped(l.buf, b)
		return
	}
	n := plainLen(b)
	if n == len(b) {
		l.buf = append(l.buf, '"')
		l.buf = append(l.buf, b...)
		l.buf = append(l.buf, '"')
		return
	}
	if utf8.Valid(b[n:]) {
		l.buf = appendJSONString(l.buf, b)
		return
	}
	l.buf = append(l.buf[:len(l.buf)-2], `_base64":`...)
	l.buf = appendBase64(l.buf, b)
}

// token writes a string field whose value is known to be printable ASCII without quotation
// marks and backslashes: a constant of the program.
func (l *Line) token(name, value string) {
	l.key(name)
	if l.Format == JSON {
		l.buf = append(l.buf, '"')
		l.buf = append(l.buf, value...)
		l.buf = append(l.buf, '"')
		return
	}
	l.buf = append(l.buf, value...)
}

// Int writes a whole number.
func (l *Line) Int(name string, v int64) {
	l.key(name)
	l.buf = appendInt(l.buf, v)
}

// Uint writes a whole number.
func (l *Line) Uint(name string, v uint64) {
	l.key(name)
	l.buf = appendUint(l.buf, v)
}

// Bool writes true or false.
func (l *Line) Bool(name string, v bool) {
	l.key(name)
	l.buf = strconv.AppendBool(l.buf, v)
}

// Duration writes d as a whole number of nanoseconds. By convention the name ends in "_ns".
func (l *Line) Duration(name string, d time.Duration) { l.Int(name, int64(d)) }

// Time writes t in UTC as RFC 3339 with nine decimals.
func (l *Line) Time(name string, t time.Time) {
	l.key(name)
	l.timeValue(t)
}

func (l *Line) timeValue(t time.Time) {
	if l.Format == JSON {
		l.buf = append(l.buf, '"')
		l.appendTime(t)
		l.buf = append(l.buf, '"')
		return
	}
	l.appendTime(t)
}

func (l *Line) appendTime(t time.Time) {
	if sec := t.Unix(); sec != l.sec || !l.warm {
		l.fillSecond(t, sec)
	}
	b := append(l.buf, l.second[:]...)
	l.buf = appendNanos(b, uint32(t.Nanosecond()))
}

// fillSecond caches "2006-01-02T15:04:05." of t. Years outside RFC 3339 are replaced by the nearest valid
// one.
func (l *Line) fillSecond(t time.Time, sec int64) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		y = max(0, min(y, 9999))
		t = time.Date(y, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	}
	t.AppendFormat(l.second[:0], "2006-01-02T15:04:05.")
	l.sec, l.warm = sec, true
}

// Addr writes an address and port; IPv6 addresses in brackets.
func (l *Line) Addr(name string, a netip.AddrPort) {
	l.key(name)
	l.addrValue(a)
}

func (l *Line) addrValue(a netip.AddrPort) {
	if l.Format == JSON {
		l.buf = append(l.buf, '"')
	}
	switch ip := a.Addr(); {
	case ip.Is4():
		b := l.buf
		for _, octet := range ip.As4() {
			b = append(appendOctet(b, octet), '.')
		}
		b[len(b)-1] = ':'
		l.buf = appendUint(b, uint64(a.Port()))
	case ip.Zone() == "":
		l.buf = a.AppendTo(l.buf)
	default:
		// A zone may contain any byte.
		at := len(l.buf)
		l.buf = a.AppendTo(l.buf)
		for i := at; i < len(l.buf); i++ {
			if !plain(l.buf[i]) {
				l.buf[i] = '_'
			}
		}
	}
	if l.Format == JSON {
		l.buf = append(l.buf, '"')
	}
}

// Hex writes b as lower-case hexadecimal digits.
func (l *Line) Hex(name string, b []byte) {
	l.key(name)
	l.hexValue(b)
}

func (l *Line) hexValue(b []byte) {
	if l.Format == JSON {
		l.buf = append(l.buf, '"')
	}
	l.buf = hex.AppendEncode(l.buf, b)
	if l.Format == JSON {
		l.buf = append(l.buf, '"')
	}
}

// openNested starts a field whose value is JSON in both formats.
func (l *Line) openNested(name string) (at int) {
	l.key(name)
	return len(l.buf)
}

func (l *Line) closeNested(at int) {
	if l.Format == Text {
		l.buf = doubleBackslashes(l.buf, at)
	}
}

// command writes a command's name as SHOW PROCESSLIST does.
func (l *Line) command(c mysqlwire.Command) {
	if c <= mysqlwire.ComClone || c == mysqlwire.ComStmtBulkExecute {
		l.token("command", c.String())
		return
	}
	l.scratch = strconv.AppendUint(append(l.scratch[:0], "Command 0x"...), uint64(c), 16)
	l.Bytes("command", l.scratch)
}

// ErrorText writes the text of an error of Tare as far as the redaction permits.
func (l *Line) ErrorText(name string, text []byte) {
	l.errorText(name, sqldigest.ServerUnknown, 0, text)
}

// ServerErrorText writes the text of a server's error, which follows own bytes of context by Tare.
func (l *Line) ServerErrorText(name string, server sqldigest.ServerKind, number uint16, text []byte, own int) {
	switch l.Redaction {
	case RedactNone:
		l.Bytes(name, text)
	case RedactLiterals:
		l.scratch = appendRedactedOwn(l.scratch[:0], text[:own])
		l.scratch = appendRedactedError(l.scratch, server, number, text[own:])
		l.Bytes(name, l.scratch)
	}
}

func (l *Line) errorText(name string, server sqldigest.ServerKind, number uint16, text []byte) {
	switch l.Redaction {
	case RedactNone:
		l.Bytes(name, text)
	case RedactLiterals:
		l.scratch = appendRedactedError(l.scratch[:0], server, number, text)
		l.Bytes(name, l.scratch)
	}
}

// SQL writes a statement's text, truncated after MaxText bytes. length is the statement's full length in
// bytes if b is only its prefix, else 0. An incomplete text is followed by a field with the suffix "_bytes":
// the full length.
func (l *Line) SQL(name string, b []byte, length int) {
	length = max(length, len(b))
	if l.MaxText > 0 {
		b = cutText(b, l.MaxText)
	}
	l.Bytes(name, b)
	if length > len(b) {
		l.count(name, "_bytes", length)
	}
}

// count writes a number under a name and suffix.
func (l *Line) count(name, suffix string, n int) {
	if l.Format == JSON {
		l.buf = append(l.buf, ',', '"')
		l.buf = append(l.buf, name...)
		l.buf = append(l.buf, suffix...)
		l.buf = append(l.buf, '"', ':')
	} else {
		l.buf = append(l.buf, '\t')
		l.buf = append(l.buf, name...)
		l.buf = append(l.buf, suffix...)
		l.buf = append(l.buf, ':')
	}
	l.buf = appendInt(l.buf, int64(n))
}
