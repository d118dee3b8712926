package activeseries

import "unicode/utf8"

// A verdict is the result of parsing a token.
type verdict uint8

const (
	good        verdict = iota
	more                // continues beyond the bytes read; valid so far
	badEscape           // invalid escape
	badControl          // control character in a string
	badUTF8             // invalid UTF-8
	badNumber           // invalid number
	badWord             // neither true, false nor null
	badByte             // unexpected byte
	badKey              // a member of an object that does not start with a string
	badColon            // no colon after a member's name
	badValue            // an item's value that is not a string
	badItem             // an item that is not an object
	badEnd              // bytes after the end
	badTop              // the body is not an object
	badData             // "data" is neither an array nor null
	secondData          // a second "data"
	noData              // no "data"
	tooDeep             // nested too deeply
	tooLong             // longer than maxItem
	unfinished          // more, at the end of the body
	failedRead          // the reader's error
	verdictsEnd         // number of verdicts
)

// fault returns the kind of error of v, and its description.
func (v verdict) fault() (Fault, string) {
	switch v {
	case badEscape:
		return Syntax, "invalid escape in a string"
	case badControl:
		return Syntax, "control character in a string"
	case badUTF8:
		return Encoding, "invalid UTF-8 in a string"
	case badNumber:
		return Syntax, "invalid number"
	case badWord:
		return Syntax, "neither true, false nor null"
	case badByte:
		return Syntax, "unexpected byte"
	case badKey:
		return Syntax, "a member's name must be a string"
	case badColon:
		return Syntax, "no colon after a member's name"
	case badValue:
		return Shape, "a value of an item is not a string"
	case badItem:
		return Shape, "an item is not an object"
	case badEnd:
		return Syntax, "bytes after the end of the body"
	case badTop:
		return Shape, "the body is not an object"
	case badData:
		return Shape, `"data" is neither an array nor null`
	case secondData:
		return Shape, `a second "data"`
	case noData:
		return Shape, `no "data"`
	case tooDeep:
		return Depth, "nested too deeply"
	case tooLong:
		return Size, "longer than an item may be"
	case unfinished:
		return Truncated, "the body ends here, incomplete"
	case failedRead:
		return Reading, "read the body"
	}
	panic("BUG: fault of a verdict that is none")
}

// stringEnd returns the index of the closing quote of the string that contains b[i], or of the invalid byte.
// The bytes are b[:end]; the slack follows.
func stringEnd(b []byte, i, end int) (int, verdict) {
	for {
		i = plainRun(b, i)
		switch c := b[i]; {
		case i >= end:
			return i, more
		case c == '"':
			return i, good
		case c == '\\':
			n, v := escape(b, i, end)
			if v != good {
				return i, v
			}
			i += n
		case c < ' ':
			return i, badControl
		default:
			n, v := runes(b, i, end)
			if i += n; v != good {
				return i, v
			}
		}
	}
}

// escape returns the length of the escape at b[i].
func escape(b []byte, i, end int) (int, verdict) {
	if i+1 >= end {
		return 0, more
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, good
	case 'u':
		for j := i + 2; j < i+6; j++ {
			if j >= end {
				return 0, more
			}
			if !isHex(b[j]) {
				return 0, badEscape
			}
		}
		return 6, good
	}
	return 0, badEscape
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// runes returns the length of the run of non-ASCII bytes at b[i].
func runes(b []byte, i, end int) (int, verdict) {
	start := i
	for b[i] >= utf8.RuneSelf && i < end {
		r, n := utf8.DecodeRune(b[i:end])
		if r == utf8.RuneError && n == 1 {
			if !utf8.FullRune(b[i:end]) {
				return i - start, more
			}
			return i - start, badUTF8
		}
		i += n
	}
	return i - start, good
}

// number returns the index after the number at b[i], which starts with a digit or a minus sign.
func number(b []byte, i, end int) (int, verdict) {
	if b[i] == '-' {
		i++
	}
	switch {
	case b[i] == '0':
		i++
	case isDigit(b[i]):
		i = digits(b, i)
	default:
		return lacking(i, end)
	}
	if b[i] == '.' {
		if i++; !isDigit(b[i]) {
			return lacking(i, end)
		}
		i = digits(b, i)
	}
	if b[i]|0x20 == 'e' {
		if i++; b[i] == '+' || b[i] == '-' {
			i++
		}
		if !isDigit(b[i]) {
			return lacking(i, end)
		}
		i = digits(b, i)
	}
	if i >= end {
		return i, more // a number ends only at the byte after it
	}
	return i, good
}

func lacking(i, end int) (int, verdict) {
	if i >= end {
		return i, more
	}
	return i, badNumber
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func digits(b []byte, i int) int {
	for isDigit(b[i]) {
		i++
	}
	return i
}

// word returns the index after the word w at b[i].
func word(b []byte, i, end int, w string) (int, verdict) {
	for j := range len(w) {
		switch {
		case i+j >= end:
			return i + j, more
		case b[i+j] != w[j]:
			return i + j, badWord
		}
	}
	return i + len(w), good
}
