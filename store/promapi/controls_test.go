package promapi

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"

	"github.com/prometheus/prometheus/model/labels"
)

// TestControls writes control characters and those that set the reading direction as escapes, in labels and in texts: a response
// on a terminal shows them.
func TestControls(t *testing.T) {
	n := 0
	for r := rune(0x80); r <= 0x3000; r++ {
		s := "a" + string(r) + "b"
		for _, b := range [][]byte{appendString(nil, s), appendText(nil, s), appendLabels(nil, labels.FromStrings("text", s))} {
			text := b
			if b[0] == '{' {
				text = b[len(`{"text":`) : len(b)-1]
			}
			var got string
			if err := json.Unmarshal(text, &got); err != nil || got != s {
				t.Errorf("%U: %s has the value %q, %v", r, text, got, err)
			}
			control := unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
			if control {
				n++
			}
			if bytes.ContainsRune(b, r) == control {
				t.Errorf("%U: %q", r, b)
			}
		}
	}
	if n != 3*(32+12+2) {
		t.Errorf("%d control characters", n)
	}
}
