package gateway

import (
	"golang.org/x/text/encoding/charmap"

	"github.com/taredb/tare/sqldigest"
)

// unresolved starts the name of a user that could not be resolved. It is not valid UTF-8, and rules match it
// as any user.
const unresolved = 0xff

// appendUser appends the user's name as the server resolves it: without one pair of enclosing single quotes,
// and converted from the login's character set to UTF-8.
func appendUser(dst, name []byte, c sqldigest.Charset) []byte {
	if n := len(name); n > 1 && name[0] == '\'' && name[n-1] == '\'' {
		name = name[1 : n-1]
	}
	if isASCII(name) {
		return append(dst, name...)
	}
	switch c.String() {
	case "utf8mb3", "utf8mb4", "binary":
		return append(dst, name...)
	}
	table := charmapOf(c)
	if table == nil {
		return append(append(dst, unresolved), name...)
	}
	for _, b := range name {
		dst = append(dst, string(table.DecodeByte(b))...)
	}
	return dst
}

func isASCII(name []byte) bool {
	for _, c := range name {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// charmapOf returns the table of a single-byte character set, or nil if there is none.
func charmapOf(c sqldigest.Charset) *charmap.Charmap {
	switch c.String() {
	case "latin1":
		return charmap.Windows1252
	case "latin2":
		return charmap.ISO8859_2
	case "latin5":
		return charmap.ISO8859_9
	case "latin7":
		return charmap.ISO8859_13
	case "greek":
		return charmap.ISO8859_7
	case "hebrew":
		return charmap.ISO8859_8
	case "cp1250":
		return charmap.Windows1250
	case "cp1251":
		return charmap.Windows1251
	case "cp1256":
		return charmap.Windows1256
	case "cp1257":
		return charmap.Windows1257
	case "cp850":
		return charmap.CodePage850
	case "cp852":
		return charmap.CodePage852
	case "cp866":
		return charmap.CodePage866
	case "koi8r":
		return charmap.KOI8R
	case "koi8u":
		return charmap.KOI8U
	case "macroman":
		return charmap.Macintosh
	}
	return nil
}
