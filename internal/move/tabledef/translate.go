package tabledef

import (
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/mysql/rowstream"
)

// A table that is created on a server of another vendor gets the counterparts of its collations (package dialect), which compare the
// same texts as equal, save for characters that are younger than the Unicode of one of them. Two rows that only the target holds for equal are
// found as they are written: LOAD DATA counts the rows that it replaces. While changes are followed such counts are expected, and
// a verification needs ranges of the key to be the same on both sides. There, columns of unique keys and those of the key must have the same
// collation.

// translated returns the table as a target of another vendor describes it.
func translated(source *rowstream.Table, d *dialect.Translator) (*rowstream.Table, error) {
	create, err := d.Table(source.Create)
	if err != nil {
		return nil, err
	}
	there := *source
	there.Create = create
	there.Columns, there.Generated = slices.Clone(source.Columns), slices.Clone(source.Generated)
	for _, columns := range [][]rowstream.Column{there.Columns, there.Generated} {
		for i := range columns {
			if columns[i].Collation, err = d.Collation(columns[i].Collation); err != nil {
				return nil, err
			}
		}
	}
	return &there, nil
}

// expected returns the source's description with the collations that a table of the target may have in place of its own.
func (t *Table) expected(there *rowstream.Table, o DescribeOptions) *rowstream.Table {
	if o.Dialect == nil || o.Follow {
		return t.Source
	}
	source := *t.Source
	source.Columns, source.Generated = slices.Clone(source.Columns), slices.Clone(source.Generated)
	for n, columns := range [][]rowstream.Column{source.Columns, source.Generated} {
		others := [][]rowstream.Column{there.Columns, there.Generated}[n]
		for i := range columns {
			if o.Verify && n == 0 && slices.Contains(source.Key, i) {
				continue
			}
			c := &columns[i]
			other, err := o.Dialect.Collation(c.Collation)
			if err != nil {
				continue // differences names it
			}
			if slices.ContainsFunc(others, func(h rowstream.Column) bool { return strings.EqualFold(h.Name, c.Name) && h.Collation == other }) {
				c.Collation = other
			}
		}
	}
	return &source
}
