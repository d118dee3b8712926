package tabledef

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/taredb/tare/mysql/rowstream"
)

// Generated columns cannot be written: the target computes them in sessions of the copier, with its functions
// and collations. Their definitions must be equal, but the value of an expression may still depend on
// sql_mode, the time zone or the server. Stored generated columns are therefore compared within the
// transaction that writes a chunk, with the rows from which it was read. A verification compares all of them.

// generatedDifferences returns the differences in the generated columns of two descriptions of a table.
func generatedDifferences(here, there string, source, target *rowstream.Table) (all []string) {
	byName := make(map[string]*rowstream.Column)
	for i := range target.Generated {
		byName[strings.ToLower(target.Generated[i].Name)] = &target.Generated[i]
	}
	unique := uniqueColumns(source, target)
	for i := range source.Generated {
		s := &source.Generated[i]
		t := byName[strings.ToLower(s.Name)]
		delete(byName, strings.ToLower(s.Name))
		switch {
		case t == nil:
			all = append(all, fmt.Sprintf("generated column %s is missing %s", s.Name, there))
		case plainExpression(s.Expression) != plainExpression(t.Expression):
			all = append(all, fmt.Sprintf("generated column %s is computed by %s %s and by %s %s", s.Name, s.Expression, here, t.Expression, there))
		case s.Stored != t.Stored:
			all = append(all, fmt.Sprintf("generated column %s is stored in one of the two only", s.Name))
		case !sameType(s, t) && !jsonAsText(s, t):
			all = append(all, fmt.Sprintf("generated column %s is %s %s and %s %s", s.Name, s.FullType, here, t.FullType, there))
		case s.Charset != t.Charset && !jsonAsText(s, t):
			all = append(all, fmt.Sprintf("generated column %s has the character set %s %s and %s %s", s.Name, s.Charset, here, t.Charset, there))
		case s.Collation != t.Collation && unique(s.Name):
			all = append(all, fmt.Sprintf("generated column %s, which is of a unique key, has the collation %s %s and %s %s", s.Name, s.Collation, here, t.Collation, there))
		}
	}
	for i := range target.Generated {
		if c := &target.Generated[i]; byName[strings.ToLower(c.Name)] != nil {
			all = append(all, fmt.Sprintf("generated column %s is missing %s", c.Name, here))
		}
	}
	return all
}

// introducer matches the character set that MySQL writes before a string in an expression.
var introducer = regexp.MustCompile(`(^|[^\w` + "`" + `])_(?:utf8mb[34]|latin1|ascii|binary)(\\?')`)

// plainExpression returns an expression in a form that servers have in common: MySQL adds introducers,
// backslashes and parentheses. Backslashes within strings are removed on both sides.
func plainExpression(e string) string {
	e = strings.ReplaceAll(introducer.ReplaceAllString(e, "$1$2"), `\`, "")
	for len(e) > 1 && e[0] == '(' && closing(e) == len(e)-1 {
		e = e[1 : len(e)-1]
	}
	return e
}

// closing returns the index of the parenthesis that closes the one at the start of e, -1 if it is not closed.
func closing(e string) int {
	depth, quote := 0, byte(0)
	for i := range len(e) {
		switch b := e[i]; {
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '\'' || b == '`' || b == '"':
			quote = b
		case b == '(':
			depth++
		case b == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
