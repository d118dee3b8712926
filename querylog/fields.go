package querylog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// errLine reports a line that a Line cannot have written.
var errLine = errors.New("not a query log line")

// FieldType is the JSON type of a field's value.
type FieldType uint8

const (
	// FieldString is a string, like every value of the text format.
	FieldString FieldType = iota
	// FieldBase64 is a JSON string that encodes bytes that are not UTF-8.
	FieldBase64
	// FieldNumber is a number.
	FieldNumber
	// FieldBool is true or false.
	FieldBool
	// FieldJSON is an array or object.
	FieldJSON
)

// Fields iterates over the fields of one line in either format, which it detects by the first byte. It
// validates the fields it visits. The zero Fields has no field.
//
//	for f := querylog.ParseLine(line); f.Next(); {
//		use(f.Name(), f.Raw())
//	}
type Fields struct {
	rest  []byte
	name  []byte
	raw   []byte
	typ   FieldType
	json  bool
	begun bool
	err   error
}

// ParseLine returns an iterator over line, with or without its line feed. It does not allocate.
func ParseLine(line []byte) Fields {
	line = bytes.TrimSuffix(line, newline)
	f := Fields{rest: line}
	if len(line) > 0 && line[0] == '{' {
		f.json = true
		if line[len(line)-1] != '}' {
			f.err = fmt.Errorf("no closing brace: %w", errLine)
			return f
		}
		f.rest = line[1 : len(line)-1]
	}
	return f
}

// Name returns the field's name, without the "_base64" of a JSON field, as a view of the line.
func (f *Fields) Name() []byte { return f.name }

// Type returns the type of Raw.
func (f *Fields) Type() FieldType { return f.typ }

// Raw returns the value as written, JSON strings without their quotation marks, as a view of the line.
func (f *Fields) Raw() []byte { return f.raw }

// Err returns the reason why Next stopped before the line's end, or nil.
func (f *Fields) Err() error { return f.err }

// AppendValue appends the unescaped value: the bytes that were logged. It does not allocate if dst has room.
func (f *Fields) AppendValue(dst []byte) ([]byte, error) {
	switch {
	case f.typ == FieldBase64:
		dst, err := base64.StdEncoding.Strict().AppendDecode(dst, f.raw)
		if err != nil {
			return dst, fmt.Errorf("field %s: %w", f.name, err)
		}
		return dst, nil
	case f.typ == FieldString && f.json:
		return appendJSONUnescaped(dst, f.raw)
	case f.typ == FieldString:
		return AppendUnescaped(dst, f.raw)
	}
	return append(dst, f.raw...), nil
}

// Next advances to the next field and reports whether there is one. It does not allocate.
func (f *Fields) Next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	if f.json {
		f.nextJSON()
	} else {
		f.nextText()
	}
	return f.err == nil
}

func (f *Fields) nextText() {
	field, rest, more := bytes.Cut(f.rest, []byte{'\t'})
	name, raw, ok := bytes.Cut(field, []byte{':'})
	if !ok || !fieldName(name) || more && len(rest) == 0 {
		f.fail("no name and colon")
		return
	}
	f.name, f.raw, f.typ, f.rest = name, raw, FieldString, rest
}

func (f *Fields) fail(what string) {
	f.err = fmt.Errorf("%s: %w", what, errLine)
	f.rest = nil
}

func fieldName(b []byte) bool {
	for _, c := range b {
		if !wordByte(c) && c != '_' {
			return false
		}
	}
	return len(b) > 0
}

var base64Suffix = []byte("_base64")

func (f *Fields) nextJSON() {
	b := f.rest
	if f.begun {
		if b[0] != ',' {
			f.fail("no comma between fields")
			return
		}
		b = b[1:]
	}
	f.begun = true
	if len(b) == 0 || b[0] != '"' {
		f.fail("no field name")
		return
	}
	n := stringEnd(b)
	if n == 0 || n >= len(b) || b[n] != ':' || !fieldName(b[1:n-1]) {
		f.fail("no field name")
		return
	}
	f.name = b[1 : n-1]
	b = b[n+1:]
	if n, f.typ = valueEnd(b); n == 0 {
		f.fail("no value")
		return
	}
	f.raw, f.rest = b[:n:n], b[n:]
	if f.typ == FieldString {
		f.raw = b[1 : n-1 : n-1]
		if name, ok := bytes.CutSuffix(f.name, base64Suffix); ok {
			f.name, f.typ = name, FieldBase64
		}
	}
}

// stringEnd returns the length of the JSON string at the start of b, or 0.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
		case c < ' ':
			return 0
		}
	}
	return 0
}

// valueEnd returns the length and type of the JSON value at the start of b, or 0 if there is none. Inside
// arrays and objects it only searches for their end.
func valueEnd(b []byte) (int, FieldType) {
	if len(b) == 0 {
		return 0, 0
	}
	switch c := b[0]; {
	case c == '"':
		return stringEnd(b), FieldString
	case c == '[' || c == '{':
		return nestedEnd(b), FieldJSON
	case c == '-' || '0' <= c && c <= '9':
		n := 1
		for n < len(b) && ('0' <= b[n] && b[n] <= '9' || b[n] == '.' || b[n] == 'e' || b[n] == 'E' || b[n] == '+' || b[n] == '-') {
			n++
		}
		return n, FieldNumber
	case bytes.HasPrefix(b, []byte("true")):
		return 4, FieldBool
	case bytes.HasPrefix(b, []byte("false")):
		return 5, FieldBool
	}
	return 0, 0
}

func nestedEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			n := stringEnd(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}

// appendJSONUnescaped appends the unescaped contents of a JSON string. It rejects a lone surrogate escape,
// which a Line never writes.
func appendJSONUnescaped(dst, b []byte) ([]byte, error) {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			dst = append(dst, b[i])
			continue
		}
		if i++; i == len(b) {
			return dst, fmt.Errorf("backslash at the end: %w", errLine)
		}
		switch c := b[i]; c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, n := unescapeRune(b[i-1:])
			if n == 0 {
				return dst, fmt.Errorf("\\u at offset %d: %w", i-1, errLine)
			}
			dst = utf8.AppendRune(dst, r)
			i += n - 2
		default:
			return dst, fmt.Errorf("backslash and 0x%02x at offset %d: %w", c, i-1, errLine)
		}
	}
	return dst, nil
}

// unescapeRune decodes one \uXXXX, or a pair of them, at the start of b. It returns the number of bytes, 0 if
// there is none or half a surrogate pair.
func unescapeRune(b []byte) (rune, int) {
	hi, ok := hexRune(b)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(hi) {
		return hi, 6
	}
	lo, ok := hexRune(b[6:])
	if r := utf16.DecodeRune(hi, lo); ok && r != utf8.RuneError {
		return r, 12
	}
	return 0, 0
}

func hexRune(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		d := unhex(c)
		if d > 15 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// appendAsText converts a JSON line to the text format. scratch is room for one value.
func appendAsText(dst, line, scratch []byte) (out, room []byte, err error) {
	at := len(dst)
	f := ParseLine(line)
	for f.Next() {
		if len(dst) > at {
			dst = append(dst, '\t')
		}
		dst = append(dst, f.Name()...)
		dst = append(dst, ':')
		switch f.Type() {
		case FieldString, FieldBase64:
			if scratch, err = f.AppendValue(scratch[:0]); err != nil {
				return dst[:at], scratch, err
			}
			dst = AppendEscaped(dst, scratch)
		case FieldJSON:
			from := len(dst)
			dst = doubleBackslashes(append(dst, f.Raw()...), from)
		default:
			dst = append(dst, f.Raw()...)
		}
	}
	if f.err != nil {
		return dst[:at], scratch, f.err
	}
	return append(dst, '\n'), scratch, nil
}

// passLine reports whether a line meets all conditions of f.
func (f *Filter) passLine(line, scratch []byte) (ok bool, room []byte, err error) {
	for i := range f.conditions {
		c := &f.conditions[i]
		var v Value
		fields := ParseLine(line)
		for fields.Next() {
			if string(fields.Name()) != c.name {
				continue
			}
			if scratch, err = fields.AppendValue(scratch[:0]); err != nil {
				return false, scratch, err
			}
			v = Value{Text: scratch, IsText: true}
			break
		}
		if fields.err != nil {
			return false, scratch, fields.err
		}
		if !c.matches(v) {
			return false, scratch, nil
		}
	}
	return true, scratch, nil
}
