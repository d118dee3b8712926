package sqldigest

import (
	"fmt"
	"strings"
	"testing"
)

// TestCharsets normalizes characters that end in a backslash (0x5c), a backtick (0x60) or an @ (0x40) in the
// modes of their character sets, and the same bytes in other modes.
func TestCharsets(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		sql  string
		want string
	}{
		// In a string, the second byte of a character escapes nothing.
		{0, "select '\xb3\\', 1 -- '", "SELECT ?"}, // the quote is escaped; the string ends in the comment
		{Big5, "select '\xb3\\' + x", "SELECT ? + `x`"},
		{GBK, "select '\x81\\' + x", "SELECT ? + `x`"},
		{SJIS, "select '\x83\\' + x", "SELECT ? + `x`"},
		{SJIS, "select '\xfc\\' + x", "SELECT ? + `x`"},
		// 0xb1 is a separate character in sjis; 0x81 is none in big5, 0xff in none: the backslash escapes
		// the quote.
		{SJIS, "select '\xb1\\' + x' + y", "SELECT ? + `y`"},
		{Big5, "select '\x81\\' + x' + y", "SELECT ? + `y`"},
		{Big5, "select '\xfa\\' + x' + y", "SELECT ? + `y`"},
		{GBK, "select '\xff\\' + x' + y", "SELECT ? + `y`"},
		{SJIS, "select '\xfd\\' + x' + y", "SELECT ? + `y`"},
		// A quote ends no character.
		{Big5, "select '\xb3' + x", "SELECT ? + `x`"},
		{GBK, "select '\x81' + x", "SELECT ? + `x`"},
		{SJIS, "select '\x83' + x", "SELECT ? + `x`"},
		// A backslash escapes the following byte, even a lead byte.
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
		// Unquoted names.
		{0, "select \x83@b", "SELECT `\x83`@?"},
		{Big5, "select \xb3@b + x", "SELECT `\xb3@b` + `x`"},
		{GBK, "select \x81\\b + @\x81`.a", "SELECT `\x81\\b` + @`\x81`.a`"},
		{SJIS, "select \x83|\xe0{ from \xb1|\xb1", "SELECT `\x83|\xe0{` FROM `\xb1` | `\xb1`"},
		{GBK, "select a.\x81^ from t", "SELECT `a`.`\x81^` FROM `t`"},
		// A single lead byte at a name's end must not absorb the backtick.
		{GBK, "select a\x81 + x", "SELECT `a\x81?` + `x`"},
		// gb18030 also has four-byte characters.
		{GBK, "select '\x81\x30\x81\x30\\' + x' + `\x81\x30\x81\x30` + y", "SELECT ? + `\x81\x30\x81\x30` + `y`"},
	} {
		t.Run(fmt.Sprintf("%d %q", c.mode, c.sql), func(t *testing.T) {
			var d Digester
			d.Digest([]byte(c.sql), c.mode)
			if got := string(d.Text()); got != c.want {
				t.Errorf("text %q, want %q", got, c.want)
			}
			whole := d.Sum()
			for n := 1; n < len(c.sql); n++ { // in pieces, which part characters
				d.Reset(c.mode)
				for rest := []byte(c.sql); len(rest) > 0; rest = rest[min(n, len(rest)):] {
					d.Write(rest[:min(n, len(rest))])
				}
				if got := d.Sum(); got != whole || string(d.Text()) != c.want {
					t.Errorf("in pieces of %d: text %q, digest %s, want %s", n, d.Text(), got, whole)
				}
			}
		})
	}
}

// TestParse reads digests and texts that are none.
func TestParse(t *testing.T) {
	const text = "000102030405060708090A0b0c0d0e0f"
	if d, err := Parse(text); err != nil || d.String() != strings.ToLower(text) {
		t.Errorf("%s: %s, %v", text, d, err)
	}
	for _, text := range []string{"", text[1:], text + "0", "x" + text[1:], text[1:] + "g"} {
		d := Digest{1}
		if err := d.UnmarshalText([]byte(text)); err == nil || d != (Digest{1}) {
			t.Errorf("%q: %s, %v", text, d, err)
		}
		if d, err := Parse(text); err == nil || d != (Digest{}) {
			t.Errorf("%q is the digest %s", text, d)
		}
	}
}

// TestLowestCharset checks that the lowest of several character set bits counts.
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
