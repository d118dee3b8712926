package tabledef

import (
	"testing"

	"vitess.io/vitess/go/vt/sqlparser"
)

// TestTextValue has constants of columns of each kind of character set: those that would have to be converted are refused.
func TestTextValue(t *testing.T) {
	for _, tt := range []struct {
		charset, text string
		ok            bool
	}{
		{"binary", "\xff\U0001f600", true},
		{"utf8mb4", "é\U0001f600", true},
		{"utf8mb4", "\xff", false},
		{"utf8mb3", "\uffff", true},
		{"utf8mb3", "\U00010000", false},
		{"utf8", "\U00010000", false},
		{"utf8", "é", true},
		{"latin1", "~", true},
		{"latin1", "\x7f", false},
		{"latin1", "é", false},
		{"utf16", "a", false},
		{"ucs2", "a", false},
		{"utf32", "a", false},
		{"utf16le", "", false},
	} {
		k := &constantKind{text: tt.charset}
		v, err := k.textValue(sqlparser.NewStrLiteral(tt.text))
		if (err == nil) != tt.ok || tt.ok && string(v) != tt.text {
			t.Errorf("%q in %s: %q, %v", tt.text, tt.charset, v, err)
		}
		if _, err := k.textValue(sqlparser.NewIntLiteral("1")); err == nil {
			t.Errorf("a number in %s", tt.charset)
		}
	}
}
