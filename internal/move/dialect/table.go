package dialect

import (
	"regexp"
	"slices"
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
	if t.Across() && t.To == MySQL {
		refuseLongKeys(create, lines, &refused)
	}
	return strings.Join(lines, "\n"), refused.err()
}

func (t *Translator) tableLine(line string, refused *reasons) string {
	change := func(part string) string { return t.replaceCollations(part, refused) }
	if t.Across() && t.To == MariaDB {
		t.refuseExpressions(line, refused)
		refuseInvisible(line, refused)
		change = func(part string) string { return t.replaceCollations(toMariaDB(part, refused), refused) }
	} else if t.Across() {
		line = parenthesizeDefault(line)
		refuseAttributes(line, refused)
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
	{find: regexp.MustCompile(`\bCOMPRESSION=`), reason: "its pages are compressed (COMPRESSION), which MariaDB sets up in another way"},
	{find: regexp.MustCompile(`\bSECONDARY_ENGINE=`), reason: "it has a SECONDARY_ENGINE, which MariaDB has not"},
	{find: regexp.MustCompile(`/\*!80016 ENCRYPTION=`), reason: "it is encrypted (ENCRYPTION), which MariaDB sets up in another way"},
}

var mysqlRewrites = []rewrite{
	{find: regexp.MustCompile(`\) IGNORED\b`), with: ") INVISIBLE"},
	{find: regexp.MustCompile(`\bgeometrycollection\b`), with: "geomcollection"},
	{find: regexp.MustCompile(` (?:TRANSACTIONAL|PAGE_CHECKSUM)=\d+`), with: ""}, // without effect in InnoDB
	{find: regexp.MustCompile(`\bWITH(?:OUT)? SYSTEM VERSIONING\b`), reason: "it has SYSTEM VERSIONING, and MySQL keeps no earlier rows"},
	{find: regexp.MustCompile(`^ +PERIOD FOR `), reason: "it has a PERIOD, which MySQL has not"},
	{find: regexp.MustCompile(`^ (uuid|inet4|inet6|xmltype)\b`), reason: "it has a column of a type that MySQL has not (UUID, INET4, INET6 or XMLTYPE)"},
	{find: regexp.MustCompile(`/\*M!100301 COMPRESSED`), reason: "it has a COMPRESSED column, which MySQL has not"},
	{find: regexp.MustCompile(`\bREF_SYSTEM_ID=`), reason: "it has a column with a REF_SYSTEM_ID, which MySQL has not"},
	{find: regexp.MustCompile(`\b(?:nextval|lastval|next value for)\b`), reason: "a default of it takes numbers from a sequence, and MySQL has none"},
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

// longColumn is the line of a column without a maximum length, for which MariaDB has unique keys by a hash.
var longColumn = regexp.MustCompile("^  (`(?:[^`]|``)+`) (?:tiny|medium|long)?(?:text|blob|json)\\b")

// refuseLongKeys refuses unique keys over whole texts.
func refuseLongKeys(create string, lines []string, refused *reasons) {
	long := make(map[string]bool)
	for _, line := range lines {
		if m := longColumn.FindStringSubmatch(line); m != nil {
			long[m[1]] = true
		}
	}
	for _, k := range createtable.Keys(create) {
		if k.Kind == "UNIQUE KEY" && slices.ContainsFunc(k.Parts, func(part string) bool { return long[part] }) {
			refused.add("its unique key %s is over a whole text, which MySQL has not", k.Name)
		}
	}
}

// refuseInvisible refuses an invisible column that every INSERT would have to name.
func refuseInvisible(line string, refused *reasons) {
	var b strings.Builder
	for from, to := range sqldigest.Plain(line, 0) {
		b.WriteString(line[from:to] + " ")
	}
	plain := b.String()
	if strings.HasPrefix(line, "  `") && strings.Contains(plain, "/*!80023 INVISIBLE */") && strings.Contains(plain, " NOT NULL") &&
		!strings.Contains(plain, " DEFAULT ") && !strings.Contains(plain, " AUTO_INCREMENT") && !strings.Contains(plain, " GENERATED ALWAYS ") {
		refused.add("it has an INVISIBLE column that is NOT NULL and has no default, which MariaDB refuses")
	}
}

// refuseAttributes refuses options that an engine of MariaDB defines, such as PAGE_COMPRESSED and ENCRYPTED: SHOW CREATE TABLE quotes their names.
func refuseAttributes(line string, refused *reasons) {
	if !strings.HasPrefix(line, ")") {
		return
	}
	var l sqldigest.Lexer
	l.Reset([]byte(line), 0)
	name := ""
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		word := line[t.Start:t.End]
		if word == "=" && name != "" {
			refused.add("it has the option %s, which MySQL has not", name)
		}
		if name = ""; t.Kind == sqldigest.KindQuotedIdent {
			name = sqldigest.Unquote(word)
		}
	}
}

// defaultClause is the start of a column's default, behind its name and type.
var defaultClause = regexp.MustCompile("^(  `(?:[^`]|``)+` ([a-z]+)[^']*? DEFAULT )(.*)$")

// plainDefault is a default that MySQL takes without parentheses.
var plainDefault = regexp.MustCompile(`^(?:NULL\b|\(|-?[0-9.]|b'|(?i:current_timestamp\b))`)

// literalStart is the start of a default that is a literal.
var literalStart = regexp.MustCompile(`^(?:[xX]|_[a-z0-9]+ ?)?'`)

// functionCall is a default that is a call of a function.
var functionCall = regexp.MustCompile(`^[a-z_0-9]+\(`)

// parenthesizeDefault puts a default in parentheses that MySQL takes only as an expression: a function's value, and a constant of a
// text or binary column without a length.
func parenthesizeDefault(line string) string {
	m := defaultClause.FindStringSubmatch(line)
	if m == nil || plainDefault.MatchString(m[3]) {
		return line
	}
	text := literalStart.MatchString(m[3]) && (strings.HasSuffix(m[2], "text") || strings.HasSuffix(m[2], "blob"))
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
