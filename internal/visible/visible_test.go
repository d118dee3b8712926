package visible

import (
	"strings"
	"testing"
	"unicode"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"SELECT 'äöü – 漢字 😀 א ع'\n\t1", "SELECT 'äöü – 漢字 😀 א ع'\n\t1"},
		{"a\u202eb\u2066c\u200fd\u061ce", "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200F⟩d⟨U+061C⟩e"},
		{"zero\u200bwidth\u200d\u2060\ufeff\u00ad", "zero⟨U+200B⟩width⟨U+200D⟩⟨U+2060⟩⟨U+FEFF⟩⟨U+00AD⟩"},
		{"\x00\x1b[31m\x7f\u0085\u2028\u2029", "⟨U+0000⟩⟨U+001B⟩[31m⟨U+007F⟩⟨U+0085⟩⟨U+2028⟩⟨U+2029⟩"},
		{"\u3164\u115f\u034f\ufe0f\u2800\U000e0041", "⟨U+3164⟩⟨U+115F⟩⟨U+034F⟩⟨U+FE0F⟩⟨U+2800⟩⟨U+E0041⟩"},
		{"a\u00a0b\u202fc", "a\u00a0b\u202fc"},
		{"bad \xff", "bad \ufffd"},
	} {
		if got := Text(c.text); got != c.want {
			t.Errorf("%+q: %+q, want %+q", c.text, got, c.want)
		}
	}
	if got := Line("a\tb\r\nc\u00a0d\u202e"); got != "a b  c d⟨U+202E⟩" {
		t.Errorf("a line is %q", got)
	}
}

// TestNoControl checks that no character of these classes is left.
func TestNoControl(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !unicode.In(r, unicode.Bidi_Control, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == '\t' || r == '\n' || r == '\r' {
			continue
		}
		if strings.ContainsRune(Text(string(r)), r) || strings.ContainsRune(Line(string(r)), r) {
			t.Errorf("%U is left", r)
		}
	}
}
