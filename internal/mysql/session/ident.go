package session

import (
	"fmt"
	"strings"
)

// Ident returns a name, quoted for SQL.
func Ident(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Idents joins quoted names by commas.
func Idents(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = Ident(n)
	}
	return strings.Join(quoted, ", ")
}

// Literal returns a text as an SQL literal.
func Literal(s string) string { return string(AppendLiteral(nil, []byte(s))) }

// AppendLiteral appends v as a binary literal, independent of character sets and of NO_BACKSLASH_ESCAPES:
// _binary'…' if nothing in v needs an escape, x'…' otherwise. It does not allocate if dst has enough
// capacity.
func AppendLiteral(dst, v []byte) []byte {
	if IsPlain(v) {
		dst = append(dst, "_binary'"...)
		dst = append(dst, v...)
		return append(dst, '\'')
	}
	return append(AppendHex(append(dst, "x'"...), v), '\'')
}

// IsPlain reports whether v needs no escape between quotes: printable ASCII without quote and backslash.
func IsPlain(v []byte) bool {
	for _, c := range v {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' {
			return false
		}
	}
	return true
}

// AppendHex appends the hexadecimal digits of v.
func AppendHex(dst, v []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range v {
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}

// SchemaText returns a name as a literal that can be compared with names in information_schema.
func SchemaText(s string) string { return fmt.Sprintf("_utf8mb4 x'%x'", s) }
