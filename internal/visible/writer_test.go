package visible

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// TestWriter writes every character: none with an effect on a terminal is left, and JSON has the same value as before.
func TestWriter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		var out strings.Builder
		text := "a" + string(r) + "b" // a surrogate is U+FFFD
		if n, err := NewWriter(&out).Write([]byte(text)); err != nil || n != len(text) {
			t.Fatal(n, err)
		}
		if unicode.In(r, unicode.Bidi_Control, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\n' && r != '\t' {
			if strings.ContainsRune(out.String(), r) {
				t.Errorf("%U is left", r)
			}
		}
		if out.String() == text {
			continue
		}
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		out.Reset()
		_, _ = NewWriter(&out).Write(encoded)
		var got string
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got != text {
			t.Errorf("%U: %q in JSON, %v", r, got, err)
		}
	}
	for text, want := range map[string]string{
		"plain – 漢字\n\tx": "plain – 漢字\n\tx", "\x1b[2Jx\rok\u202e": `\u001b[2Jx\u000dok\u202e`, "bad \xff\xc2": "bad \ufffd\ufffd", "\U000e0041": `\udb40\udc41`, "": "",
	} {
		var out strings.Builder
		_, _ = NewWriter(&out).Write([]byte(text))
		if out.String() != want {
			t.Errorf("%q: %q, want %q", text, out.String(), want)
		}
	}
}
