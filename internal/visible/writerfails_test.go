package visible

import (
	"errors"
	"strings"
	"testing"
)

var errBroken = errors.New("broken")

// A brokenWriter accepts some bytes.
type brokenWriter struct{ room int }

func (w *brokenWriter) Write(b []byte) (int, error) {
	if len(b) > w.room {
		return w.room, errBroken
	}
	return len(b), nil
}

// TestWriterFails returns the errors of the underlying writer, for texts with and without codes.
func TestWriterFails(t *testing.T) {
	for text, written := range map[string]int{"plain": 3, "a\u202eb": 0} {
		if n, err := NewWriter(&brokenWriter{3}).Write([]byte(text)); n != written || !errors.Is(err, errBroken) {
			t.Errorf("%q: %d, %v; want %d, %v", text, n, err, written, errBroken)
		}
		if n, err := NewWriter(&brokenWriter{100}).Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v; want all %d bytes", text, n, err, len(text))
		}
	}
}

// TestWriterCodes writes codes where texts have hidden characters: at the start, in the middle and at the end.
func TestWriterCodes(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "abc": "abc", "\u202eabc": `\u202eabc`, "abc\r": `abc\u000d`, "a\r\rb\n": "a\\u000d\\u000db\n", "\xff": "\ufffd", "a\xffb": "a\ufffdb", "\ufffd": "\ufffd",
		"a\U000e0041b": `a\udb40\udc41b`, "ä\u200bö": `ä\u200bö`,
	} {
		var out strings.Builder
		if n, err := NewWriter(&out).Write([]byte(text)); out.String() != want || n != len(text) || err != nil {
			t.Errorf("%q: %q, %d, %v; want %q", text, out.String(), n, err, want)
		}
	}
}
