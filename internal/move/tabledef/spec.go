package tabledef

import (
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Spec selects rows and columns of a table and names their target.
type Spec struct {
	Schema, Name string

	// ToSchema and ToName are the target; empty ones stand for the source's.
	ToSchema, ToName string

	// Where is a condition in the source's SQL; empty: all rows.
	Where string

	// Shard selects one share of the rows by ShardColumn, unless its Count is 0.
	Shard       rowstream.Shard
	ShardColumn string

	// Lookup, unless nil, selects the rows that a table of the source assigns to one shard.
	Lookup *Lookup

	// Columns are the columns to copy, in any order, under the same or other names; empty: all, under their
	// names.
	Columns []ColumnSpec

	// Mapping, unless nil, is of a target with another definition in the same server.
	Mapping *Mapping

	// Owner, unless nil, is of a target table that has rows of several sources.
	Owner *Owner
}

// A ColumnSpec is a column and its name in the target.
type ColumnSpec struct{ From, To string }

// Defaults sets missing names of the target to those of the source.
func (s *Spec) Defaults() {
	if s.ToSchema == "" {
		s.ToSchema = s.Schema
	}
	if s.ToName == "" {
		s.ToName = s.Name
	}
}

// Source returns the name of the source table for messages.
func (s *Spec) Source() string { return s.Schema + "." + s.Name }

// Target returns the name of the target table for messages.
func (s *Spec) Target() string { return s.ToSchema + "." + s.ToName }

// TargetSQL returns the target's name, quoted for statements.
func (s *Spec) TargetSQL() string {
	return session.Ident(s.ToSchema) + "." + session.Ident(s.ToName)
}

// Text describes the selection of rows and columns. It is stored in the state, so that a run resumes only
// with the same selection.
func (s *Spec) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s", s.Source())
	if s.Where != "" {
		fmt.Fprintf(&b, "; where %s", s.Where)
	}
	if s.Shard.Count != 0 {
		fmt.Fprintf(&b, "; shard %s=%s", s.ShardColumn, s.Shard)
	}
	if l := s.Lookup; l != nil {
		fmt.Fprintf(&b, "; lookup %s in %s.%s=%d/%d", l.Column, l.Schema, l.Table, l.Number+1, l.Count)
	}
	if o := s.Owner; o != nil {
		fmt.Fprintf(&b, "; from source %d of %d by %s", o.Source+1, len(o.Sources), o.clause)
	}
	if s.Mapping != nil {
		b.WriteString("; altered by " + s.Mapping.Text)
	}
	for i, c := range s.Columns {
		b.WriteString([]string{"; columns ", ", "}[min(i, 1)])
		b.WriteString(c.From)
		if c.To != c.From {
			b.WriteString(" as " + c.To)
		}
	}
	return b.String()
}

// plan returns the filter and projection for rows of t, nil if rows are copied unchanged, and the target's
// columns, with the source's descriptions and the target's names.
func (s *Spec) plan(t *rowstream.Table) (*rowstream.Plan, []rowstream.Column, error) {
	if s.Mapping != nil {
		return s.Mapping.plan(t)
	}
	number := func(name string) (int, error) {
		for i := range t.Columns {
			if strings.EqualFold(t.Columns[i].Name, name) {
				return i, nil
			}
		}
		return 0, fmt.Errorf("table %s has no column %s", t.FullName(), name)
	}
	p := &rowstream.Plan{}
	if s.Shard.Count != 0 {
		i, err := number(s.ShardColumn)
		if err != nil {
			return nil, nil, err
		}
		p.Where = append(p.Where, rowstream.Condition{Column: i, Shard: s.Shard})
	}
	if s.Lookup != nil {
		i, err := number(s.Lookup.Column)
		if err == nil {
			err = s.Lookup.matches(&t.Columns[i])
		}
		if err != nil {
			return nil, nil, err
		}
		p.Where = append(p.Where, rowstream.Condition{Column: i, Lookup: s.Lookup.values, Number: s.Lookup.Number})
	}
	columns := t.Columns
	if len(s.Columns) > 0 {
		columns = nil
		for _, c := range s.Columns {
			i, err := number(c.From)
			if err != nil {
				return nil, nil, err
			}
			p.Output = append(p.Output, rowstream.Output{Column: i})
			col := t.Columns[i]
			col.Name = c.To
			columns = append(columns, col)
		}
	}
	if p.Where == nil && p.Output == nil {
		return nil, columns, nil
	}
	return p, columns, nil
}

// RowPlan returns the filter that selects the rows of t, nil if all of them or an SQL condition does. A spec that selects columns is an error.
func (s *Spec) RowPlan(t *rowstream.Table) (*rowstream.Plan, error) {
	if len(s.Columns) > 0 {
		return nil, fmt.Errorf("table %s: only some of its columns are selected", s.Source())
	}
	p, _, err := s.plan(t)
	return p, err
}

// ParseTables parses "db.t1,db.t2=other.t3": tables, and their targets if they have other names.
func ParseTables(list string) ([]Spec, error) {
	var specs []Spec
	seen := make(map[string]bool)
	for text := range strings.SplitSeq(list, ",") {
		from, to, renamed := strings.Cut(strings.TrimSpace(text), "=")
		var s Spec
		var err error
		if s.Schema, s.Name, err = rowstream.ParseTable(from); err != nil {
			return nil, err
		}
		if renamed {
			if s.ToSchema, s.ToName, err = rowstream.ParseTable(to); err != nil {
				return nil, err
			}
		}
		if seen[from] {
			return nil, fmt.Errorf("table %s is named twice", from)
		}
		seen[from] = true
		specs = append(specs, s)
	}
	return specs, nil
}

// splitClause splits "db.t1: text" and returns the spec of the table.
func splitClause(specs []Spec, clause string) (*Spec, string, error) {
	table, text, ok := strings.Cut(clause, ":")
	table, text = strings.TrimSpace(table), strings.TrimSpace(text)
	if !ok || text == "" {
		return nil, "", fmt.Errorf("%q is not of the form schema.table: …", clause)
	}
	for i := range specs {
		if specs[i].Source() == table {
			return &specs[i], text, nil
		}
	}
	return nil, "", fmt.Errorf("%q is about table %s, which is not copied", clause, table)
}

// AddWhere adds a condition such as "db.t1: a > 5" to the spec of its table.
func AddWhere(specs []Spec, clause string) error {
	s, text, err := splitClause(specs, clause)
	if err != nil {
		return err
	}
	if !balanced(text) {
		return fmt.Errorf("condition %q has a parenthesis that is not opened or not closed", text)
	}
	if s.Where != "" {
		text = "(" + s.Where + ") AND (" + text + ")"
	}
	s.Where = text
	return nil
}

// balanced reports whether a condition stays within the parentheses that statements put around it.
func balanced(condition string) bool {
	var l sqldigest.Lexer
	l.Reset([]byte(condition), 0)
	depth := 0
	for t := l.Next(); t.Kind != sqldigest.KindEOF && depth >= 0; t = l.Next() {
		switch condition[t.Start:t.End] {
		case "(":
			depth++
		case ")":
			depth--
		}
	}
	return depth == 0
}

// AddShard adds a shard such as "db.t1: id=1/4" to the spec of its table.
func AddShard(specs []Spec, clause string) error {
	s, text, err := splitClause(specs, clause)
	if err != nil {
		return err
	}
	column, shard, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return fmt.Errorf("shard %q is not of the form column=i/n", text)
	case s.ShardColumn != "":
		return fmt.Errorf("%s has a shard already, by %s: rows are of one shard", s.Source(), s.ShardColumn)
	}
	s.ShardColumn = strings.TrimSpace(column)
	s.Shard, err = rowstream.ParseShard(strings.TrimSpace(shard))
	return err
}

// AddColumns adds columns such as "db.t1: id, name as title" to the spec of their table.
func AddColumns(specs []Spec, clause string) error {
	s, text, err := splitClause(specs, clause)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		switch {
		case len(words) == 1:
			s.Columns = append(s.Columns, ColumnSpec{words[0], words[0]})
		case len(words) == 3 && strings.EqualFold(words[1], "as"):
			s.Columns = append(s.Columns, ColumnSpec{words[0], words[2]})
		default:
			return fmt.Errorf("column %q is neither a name nor of the form name as other", strings.TrimSpace(part))
		}
	}
	return nil
}
