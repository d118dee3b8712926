package rowstream

import (
	"strconv"
	"strings"
)

// CreateLines splits the text of SHOW CREATE TABLE into lines, without line ends. A newline within a quoted
// name or string does not end a line.
func CreateLines(create string) []string {
	var lines []string
	start, quote := 0, byte(0)
	for i := 0; i < len(create); i++ {
		switch b := create[i]; {
		case quote != 0 && b == '\\' && quote == '\'':
			i++ // servers escape within strings, but not within names
		case quote != 0:
			if b == quote {
				quote = 0 // a doubled quote immediately opens again
			}
		case b == '`' || b == '\'':
			quote = b
		case b == '\n':
			lines, start = append(lines, create[start:i]), i+1
		}
	}
	return append(lines, create[start:])
}

// AutoIncrement returns the next AUTO_INCREMENT value in the text of SHOW CREATE TABLE, 0 if there is none:
// the table has no such column, or no value was used.
func AutoIncrement(create string) uint64 {
	for _, line := range CreateLines(create) {
		if !strings.HasPrefix(line, ") ") {
			continue
		}
		for option := range strings.FieldsSeq(line) { // names and strings come after it
			if value, ok := strings.CutPrefix(option, "AUTO_INCREMENT="); ok {
				n, _ := strconv.ParseUint(value, 10, 64)
				return n
			}
			if strings.HasPrefix(option, "COMMENT=") {
				break
			}
		}
		return 0
	}
	return 0
}

// A CreateKey is an index in the text of SHOW CREATE TABLE.
type CreateKey struct {
	Kind    string   // PRIMARY KEY, UNIQUE KEY, KEY, FULLTEXT KEY, SPATIAL KEY
	Name    string   // PRIMARY for the primary key
	Parts   []string // columns or expressions as printed, with lengths and directions
	Options string   // text after the list
}

// Hidden reports whether the server's optimizer ignores the index, so that statements cannot name it:
// INVISIBLE in MySQL, IGNORED in MariaDB.
func (k *CreateKey) Hidden() bool {
	return strings.HasSuffix(k.Options, "/*!80000 INVISIBLE */") || strings.HasSuffix(k.Options, "IGNORED")
}

// WithoutOverlaps reports whether the key is a MariaDB key over periods.
func (k *CreateKey) WithoutOverlaps() bool {
	return len(k.Parts) > 0 && strings.HasSuffix(k.Parts[len(k.Parts)-1], "` WITHOUT OVERLAPS")
}

// CreateKeys returns the indexes in the text of SHOW CREATE TABLE.
func CreateKeys(create string) (keys []CreateKey) {
	for _, line := range CreateLines(create) {
		line, ok := strings.CutPrefix(line, "  ")
		if !ok {
			continue
		}
		line = strings.TrimSuffix(line, ",")
		for _, kind := range []string{"PRIMARY KEY", "UNIQUE KEY", "KEY", "FULLTEXT KEY", "SPATIAL KEY"} {
			rest, ok := strings.CutPrefix(line, kind+" ")
			if !ok {
				continue
			}
			k := CreateKey{Kind: kind, Name: "PRIMARY"}
			if kind != "PRIMARY KEY" {
				n := quotedEnd(rest)
				k.Name, rest = strings.ReplaceAll(rest[1:max(1, n-1)], "``", "`"), strings.TrimPrefix(rest[n:], " ")
			}
			k.Parts, k.Options = keyParts(rest)
			keys = append(keys, k)
		}
	}
	return keys
}

// quotedEnd returns the length of the quoted name or string at the start of s.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] == '\'':
			i++
		case s[i] == s[0] && i+1 < len(s) && s[i+1] == s[0]:
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return len(s)
}

// keyParts splits "(a,b) options" at the commas outside of parentheses and quotes.
func keyParts(s string) (parts []string, options string) {
	depth, start := 0, 1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '`', '\'':
			i += quotedEnd(s[i:]) - 1
		case '(':
			depth++
		case ',':
			if depth == 1 {
				parts, start = append(parts, s[start:i]), i+1
			}
		case ')':
			if depth--; depth == 0 {
				return append(parts, s[start:i]), strings.TrimSpace(s[i+1:])
			}
		}
	}
	return parts, ""
}
