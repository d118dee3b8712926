package querylog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// view returns s as read-only bytes: the functions of this file take bytes, and the result does not leave
// them.
func view(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Each word repeats the named value in every byte, for testing eight bytes at a time.
const (
	onesEach  = 0x0101010101010101
	highEach  = 0x8080808080808080
	spaceEach = onesEach * ' '
	quoteEach = onesEach * '"'
	slashEach = onesEach * '\\'
)

// plainLen returns the number of bytes at the start of b that need no escaping in either format: printable
// ASCII without the quotation mark and the backslash. It may stop up to 7 bytes early.
func plainLen(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		q, s := x^quoteEach, x^slashEach
		// Below 0x80 a borrow out of x-0x20 marks a control byte, one out of q-1 or
		// s-1 a zero byte, and a carry out of x+1 marks DEL.
		if (x|(x+onesEach)|(x-spaceEach)|(q-onesEach)&^q|(s-onesEach)&^s)&highEach != 0 {
			return i
		}
	}
	for ; i < len(b); i++ {
		if !plain(b[i]) {
			return i
		}
	}
	return i
}

func plain(c byte) bool { return c >= ' ' && c < 0x7F && c != '"' && c != '\\' }

// unsafeRune reports whether r, which is no ASCII character, may change how a line is displayed: it is a control
// character (C1), a format character, of which those that set the direction of text are a part, or a separator of
// lines or paragraphs.
func unsafeRune(r rune) bool {
	return r < 0xA0 || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// appendJSONString appends b, which must be valid UTF-8, as a JSON string. Control
// characters and those of unsafeRune are escaped, so that a line shown on a terminal stays text.
func appendJSONString(dst, b []byte) []byte {
	dst = append(dst, '"')
	n := plainLen(b)
	dst = append(dst, b[:n]...)
	if n < len(b) {
		dst = appendJSONEscaped(dst, b[n:])
	}
	return append(dst, '"')
}

func appendJSONEscaped(dst, b []byte) []byte {
	start := 0
	for i := 0; i < len(b); {
		c := b[i]
		if plain(c) {
			i += 1 + plainLen(b[i+1:])
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(b[i:])
			if unsafeRune(r) {
				dst = append(dst, b[start:i]...)
				if hi, lo := utf16.EncodeRune(r); r > 0xFFFF {
					dst = appendJSONUnit(appendJSONUnit(dst, hi), lo)
				} else {
					dst = appendJSONUnit(dst, r)
				}
				start = i + size
			}
			i += size
			continue
		}
		dst = append(dst, b[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = appendJSONUnit(dst, rune(c))
		}
		i++
		start = i
	}
	return append(dst, b[start:]...)
}

// appendJSONUnit appends the escape of one UTF-16 code unit.
func appendJSONUnit(dst []byte, u rune) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// AppendEscaped appends b as the value of a text field: tab, line feed, carriage return and backslash become
// \t, \n, \r and \\; other control characters, those of unsafeRune and bytes that are not UTF-8 become \xHH. The
// result is UTF-8 without control characters, and AppendUnescaped reverses it. It does not allocate if dst has room.
func AppendEscaped(dst, b []byte) []byte {
	n := plainLen(b)
	dst = append(dst, b[:n]...)
	if n == len(b) {
		return dst
	}
	b = b[n:]
	start := 0
	for i := 0; i < len(b); {
		c := b[i]
		if plain(c) || c == '"' {
			i += 1 + plainLen(b[i+1:])
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRune(b[i:])
			if !unsafeRune(r) && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		dst = append(dst, b[start:i]...)
		switch c {
		case '\\':
			dst = append(dst, '\\', '\\')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			for _, c := range b[i : i+size] {
				dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			}
		}
		i += size
		start = i
	}
	return append(dst, b[start:]...)
}

// errEscape reports a text value that appendEscaped cannot have written.
var errEscape = errors.New("not an escaped text value")

// AppendUnescaped appends the bytes whose escaped form is b. It rejects a b that contains a control character
// or a backslash that does not start an escape of appendEscaped. It does not allocate if dst has room and b
// is well formed.
func AppendUnescaped(dst, b []byte) ([]byte, error) {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c < ' ' || c == 0x7F {
			return dst, fmt.Errorf("control character 0x%02x at offset %d: %w", c, i, errEscape)
		}
		if c != '\\' {
			dst = append(dst, c)
			continue
		}
		if i++; i == len(b) {
			return dst, fmt.Errorf("backslash at the end: %w", errEscape)
		}
		switch b[i] {
		case '\\':
			dst = append(dst, '\\')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'x':
			if i+2 >= len(b) {
				return dst, fmt.Errorf("\\x at offset %d needs two digits: %w", i-1, errEscape)
			}
			hi, lo := unhex(b[i+1]), unhex(b[i+2])
			if hi|lo > 15 {
				return dst, fmt.Errorf("\\x at offset %d needs two digits: %w", i-1, errEscape)
			}
			dst = append(dst, hi<<4|lo)
			i += 2
		default:
			return dst, fmt.Errorf("backslash and 0x%02x at offset %d: %w", b[i], i-1, errEscape)
		}
	}
	return dst, nil
}

// unhex returns the value of a hexadecimal digit, or 0xFF.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xFF
}

// appendBase64 appends b as a JSON string in standard base64 (RFC 4648 section 4).
func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// doubleBackslashes doubles each backslash in b[from:]. The text format does so to JSON values, in which only
// backslashes require escaping.
func doubleBackslashes(b []byte, from int) []byte {
	n := 0
	for _, c := range b[from:] {
		if c == '\\' {
			n++
		}
	}
	if n == 0 {
		return b
	}
	r := len(b)
	for range n {
		b = append(b, 0)
	}
	for w := len(b); w > r; {
		r--
		w--
		b[w] = b[r]
		if b[r] == '\\' {
			w--
			b[w] = '\\'
		}
	}
	return b
}

// cutText returns the first limit bytes of b, or less, so that no character is split.
func cutText(b []byte, limit int) []byte {
	if len(b) <= limit {
		return b
	}
	n := limit
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(b[n]); back++ {
		n--
	}
	if !utf8.RuneStart(b[n]) {
		n = limit // not UTF-8 there: split anywhere
	}
	return b[:n:n]
}
