package sqlplan

import (
	"strings"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/sqldigest"
)

// plain reports whether the server takes the name, as it is in the client's text, for these very characters. Otherwise
// it may be any name: MySQL removes an incomplete character at the end of a name, and ends a name of a command
// at a NUL; it compares the names of variables without trailing spaces; and a byte that is no character becomes a
// question mark. A character past ASCII is one that the server may equate with another: see mayMatch.
func plain(name string, c sqldigest.Charset) bool {
	for i := 0; i < len(name); {
		switch b := name[i]; {
		case b < ' ', b == 0x7f:
			return false
		case b < 0x80:
			i++
		default:
			n := charLen(name[i:], c.String())
			if n == 0 {
				return false
			}
			i += n
		}
	}
	return !strings.HasSuffix(name, " ")
}

// charLen returns the number of bytes of the character past ASCII at the start of s, 0 if there may be none. Servers
// accept further ones in some character sets.
func charLen(s, charset string) int {
	switch charset {
	case "utf8mb4", "utf8mb3", "binary", "":
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError || n > 3 { // the names in servers are in utf8mb3
			return 0
		}
		return n
	case "ascii":
		return 0
	case "big5":
		return pair(s, 0xa1, 0xf9, 0x40, 0x7e, 0xa1, 0xfe)
	case "gbk":
		return pair(s, 0x81, 0xfe, 0x40, 0x7e, 0x80, 0xfe)
	case "gb18030":
		if len(s) >= 4 && isIn(s[0], 0x81, 0xfe) && isIn(s[1], '0', '9') && isIn(s[2], 0x81, 0xfe) && isIn(s[3], '0', '9') {
			return 4
		}
		return pair(s, 0x81, 0xfe, 0x40, 0x7e, 0x80, 0xfe)
	case "gb2312", "euckr":
		return pair(s, 0xa1, 0xfe, 0xa1, 0xfe, 0xa1, 0xfe)
	case "sjis", "cp932":
		if isIn(s[0], 0xa1, 0xdf) {
			return 1
		}
		return max(pair(s, 0x81, 0x9f, 0x40, 0x7e, 0x80, 0xfc), pair(s, 0xe0, 0xfc, 0x40, 0x7e, 0x80, 0xfc))
	case "ujis", "eucjpms":
		switch {
		case s[0] == 0x8e:
			return pair(s, 0x8e, 0x8e, 0xa1, 0xdf, 0xa1, 0xdf)
		case s[0] == 0x8f && len(s) > 2 && isIn(s[1], 0xa1, 0xfe) && isIn(s[2], 0xa1, 0xfe):
			return 3
		}
		return pair(s, 0xa1, 0xfe, 0xa1, 0xfe, 0xa1, 0xfe)
	}
	return 1
}

func isIn(c, from, to byte) bool { return from <= c && c <= to }

// pair returns 2 if s starts with a byte of one range and a byte of one of the others.
func pair(s string, lead, leadEnd, low, lowEnd, high, highEnd byte) int {
	if len(s) > 1 && isIn(s[0], lead, leadEnd) && (isIn(s[1], low, lowEnd) || isIn(s[1], high, highEnd)) {
		return 2
	}
	return 0
}

// mayBe reports whether the server may take the name for the word, which is in lower-case ASCII.
func (a *analysis) mayBe(name, word string) bool {
	return name == word || !isASCII(name) && mayMatch(word, name) || !plain(name, a.tables.charset)
}

// mayEqual reports whether the server may take the name for one in ASCII that it does not equal.
func (a *analysis) mayEqual(name string) bool {
	return !isASCII(name) || !plain(name, a.tables.charset)
}
