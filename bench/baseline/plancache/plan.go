package plancache

import (
	"fmt"
	"strings"
	"unsafe"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/sizegen/heapsize"
)

// A Table is a table in a statement.
type Table struct{ Schema, Name string }

// A Plan is the cached data of a statement.
type Plan struct {
	Type    string
	Tables  []*Table
	Columns []string
	Rows    []string // of an INSERT
}

// newPlan parses a statement. The names are substrings of the text, as the parser returns them.
func newPlan(parser *sqlparser.Parser, sql string, detach bool) (*Plan, error) {
	stmt, err := parser.Parse(sql)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	name := func(s string) string { return s }
	if detach {
		name = strings.Clone
	}
	p := &Plan{Type: sqlparser.ASTToStatementType(stmt).String()}
	err = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
		switch n := node.(type) {
		case sqlparser.TableName:
			if !n.IsEmpty() {
				p.Tables = append(p.Tables, &Table{name(n.Qualifier.String()), name(n.Name.String())})
			}
			return false, nil
		case *sqlparser.ColName:
			p.Columns = append(p.Columns, name(n.Name.String()))
			return false, nil
		case *sqlparser.Insert:
			for _, c := range n.Columns {
				p.Columns = append(p.Columns, name(c.String()))
			}
			if rows, ok := n.Rows.(sqlparser.Values); ok {
				for _, row := range rows {
					p.Rows = append(p.Rows, sqlparser.String(row))
				}
			}
			return true, nil
		case sqlparser.Values:
			return false, nil
		}
		return true, nil
	}, stmt)
	if err != nil {
		return nil, fmt.Errorf("walk: %w", err)
	}
	return p, nil
}

// CachedSize returns the size of the plan by its types or, with classes, as the allocator accounts for it.
func (p *Plan) CachedSize(classes bool) int64 {
	size := func(n uintptr, _ bool) uintptr { return n }
	if classes {
		size = heapsize.Object
	}
	text := func(s string) uintptr { return size(uintptr(len(s)), false) }
	n := size(unsafe.Sizeof(*p), true)
	n += size(uintptr(cap(p.Tables))*unsafe.Sizeof((*Table)(nil)), true)
	for _, t := range p.Tables {
		n += size(unsafe.Sizeof(*t), true) + text(t.Schema) + text(t.Name)
	}
	n += size(uintptr(cap(p.Columns))*unsafe.Sizeof(""), true)
	for _, c := range p.Columns {
		n += text(c)
	}
	n += size(uintptr(cap(p.Rows))*unsafe.Sizeof(""), true)
	for _, r := range p.Rows {
		n += text(r)
	}
	return int64(n)
}
