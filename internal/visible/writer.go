package visible

import (
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// A Writer writes text for terminals and logs: each hidden character, and each carriage return, is written as its
// code, such as \u202e, so that it has no effect on a terminal. JSON has the same value with it as without. Bytes
// that are not UTF-8 become U+FFFD.
type Writer struct{ w io.Writer }

// NewWriter returns a Writer to w. It has no state: it may be used as concurrently as w.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Unwrap returns the underlying writer, for programs that draw on a terminal and escape texts themselves.
func (w *Writer) Unwrap() io.Writer { return w.w }

// Write writes b, whose characters must be whole.
func (w *Writer) Write(b []byte) (int, error) {
	n := 0 // bytes of b in out
	var out []byte
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if invalid := r == utf8.RuneError && size == 1; invalid || r == '\r' || hidden(r) {
			out = append(out, b[n:i]...)
			n = i + size
			out = appendCode(out, r)
		}
		i += size
	}
	if out == nil {
		return w.w.Write(b)
	}
	if _, err := w.w.Write(append(out, b[n:]...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// appendCode appends the code of r as in JSON. It does not allocate if out has room.
func appendCode(out []byte, r rune) []byte {
	if r == utf8.RuneError {
		return utf8.AppendRune(out, r)
	}
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return appendUnit(appendUnit(out, high), low)
	}
	return appendUnit(out, r)
}

func appendUnit(out []byte, u rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}
