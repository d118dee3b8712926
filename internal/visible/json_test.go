package visible_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/taredb/tare/internal/visible"
)

// controls returns the control characters beyond ASCII, and those that end lines or set the reading direction.
func controls() (all []rune) {
	for r := rune(0x80); r <= 0xffff; r++ { // there are none above
		if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Bidi_Control, r) {
			all = append(all, r)
		}
	}
	return all
}

// TestJSON writes each character as a value of JSON: hidden ones are escapes, and all have the same value.
func TestJSON(t *testing.T) {
	must := make(map[rune]bool)
	for _, r := range controls() {
		must[r] = true
		if !visible.IsControl(r) {
			t.Errorf("%U is no control character", r)
		}
	}
	if len(must) != 32+2+12 {
		t.Errorf("%d control characters", len(must))
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !must[r] && r >= utf8.RuneSelf && visible.IsControl(r) {
			t.Errorf("%U is a control character", r)
		}
		if !utf8.ValidRune(r) || r >= 0x2100 && r%499 > 0 && !must[r] && (r < 0xfe00 || r > 0xffff) && (r < 0xe0000 || r > 0xe01ff) {
			continue
		}
		value := map[string]string{"a" + string(r): "x" + string(r) + "y"}
		var streamed bytes.Buffer
		if err := visible.NewEncoder(&streamed).Encode(value); err != nil {
			t.Fatal(err)
		}
		text, err := visible.MarshalJSON(value)
		if err != nil || string(text)+"\n" != streamed.String() {
			t.Fatalf("%U: %s, %v, and %s", r, text, err, streamed.String())
		}
		var got map[string]string
		if err := json.Unmarshal(text, &got); err != nil || got["a"+string(r)] != "x"+string(r)+"y" {
			t.Errorf("%U: %s has the value %q, %v", r, text, got, err)
		}
		if must[r] && bytes.ContainsRune(text, r) || visible.Text(string(r)) != string(r) && bytes.ContainsRune(text, r) {
			t.Errorf("%U is written as it is: %q", r, text)
		}
	}
	if text, err := visible.MarshalJSON(func() {}); err == nil {
		t.Errorf("a function is %s", text)
	}
	if text, err := visible.MarshalJSON("日本語 é <b>"); err != nil || string(text) != `"日本語 é \u003cb\u003e"` {
		t.Errorf("%s, %v", text, err)
	}
	for r, want := range map[rune]string{0x9b: `\u009b`, 0x202e: `\u202e`, 0xe0001: `\udb40\udc01`, 0xffff: `\uffff`, 0x10000: `\ud800\udc00`} {
		if got := string(visible.AppendEscape([]byte("a"), r)); got != "a"+want {
			t.Errorf("%U: %s, want a%s", r, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _ = visible.AppendEscape(make([]byte, 0, 16), 0x202e) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if !strings.Contains(visible.Text("\u202e"), "202E") {
		t.Error("the oracle of hidden characters finds none")
	}
}
