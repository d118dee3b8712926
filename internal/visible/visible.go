package visible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// brailleBlank is a symbol without a dot.
const brailleBlank = '\u2800'

// hidden reports whether r is invisible. Blanks of any width are not hidden.
func hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f
	}
	if unicode.Is(unicode.Zs, r) {
		return false
	}
	return !unicode.IsPrint(r) || r == brailleBlank ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Text returns text with each hidden character replaced by its code, such as ⟨U+202E⟩. Tabs and line breaks
// are kept, and bytes that are not UTF-8 become U+FFFD.
func Text(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			code := strings.ToUpper(strconv.FormatInt(int64(r), 16))
			b.WriteString("⟨U+" + strings.Repeat("0", max(0, 4-len(code))) + code + "⟩")
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Line returns Text with each tab, line break and blank replaced by a plain blank.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return r
	}, Text(text))
}
