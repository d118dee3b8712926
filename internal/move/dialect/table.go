package dialect

import (
	"regexp"
	"strings"

	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Table translates the text of SHOW CREATE TABLE.
func (t *Translator) Table(create string) (string, error) {
	var refused reasons
	if t == nil || !t.Across() && len(t.Collations) == 0 {
		return create, nil
	}
	lines := sqldigest.Lines(create, 0)
	for i, line := range lines {
		if i == 0 {
			continue // the name
		}
		lines[i] = t.tableLine(line, &refused)
	}
	return strings.Join(lines, "\n"), refused.err()
}

func (t *Translator) tableLine(line string, refused *reasons) string {
	change := func(part string) string { return t.replaceCollations(part, refused) }
	if t.Across() && t.To == MariaDB {
		t.refuseExpressions(line, refused)
		change = func(part string) string { return t.replaceCollations(toMariaDB(part, refused), refused) }
	} else if t.Across() {
		line = parenthesizeDefault(line)
		change = func(part string) string { return t.replaceCollations(toMySQL(part, refused), refused) }
	}
	return Outside(line, 0, change) // the mode of our sessions
}

// A rewrite replaces a part of a definition, or refuses it with a reason.
type rewrite struct {
	find   *regexp.Regexp
	with   string
	reason string
}

var mariadbRewrites = []rewrite{
	{find: regexp.MustCompile(`/\*!80023 INVISIBLE \*/`), with: "INVISIBLE"},
	{find: regexp.MustCompile(`/\*!80000 INVISIBLE \*/`), with: "IGNORED"},
	{find: regexp.MustCompile(`\bgeomcollection\b`), with: "geometrycollection"},
	// MariaDB cannot read a text with an introducer and a quote in it from the expressions of its own definitions. The session's character
	// set is utf8mb4.
	{find: regexp.MustCompile(`\b_utf8mb4$`), with: ""},
	{find: regexp.MustCompile(`/\*!80016 NOT ENFORCED \*/`), reason: "it has a CHECK that is NOT ENFORCED, and MariaDB enforces all"},
	{find: regexp.MustCompile(`/\*!80003 SRID `), reason: "it has a column with an SRID, which MariaDB would not enforce"},
	{find: regexp.MustCompile(`/\*!80016 ENCRYPTION=`), reason: "it is encrypted (ENCRYPTION), which MariaDB sets up in another way"},
}

var mysqlRewrites = []rewrite{
	{find: regexp.MustCompile(`\) IGNORED\b`), with: ") INVISIBLE"},
	{find: regexp.MustCompile(`\bgeometrycollection\b`), with: "geomcollection"},
	{find: regexp.MustCompile(`\bWITH(?:OUT)? SYSTEM VERSIONING\b`), reason: "it has SYSTEM VERSIONING, and MySQL keeps no earlier rows"},
	{find: regexp.MustCompile(`^ +PERIOD FOR `), reason: "it has a PERIOD, which MySQL has not"},
	{find: regexp.MustCompile(`^ (uuid|inet4|inet6|xmltype)\b`), reason: "it has a column of a type that MySQL has not (UUID, INET4, INET6 or XMLTYPE)"},
	{find: regexp.MustCompile(`/\*M!100301 COMPRESSED`), reason: "it has a COMPRESSED column, which MySQL has not"},
	{find: regexp.MustCompile(`\bREF_SYSTEM_ID=`), reason: "it has a column with a REF_SYSTEM_ID, which MySQL has not"},
	{find: regexp.MustCompile(`\b(?:nextval|lastval|next value for)\b`), reason: "a default of it takes numbers from a sequence, and MySQL has none"},
	{find: regexp.MustCompile(`\bPAGE_COMPRESSED=|\bENCRYPTED=`), reason: "its pages are compressed or encrypted, which MySQL sets up in another way"},
}

func rewriteAll(part string, rules []rewrite, refused *reasons) string {
	for i := range rules {
		r := &rules[i]
		switch {
		case !r.find.MatchString(part):
		case r.reason != "":
			refused.add("%s", r.reason)
		default:
			part = r.find.ReplaceAllString(part, r.with)
		}
	}
	return part
}

func toMariaDB(part string, refused *reasons) string {
	return rewriteAll(part, mariadbRewrites, refused)
}
func toMySQL(part string, refused *reasons) string { return rewriteAll(part, mysqlRewrites, refused) }

// refuseExpressions refuses an index over an expression.
func (t *Translator) refuseExpressions(line string, refused *reasons) {
	for _, k := range createtable.Keys(line) {
		for _, part := range k.Parts {
			if strings.HasPrefix(part, "(") {
				refused.add("its index %s is over an expression, and MariaDB has only indexes over columns: add a generated column for it", k.Name)
			}
		}
	}
}

// defaultClause is the start of a column's default, behind its name and type.
var defaultClause = regexp.MustCompile("^(  `(?:[^`]|``)+` ([a-z]+)[^']*? DEFAULT )(.*)$")

// plainDefault is a default that MySQL takes without parentheses.
var plainDefault = regexp.MustCompile(`^(?:NULL\b|\(|-?[0-9.]|b'|(?i:current_timestamp\b))`)

// functionCall is a default that is a call of a function.
var functionCall = regexp.MustCompile(`^[a-z_0-9]+\(`)

// parenthesizeDefault puts a default in parentheses that MySQL takes only as an expression: a function's value, and a constant of a
// text or binary column without a length.
func parenthesizeDefault(line string) string {
	m := defaultClause.FindStringSubmatch(line)
	if m == nil || plainDefault.MatchString(m[3]) {
		return line
	}
	text := m[3][0] == '\'' && (strings.HasSuffix(m[2], "text") || strings.HasSuffix(m[2], "blob"))
	if !text && !functionCall.MatchString(m[3]) {
		return line
	}
	end := firstValue(m[3])
	if end == 0 {
		return line
	}
	return m[1] + "(" + m[3][:end] + ")" + m[3][end:]
}

// firstValue returns the length of the literal, or the call of a function, that a text starts with.
func firstValue(text string) int {
	var l sqldigest.Lexer
	l.Reset([]byte(text), 0)
	depth := 0
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		switch word := text[t.Start:t.End]; {
		case t.Kind == sqldigest.KindString && depth == 0:
			return t.End
		case word == "(":
			depth++
		case word == ")":
			if depth--; depth == 0 {
				return t.End
			}
		}
	}
	return 0
}
