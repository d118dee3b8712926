package serverstats

import (
	"strings"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A key identifies statements that all servers count together: the hash of a folded normalized text.
type key sqldigest.Digest

// keyOf returns the key of a normalized text of package sqldigest.
func keyOf(normalized string) key { return key(sqldigest.OfText([]byte(fold(normalized)))) }

// limits are the server's bounds of texts in bytes.
type limits struct {
	digest int // of the tokens of a normalized text
	sample int // 0: there are no samples
}

// keyOfRow returns the key of the statements of a server's row, from its sample or its normalized text, and their digest if
// the sample is whole: servers' normalized texts are those of other statements, too. called is false for a row that does not count calls, joined for one whose texts do not have the whole statement: the server counts all
// statements with the same truncated text in one row.
func keyOfRow(d *sqldigest.Digester, mode sqldigest.Mode, sample, normalized string, l limits) (k key, digest sqldigest.Digest, called, joined bool) {
	for _, command := range []string{"PREPARE ", "DEALLOCATE ", "EXECUTE "} { // MySQL prints the protocol's command before the statement
		rest, ok := strings.CutPrefix(normalized, command)
		if !ok || strings.HasPrefix(rest, "`") || len(sample) >= len(command) && strings.EqualFold(sample[:len(command)], command) {
			continue
		}
		if normalized = rest; command != "EXECUTE " {
			return key{}, digest, false, false
		}
	}
	if normalized == "" || truncated(normalized, l.digest) {
		return key{}, digest, true, false
	}
	text, whole := sample, true
	if text == "" || len(text) > l.sample-utf8.UTFMax {
		text, whole = expand(normalized), false
	}
	if sum := d.Digest([]byte(text), mode); whole && !d.Divergent() {
		digest = sum
	}
	return keyOf(string(d.Text())), digest, true, !d.Divergent()
}

// Sizes of the tokens of a server's normalized text in bytes.
const (
	tokenBytes   = 2
	nameBytes    = 4   // of a name besides its text
	maxNameBytes = 200 // of a name of 64 characters of 3 bytes
)

// truncated reports whether a server may have truncated a normalized text: if there was no room for another name. Servers
// do not mark truncated texts.
func truncated(normalized string, limit int) bool {
	used := 0
	for i, part := range strings.Split(normalized, "`") {
		if i%2 == 1 {
			used += nameBytes + len(part)
		} else {
			used += tokenBytes * (len(strings.Fields(part)) + strings.Count(part, "@"))
		}
	}
	return used > limit-maxNameBytes
}

// lists replaces the collapsed lists of servers by lists that sqldigest collapses.
var lists = strings.NewReplacer("(...) /* , ... */", "(?, ?), (?, ?)", "(?) /* , ... */", "(?), (?)", "(...)", "(?, ?)", "?, ...", "?, ?")

// expand converts a server's normalized text to one of the statements that it is the text of. Servers print a space
// between a function and its parenthesis, which in statements only names may have.
func expand(normalized string) string {
	var b strings.Builder
	for i, part := range strings.Split(normalized, "`") {
		if i > 0 {
			b.WriteByte('`')
		}
		if i%2 == 1 { // a name
			b.WriteString(part)
			continue
		}
		part = lists.Replace(part)
		for {
			at := strings.Index(part, " (")
			if at < 0 {
				break
			}
			b.WriteString(part[:at])
			if at == 0 || !isWordByte(part[at-1]) {
				b.WriteByte(' ')
			}
			b.WriteByte('(')
			part = part[at+2:]
		}
		b.WriteString(part)
	}
	return b.String()
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// signs are the tokens that servers print differently: MariaDB keeps the sign of a literal, and the prefix of units of time.
var signs = strings.NewReplacer("- ?", "?", "+ ?", "?", "SQL_TSI_", "")

// fold removes from a normalized text what MariaDB's normalized texts do not have: the case and the quotes of names, the
// names of user variables, and the signs of literals.
func fold(normalized string) string {
	var b strings.Builder
	parts := strings.Split(normalized, "`")
	for i, part := range parts {
		switch {
		case i%2 == 0:
			b.WriteString(signs.Replace(upper(part)))
		case strings.HasSuffix(parts[i-1], "@") && !strings.HasSuffix(parts[i-1], "@@"):
			b.WriteByte('?')
		default:
			b.WriteString(upper(part))
		}
	}
	return b.String()
}

// upper returns a text in upper case. One that is not UTF-8 is returned as it is, because strings.ToUpper replaces its bytes.
func upper(text string) string {
	if !utf8.ValidString(text) {
		return text
	}
	return strings.ToUpper(text)
}
