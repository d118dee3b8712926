package copier

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// Generated columns cannot be written: the target computes them again, in sessions of the copier, with its own functions and
// collations. Their definitions must be the same, but the values of an expression may still depend on sql_mode, the time zone or
// the server. Those that are stored are therefore compared within the transaction that writes a chunk, with the rows that
// it was read from; a verification compares all.

// generatedDifferences are differences in the generated columns of two descriptions of a table.
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

// introducer is the character set that MySQL writes before a text in an expression.
var introducer = regexp.MustCompile(`(^|[^\w` + "`" + `])_(?:utf8mb[34]|latin1|ascii|binary)(\\?')`)

// plainExpression returns an expression in a form that servers have in common: MySQL adds introducers, backslashes and parentheses.
// Within a text, backslashes are left out on both sides.
func plainExpression(e string) string {
	e = strings.ReplaceAll(introducer.ReplaceAllString(e, "$1$2"), `\`, "")
	for len(e) > 1 && e[0] == '(' && closing(e) == len(e)-1 {
		e = e[1 : len(e)-1]
	}
	return e
}

// closing returns where the parenthesis that e starts with is closed, -1 if it is not.
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

// generatedComparison prepares comparing the stored generated columns of the table; nil where there are none, or where only some
// columns are copied.
func (t *table) generatedComparison() *comparison {
	if len(t.spec.Columns) > 0 {
		return nil
	}
	c := &comparison{t: t, target: t.there, source: rowstream.SumOptions{Where: t.spec.Where, Plan: t.plan}}
	for i := range t.source.Generated {
		if t.source.Generated[i].Stored {
			c.addGenerated(t.source, t.there, i)
		}
	}
	if len(c.source.Columns) == 0 {
		return nil
	}
	target := *t.there
	target.Schema, target.Name, target.KeyName, target.Key, c.target = t.spec.ToSchema, t.spec.ToName, "", nil, &target
	for _, k := range t.source.Key {
		n := columnNumber(&target, t.source.Columns[k].Name)
		target.Key = append(target.Key, n)
		c.source.Columns, c.there.Columns = append(c.source.Columns, k), append(c.there.Columns, n)
	}
	return c
}

// addGenerated adds a generated column to those that are compared, if both sides have it.
func (c *comparison) addGenerated(source, target *rowstream.Table, number int) {
	for i := range target.Generated {
		if strings.EqualFold(target.Generated[i].Name, source.Generated[number].Name) {
			c.source.Columns = append(c.source.Columns, len(source.Columns)+number)
			c.there.Columns = append(c.there.Columns, len(target.Columns)+i)
		}
	}
}

// checkGenerated compares the stored generated columns of a chunk that the target's connection has written in its transaction.
func (w *worker) checkGenerated(ctx context.Context, c *comparison, k rowstream.Chunk, to *mysqlconn.Client) error {
	source, err := rowstream.SumChunk(ctx, w.view, c.t.source, k, c.source)
	if err != nil {
		return sourceError{err}
	}
	target, err := rowstream.SumChunkOf(ctx, to, c.target, k, c.there)
	if err != nil || source == target {
		return err
	}
	rows := make(map[string]uint64)
	if err := rowstream.SumRows(ctx, w.view, c.t.source, k, c.source, func(key mysqlwire.TextRow, sum uint64) error {
		rows[string(rowstream.EncodeKey(key))] = sum
		return nil
	}); err != nil {
		return sourceError{err}
	}
	n := 0
	if err := rowstream.SumRowsOf(ctx, to, c.target, k, c.there, func(key mysqlwire.TextRow, sum uint64) error {
		if was, ok := rows[string(rowstream.EncodeKey(key))]; ok && was != sum {
			n++
		}
		return nil
	}); err != nil {
		return err
	}
	var names []string
	for _, number := range c.source.Columns {
		if number >= len(c.t.source.Columns) {
			names = append(names, c.t.source.Generated[number-len(c.t.source.Columns)].Name)
		}
	}
	return fmt.Errorf("%w: generated columns (%s) have other values in the target for %d rows: their expressions depend on sql_mode, the time zone, "+
		"collations or the server, and were computed in other sessions in the source; correct the expressions, or create the table in the target, "+
		"and list its other columns with --columns, which leaves generated ones uncompared", errRows, strings.Join(names, ", "), n)
}
