package sqldigest

import (
	"fmt"
	"testing"
)

// TestCharsets reads characters that end in a backslash (0x5c), a backtick (0x60) or an @
// (0x40) in the modes of their character sets, and the same bytes where they are none.
func TestCharsets(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		sql  string
		want string
	}{
		// In a string, a character's second byte escapes nothing.
		{0, "select '\xb3\\', 1 -- '", "SELECT ?"}, // the escaped quote; the string ends in the comment
		{Big5, "select '\xb3\\' + x", "SELECT ? + `x`"},
		{GBK, "select '\x81\\' + x", "SELECT ? + `x`"},
		{SJIS, "select '\x83\\' + x", "SELECT ? + `x`"},
		{SJIS, "select '\xfc\\' + x", "SELECT ? + `x`"},
		// 0xb1 is a character of its own in sjis, 0x81 none in big5, 0xff in none: the backslash
		// escapes the quote.
		{SJIS, "select '\xb1\\' + x' + y", "SELECT ? + `y`"},
		{Big5, "select '\x81\\' + x' + y", "SELECT ? + `y`"},
		{Big5, "select '\xfa\\' + x' + y", "SELECT ? + `y`"},
		{GBK, "select '\xff\\' + x' + y", "SELECT ? + `y`"},
		{SJIS, "select '\xfd\\' + x' + y", "SELECT ? + `y`"},
		// A quote ends no character.
		{Big5, "select '\xb3' + x", "SELECT ? + `x`"},
		{GBK, "select '\x81' + x", "SELECT ? + `x`"},
		{SJIS, "select '\x83' + x", "SELECT ? + `x`"},
		// A backslash takes the byte after it, lead or not.
		{GBK, "select '\\\x81\\' + x' + y", "SELECT ? + `y`"},
		{GBK | NoBackslashEscapes, "select '\\\x81\\' + x", "SELECT ? + `x`"},
		// Quoted names: the second byte may be a backtick, which stays single.
		{Big5, "select `\xb3`, a` + x", "SELECT `\xb3`, a` + `x`"},
		{GBK, "select `\x81`, a` + x", "SELECT `\x81`, a` + `x`"},
		{SJIS, "select `\x83`, a` + x", "SELECT `\x83`, a` + `x`"},
		{SJIS, "select `\xb1`, a", "SELECT `\xb1`, `a`"},
		{Big5, "select `\x81`, a", "SELECT `\x81`, `a`"},
		{GBK | ANSIQuotes, "select \"\x81`\" + x", "SELECT `\x81`` + `x`"},
		{GBK, "select @'\x81`\x81\\' + x", "SELECT @`\x81`\x81\\` + `x`"},
		// Bare names.
		{0, "select \x83@b", "SELECT `\x83`@?"},
		{Big5, "select \xb3@b + x", "SELECT `\xb3@b` + `x`"},
		{GBK, "select \x81\\b + @\x81`.a", "SELECT `\x81\\b` + @`\x81`.a`"},
		{SJIS, "select \x83|\xe0{ from \xb1|\xb1", "SELECT `\x83|\xe0{` FROM `\xb1` | `\xb1`"},
		{GBK, "select a.\x81^ from t", "SELECT `a`.`\x81^` FROM `t`"},
		// A lead byte that stands alone at a name's end must not take the backtick.
		{GBK, "select a\x81 + x", "SELECT `a\x81?` + `x`"},
		// gb18030 has characters of four bytes, too.
		{GBK, "select '\x81\x30\x81\x30\\' + x' + `\x81\x30\x81\x30` + y", "SELECT ? + `\x81\x30\x81\x30` + `y`"},
	} {
		t.Run(fmt.Sprintf("%d %q", c.mode, c.sql), func(t *testing.T) {
			var d Digester
			d.Digest([]byte(c.sql), c.mode)
			if got := string(d.Text()); got != c.want {
				t.Errorf("text %q, want %q", got, c.want)
			}
		})
	}
}

// TestLowestCharset checks the rule for more than one character set bit.
func TestLowestCharset(t *testing.T) {
	for c := range 256 {
		if (Big5|GBK|SJIS).leads(byte(c)) != Big5.leads(byte(c)) || (GBK|SJIS).trails(byte(c)) != GBK.trails(byte(c)) {
			t.Errorf("byte %#x", c)
		}
		if Mode(3).leads(byte(c)) {
			t.Errorf("byte %#x leads without a character set", c)
		}
	}
}
