package tabledef

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Mapping is where the values of a target's columns come from, for a table of the same server that has another definition. The
// target has unique keys of the source alone, with the key by which the source's rows are ordered.
type Mapping struct {
	Text    string // the difference between the definitions, for people and the state
	Columns []MappedColumn
}

// A MappedColumn is a column of the target.
type MappedColumn struct {
	Column rowstream.Column // as the target has it

	From       string // column of the source; empty: all rows have Fixed
	Fixed      []byte // in the form of Column.ReadExpr; nil is NULL
	Conversion rowstream.Conversion
}

// plan returns the projection of rows to the mapping, and the columns that are written.
func (m *Mapping) plan(t *rowstream.Table) (*rowstream.Plan, []rowstream.Column, error) {
	p := &rowstream.Plan{}
	var columns []rowstream.Column
	for i := range m.Columns {
		c := &m.Columns[i]
		if c.From == "" {
			p.Output = append(p.Output, rowstream.Output{From: rowstream.FixedValue, Value: c.Fixed})
			columns = append(columns, c.Column)
			continue
		}
		n := ColumnNumber(t, c.From)
		if n < 0 {
			return nil, nil, fmt.Errorf("table %s has no column %s", t.FullName(), c.From)
		}
		p.Output = append(p.Output, rowstream.Output{Column: n})
		column := t.Columns[n]
		column.Name, column.Auto, column.Write, column.Zero = c.Column.Name, c.Column.Auto, c.Conversion.Write, c.Conversion.Zero
		columns = append(columns, column)
	}
	return p, columns, nil
}

// accept returns an error for a target of another definition than the mapping is of.
func (m *Mapping) accept(there *rowstream.Table) error {
	columns := make([]rowstream.Column, len(m.Columns))
	for i := range m.Columns {
		columns[i] = m.Columns[i].Column
	}
	if !slices.Equal(columns, there.Columns) {
		return fmt.Errorf("the definition of %s has changed since it was created", there.FullName())
	}
	return nil
}

// Sums returns the expressions by which a column of the target is compared with the source; empty: by the values as they are.
func (c *MappedColumn) Sums() (from, to string) {
	if c.From != "" {
		return c.Conversion.From, c.Conversion.To
	}
	if c.Fixed == nil {
		return "NULL", c.Column.ReadExpr()
	}
	return session.Literal(string(c.Fixed)), c.Column.ReadExpr()
}

// ComparesGenerated reports whether generated columns are compared, of the two descriptions: those of the same definition are.
func (t *Table) ComparesGenerated(source, target *rowstream.Column) bool {
	if t.Spec.Mapping == nil {
		return len(t.Spec.Columns) == 0
	}
	return strings.EqualFold(source.Name, target.Name) && source.Expression == target.Expression && sameType(source, target) &&
		source.Charset == target.Charset && source.Nullable == target.Nullable
}
