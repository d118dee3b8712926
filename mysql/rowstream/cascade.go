package rowstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Cascade is a foreign key that changes rows of its table when the rows they refer to are deleted or change
// their key. If the server does not log these changes, a follower derives them from the change of the
// referenced row.
type Cascade struct {
	Key      ForeignKey
	Columns  []int  // of the key, as indexes in the table's Columns
	Parent   *Table // the referenced table; nil if it is not followed
	Referred []int  // the referenced columns, as indexes in Parent's Columns

	// Refused is the reason why the key's changes cannot be derived from the log; empty: they can.
	Refused string
}

// OnDelete reports whether the key changes rows when a row they refer to is deleted.
func (c *Cascade) OnDelete() bool { return acts(c.Key.OnDelete) }

// OnUpdate reports whether the key changes rows when a row they refer to changes its key.
func (c *Cascade) OnUpdate() bool { return acts(c.Key.OnUpdate) }

// acts reports whether an action of a foreign key changes rows instead of refusing a statement.
func acts(action string) bool { return action != "" && action != "RESTRICT" && action != "NO ACTION" }

// maxCascades is the maximum number of foreign keys per table whose changes can be derived: Change.Cascade
// has eight bits.
const maxCascades = 1 << 8

// ResolveCascades sets the Cascades of tables that are followed together.
//
// Only actions of one level are derived. Changes of a second level depend on the rows of the first, whose
// state in the target is later than the position of the log while the log is read from before its views.
func ResolveCascades(tables []*Table) error {
	for _, t := range tables {
		t.Cascades = nil
		keys, _, err := CreateForeignKeys(t.Create)
		if err != nil {
			return fmt.Errorf("follow %s: %w", t.FullName(), err)
		}
		for i := range keys {
			if keys[i].Acts() {
				c := Cascade{Key: keys[i]}
				if c.resolve(t, tables); c.Refused == "" && len(t.Cascades) >= maxCascades {
					c.Refused = fmt.Sprintf("its table has more than %d foreign keys that change rows", maxCascades)
				}
				t.Cascades = append(t.Cascades, c)
			}
		}
	}
	for _, t := range tables {
		for i := range t.Cascades {
			if c := &t.Cascades[i]; c.Refused == "" {
				c.Refused = t.entangled(c, tables)
			}
		}
	}
	return nil
}

// resolve finds the columns of a key and of the table that it refers to, and refuses keys whose columns are
// compared differently.
func (c *Cascade) resolve(t *Table, tables []*Table) {
	schema := c.Key.Schema
	if schema == "" {
		schema = t.Schema
	}
	is := func(same func(a, b string) bool) func(p *Table) bool {
		return func(p *Table) bool { return same(p.Schema, schema) && same(p.Name, c.Key.Table) }
	}
	i := slices.IndexFunc(tables, is(func(a, b string) bool { return a == b }))
	if i < 0 {
		i = slices.IndexFunc(tables, is(strings.EqualFold))
	}
	if i < 0 {
		c.Refused = fmt.Sprintf("%s.%s, which it refers to, is not followed", schema, c.Key.Table)
		return
	}
	c.Parent = tables[i]
	var ok, okReferred bool
	c.Columns, ok = t.columnNumbers(c.Key.Columns)
	c.Referred, okReferred = c.Parent.columnNumbers(c.Key.Referred)
	if !ok || !okReferred {
		c.Refused = "a column of it is generated"
		return
	}
	for i, n := range c.Columns {
		child, parent := &t.Columns[n], &c.Parent.Columns[c.Referred[i]]
		switch {
		case child.Type != parent.Type || child.Unsigned != parent.Unsigned || child.Collation != parent.Collation,
			child.FullType != parent.FullType && child.kind() != kindInteger && child.kind() != kindText: // lengths of these types may differ
			c.Refused = fmt.Sprintf("column %s is of another type than the one that it refers to", child.Name)
		case !child.Keyable() || child.kind() == kindFloat || child.Type == "double":
			c.Refused = fmt.Sprintf("column %s is of the type %s, whose values are not compared by their text", child.Name, child.FullType)
		}
	}
	switch {
	case c.Refused != "":
	case !c.Parent.uniqueOver(c.Key.Referred):
		c.Refused = "the columns that it refers to are not unique"
	case strings.Contains(t.Create+c.Parent.Create, "WITH SYSTEM VERSIONING"):
		c.Refused = "a table is system-versioned"
	case c.Key.OnDelete == "SET DEFAULT" || c.Key.OnUpdate == "SET DEFAULT":
		c.Refused = "SET DEFAULT is not known"
	case c.Key.OnDelete == "SET NULL" && (len(t.Generated) > 0 || t.uniqueExpression()):
		c.Refused = "its table computes values from columns that become NULL"
	}
}

// entangled returns why the changes of a key depend on more than the rows that it refers to; empty if they do
// not.
func (t *Table) entangled(c *Cascade, tables []*Table) string {
	if !c.OnDelete() {
		return ""
	}
	for i := range t.Cascades {
		other := &t.Cascades[i]
		if other.Key.Name == c.Key.Name || !other.OnDelete() || c.Key.OnDelete == "CASCADE" && other.Key.OnDelete == "CASCADE" {
			continue
		}
		if shareColumn(c.Key.Columns, other.Key.Columns) {
			return "it shares a column with " + other.Key.Name
		}
	}
	for _, u := range tables {
		for i := range u.Cascades {
			next := &u.Cascades[i]
			if next.Parent != t {
				continue
			}
			if c.Key.OnDelete == "CASCADE" && next.OnDelete() {
				return fmt.Sprintf("a row that it deletes makes %s of %s change others", next.Key.Name, u.FullName())
			}
			if c.Key.OnDelete == "SET NULL" && next.OnUpdate() && shareColumn(c.Key.Columns, next.Key.Referred) {
				return fmt.Sprintf("a row that it changes makes %s of %s change others", next.Key.Name, u.FullName())
			}
		}
	}
	return ""
}

// shareColumn reports whether two lists have a column in common.
func shareColumn(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool {
		return slices.ContainsFunc(b, func(other string) bool { return strings.EqualFold(name, other) })
	})
}

// columnNumbers returns the indexes of columns; ok is false if one of them is not read.
func (t *Table) columnNumbers(names []string) (numbers []int, ok bool) {
	for _, name := range names {
		n := slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
		if n < 0 {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, len(numbers) > 0
}

// uniqueOver reports whether the table has a unique index over exactly these columns, in any order.
func (t *Table) uniqueOver(columns []string) bool {
	return slices.ContainsFunc(createtable.Keys(t.Create), func(k createtable.Key) bool {
		if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" || len(k.Parts) != len(columns) {
			return false
		}
		for _, name := range columns {
			if !slices.ContainsFunc(k.Parts, func(part string) bool {
				part = strings.TrimSuffix(strings.TrimSuffix(part, " ASC"), " DESC")
				return strings.EqualFold(part, session.Ident(name))
			}) {
				return false
			}
		}
		return true
	})
}

// uniqueExpression reports whether the table has a unique index over an expression.
func (t *Table) uniqueExpression() bool {
	return slices.ContainsFunc(createtable.Keys(t.Create), func(k createtable.Key) bool {
		return k.Kind == "UNIQUE KEY" && slices.ContainsFunc(k.Parts, func(part string) bool { return !strings.HasPrefix(part, "`") })
	})
}

// setNull returns an UPDATE, up to its condition, that sets the key's columns to NULL. It assigns ON UPDATE CURRENT_TIMESTAMP
// columns to themselves, because SET NULL of a foreign key does not change them.
func (c *Cascade) setNull(table string, t *Table) string {
	var set []string
	for _, name := range c.Key.Columns {
		set = append(set, session.Ident(name)+"=NULL")
	}
	for _, line := range sqldigest.Lines(t.Create, 0) {
		name, rest, ok := cutIdent(strings.TrimPrefix(line, "  "))
		if ok && strings.Contains(strings.ToUpper(rest), " ON UPDATE ") {
			set = append(set, session.Ident(name)+"="+session.Ident(name))
		}
	}
	return "UPDATE " + table + " SET " + strings.Join(set, ",") + " WHERE "
}

// NewCascadeSQL returns the RowSQL that applies the changes of t.Cascades[number] to the table named table, an SQL expression. Its
// DELETE statements delete the rows whose foreign key has the values of a given row or, with ON DELETE SET NULL, set that key to NULL.
func NewCascadeSQL(table string, t *Table, number int) (*RowSQL, error) {
	c := &t.Cascades[number]
	s, err := NewRowSQL(table, t.Columns, c.Columns)
	if err == nil && c.Key.OnDelete == "SET NULL" {
		s.deleteHead = c.setNull(table, t) + strings.TrimPrefix(s.deleteHead, "DELETE FROM "+table+" WHERE ")
	}
	return s, err
}
