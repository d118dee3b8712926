package visible

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// NewEncoder returns an encoder of JSON to w, for responses that may have texts of clients and servers: each hidden
// character is written as an escape, so that a response shown on a terminal has no effect on it. Parsers read the same
// values.
func NewEncoder(w io.Writer) *json.Encoder { return json.NewEncoder(NewWriter(w)) }

// MarshalJSON returns v as JSON, with hidden characters as NewEncoder writes them.
func MarshalJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil || bytes.IndexFunc(text, hidden) < 0 {
		return text, err
	}
	var b bytes.Buffer
	_, err = NewWriter(&b).Write(text)
	return b.Bytes(), err
}

// IsControl reports whether r, which is no ASCII character, is a control character, a separator of lines or paragraphs, or sets
// the reading direction. It takes less time than to find all hidden characters.
func IsControl(r rune) bool {
	switch {
	case r < 0xa0:
		return r >= utf8.RuneSelf
	case r < 0x61c:
		return false
	}
	return r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// AppendEscape appends the escape of r in JSON.
func AppendEscape(dst []byte, r rune) []byte { return appendCode(dst, r) }
