package tabledef

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Tables of several sources are merged into one by the clause that would split it over them (AddSplit): it gives each row to
// exactly one source. A copy of one source
//
//   - checks each row that it reads, and each new image of a change, against the clause: a row that the clause gives to
//     another source ends the copy;
//   - deletes only rows that the clause gives to its source;
//   - replaces no row of another source. If each unique key has the clause's column, equal keys have the same owner, and
//     REPLACE replaces only rows of the same source. Otherwise it deletes the rows of the same source that have a key of the
//     new row, which REPLACE would do, and INSERTs: a row of another source with such a key is a duplicate, which
//     ends the copy.
//
// So the rows in the target that the clause gives to a source depend on this source alone.

// An Owner specifies which rows of a target table come from the source of a Spec.
type Owner struct {
	Column  string   // of the clause
	Source  int      // the number of this source, from 0
	Sources []string // addresses, for messages

	clause string   // in one form, which the state records
	wheres []string // conditions of ranges, by source; nil: rows are owned by the hash of the column
}

// AddMerge adds the owner of a table's rows to its specs, one per source, by a clause with hash or range as that of AddSplit. names are the addresses of
// the sources.
func AddMerge(sources [][]Spec, names []string, clause string) error {
	split := make([][]Spec, len(sources))
	for i := range split {
		split[i] = slices.Clone(sources[i])
	}
	if err := AddSplit(split, clause); err != nil {
		return err
	}
	for i := range sources {
		own, text, err := splitClause(sources[i], clause)
		if err != nil {
			return err
		}
		m := splitForm.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("%q does not define which rows a source has; copy a table that is the same on all sources from one of them, with a separate command", clause)
		}
		if strings.EqualFold(m[1], "lookup") {
			return fmt.Errorf("%q: lookup divides the rows of one source, where the lookup table is; several sources could disagree about it: use hash or range", clause)
		}
		if own.Where != "" || own.Shard.Count != 0 || len(own.Columns) > 0 {
			return fmt.Errorf("%q: a table that is merged is copied whole, without a selection of rows or columns", clause)
		}
		words := strings.Split(m[2], ",")
		for j := range words {
			words[j] = strings.Trim(strings.TrimSpace(words[j]), "`")
		}
		o := &Owner{Column: words[0], Source: i, Sources: names, clause: strings.ToLower(m[1]) + "(" + strings.Join(words, ", ") + ")"}
		for j := range split {
			if part, _, _ := splitClause(split[j], clause); part.Where != "" {
				o.wheres = append(o.wheres, part.Where)
			}
		}
		own.Owner = o
	}
	return nil
}

// name returns the name of a source for messages.
func (o *Owner) name(source int) string {
	return fmt.Sprintf("source %d (%s)", source+1, o.Sources[source])
}

// StateName returns the name under which the state records the target table. The copies of several sources of one table have separate
// records, whose names end in a space as names of tables cannot.
func (s *Spec) StateName() string {
	if s.Owner == nil {
		return s.ToName
	}
	return fmt.Sprintf("%s%d ", SourcesOf(s.ToName), s.Owner.Source+1)
}

// SourcesOf returns the beginning of StateName of all sources of a table.
func SourcesOf(table string) string { return table + " from source " }

// StateTarget is Target with the name under which the state records the table.
func (s *Spec) StateTarget() string { return s.ToSchema + "." + s.StateName() }

// An Owned has the rows of a target table that come from one source, if several sources have rows of it.
type Owned struct {
	*Owner

	// Inserts reports that some unique key lacks the clause's column: rows of other sources may have the same key, and rows are added by INSERT.
	Inserts bool

	// Keys have a guarded DELETE for each unique key, and the guarded INSERT of rows. Empty unless Inserts is set.
	Keys []*rowstream.RowSQL

	filters    []*rowstream.Filter // of the rows of each source
	conditions []string            // likewise, in the target's SQL
	columns    []rowstream.Column  // of rows
	key        []int               // columns that identify a row in messages
}

// own sets the rows that come from the source. there is the target's table.
func (t *Table) own(there *rowstream.Table) error {
	o := &Owned{Owner: t.Spec.Owner, columns: t.Target.Columns, key: t.Key}
	n := ColumnNumber(t.Source, o.Column)
	if n < 0 {
		return fmt.Errorf("table %s has no stored column %s, by which its rows are merged", t.Source.FullName(), o.Column)
	}
	c := &t.Source.Columns[n]
	if !c.Exact() && c.Charset == "" {
		return fmt.Errorf("merge %s by the column %s: it is %s, of which equal values may differ in their bytes; use another column", t.Source.FullName(), o.Column, c.FullType)
	}
	for _, side := range [...]struct{ name, create string }{{"source", t.Source.Create}, {"target", there.Create}} {
		keys, _, err := rowstream.CreateForeignKeys(side.create)
		if err == nil && len(keys) > 0 {
			err = fmt.Errorf("it has foreign keys in the %s, and the rows that it refers to may come from another source: drop them, and create them in the target after the merge", side.name)
		}
		if err != nil {
			return fmt.Errorf("merge %s: %w", t.Source.FullName(), err)
		}
	}
	for i := range o.Sources {
		plan, condition := &rowstream.Plan{}, ""
		if o.wheres == nil {
			shard := rowstream.Shard{Index: i + 1, Count: len(o.Sources)}
			plan.Where = []rowstream.Condition{{Column: n, Shard: shard}}
			condition = shard.Condition(&there.Columns[ColumnNumber(there, o.Column)])
		} else {
			match, err := predicate(t.Source, o.wheres[i])
			if err != nil {
				return err
			}
			plan.Match, condition = match, o.wheres[i]
		}
		filter, err := rowstream.NewFilter(plan, len(t.Source.Columns))
		if err != nil {
			return fmt.Errorf("merge %s by %s: %w", t.Source.FullName(), o.clause, err)
		}
		o.filters, o.conditions = append(o.filters, filter), append(o.conditions, condition)
	}
	t.Target.Owned = o
	return t.findShared(o, c)
}

// findShared finds out whether rows of two sources may have the same value of a unique key.
func (t *Table) findShared(o *Owned, c *rowstream.Column) error {
	separate := func(u uniqueKey) bool { // rows with equal keys have the same bytes in the clause's column
		return c.Exact() && slices.ContainsFunc(u, func(p keyPart) bool { return strings.EqualFold(p.column, o.Column) && p.rest == "" })
	}
	at := slices.IndexFunc(t.Unique, func(u uniqueKey) bool { return !separate(u) })
	if at < 0 {
		return nil
	}
	o.Inserts = true
	for _, u := range t.Unique {
		var key []int
		for _, p := range u {
			n := slices.IndexFunc(t.Target.Columns, func(c rowstream.Column) bool { return strings.EqualFold(c.Name, p.column) })
			if n < 0 || p.rest != "" {
				return fmt.Errorf("merge %s by %s: the unique key %v does not have the column, so rows of two sources may have the same value of a unique key; "+
					"that can be checked only if all unique keys are over whole stored columns, and %v is not", t.Source.FullName(), o.clause, t.Unique[at], u)
			}
			key = append(key, n)
		}
		sql, err := rowstream.NewRowSQL(t.Spec.TargetSQL(), t.Target.Columns, key)
		if err != nil {
			return fmt.Errorf("merge %s by %s: the unique key %v does not have the column, and %w", t.Source.FullName(), o.clause, t.Unique[at], err)
		}
		o.Keys = append(o.Keys, o.Guard(sql))
	}
	return nil
}

// Condition returns the SQL condition that a row of the target comes from the source.
func (o *Owned) Condition() string { return o.conditions[o.Source] }

// Guard returns s for the rows of the source.
func (o *Owned) Guard(s *rowstream.RowSQL) *rowstream.RowSQL {
	return s.Guarded(o.Condition(), o.Inserts)
}

// Check returns an error for a row that comes from the source, but that the clause gives to another one. It does not allocate otherwise.
func (o *Owned) Check(row mysqlwire.TextRow) error {
	if _, ok := o.filters[o.Source].Apply(row); ok {
		return nil
	}
	var key []string
	for _, k := range o.key {
		key = append(key, o.columns[k].Name+" = "+shown(row[k]))
	}
	text := fmt.Sprintf("%s has a row with %s, and by %q it belongs to ", o.name(o.Source), strings.Join(key, ", "), o.clause)
	for i, f := range o.filters {
		if _, ok := f.Apply(row); ok {
			return fmt.Errorf("%s%s: change the row there, give another clause, or give the sources in another order, and use option restart", text, o.name(i))
		}
	}
	return errors.New(text + "none")
}

// CheckBatch calls Check for all rows of a batch.
func (o *Owned) CheckBatch(b *rowstream.Batch) error {
	var row mysqlwire.TextRow
	for at := 0; at < len(b.Bytes); {
		next, err := b.Row(at, &row)
		if err == nil {
			err = o.Check(row)
		}
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// shown returns a value of a key for messages.
func shown(v []byte) string {
	const longest = 64
	switch {
	case v == nil:
		return "NULL"
	case len(v) > longest || !utf8.Valid(v):
		return fmt.Sprintf("0x%x…", v[:min(len(v), longest/2)])
	}
	return fmt.Sprintf("%q", v)
}

// OtherOwner returns the query for the number of the source, from 1, of a row that has one of the keys of a guarded DELETE statement and comes from
// another source.
func (o *Owned) OtherOwner(statement string) string {
	rest := strings.TrimPrefix(statement, "DELETE")
	rest = strings.TrimSuffix(rest, " AND ("+o.Condition()+")")
	var cases strings.Builder
	for i, c := range o.conditions {
		fmt.Fprintf(&cases, " WHEN %s THEN %d", c, i+1)
	}
	return "SELECT CASE" + cases.String() + " ELSE 0 END" + rest + " AND (" + o.Condition() + ") IS NOT TRUE LIMIT 1"
}

// A ConflictError means that rows of two sources have the same value of a unique key.
type ConflictError struct {
	Table  string // in the target
	Source string // of the row that cannot be written
	Other  string // of the row that is in the target; empty: unknown
	Server error  // which names the key and its value
}

// Error implements error.
func (e *ConflictError) Error() string {
	other := "another source"
	if e.Other != "" {
		other = e.Other
	}
	return fmt.Sprintf("a row of %s has the same value of a unique key of %s as one of %s, which is in the target: %v; "+
		"change or delete one of the two rows on its source, and run the same command again: it resumes from here", e.Source, e.Table, other, e.Server)
}

// Unwrap returns the server's error.
func (e *ConflictError) Unwrap() error { return e.Server }

// Conflict returns the error for a row that cannot be written. other is the number of the source of the other row, from 1; 0: it is unknown.
func (o *Owned) Conflict(table string, server error, other int) error {
	e := &ConflictError{Table: table, Source: o.name(o.Source), Server: server}
	if other > 0 && other <= len(o.Sources) {
		e.Other = o.name(other - 1)
	}
	return e
}

// MergeDifferences returns the differences between the definitions of a table on two sources that are merged.
func MergeDifferences(first, other *rowstream.Table) []string {
	all := DifferencesBetween("there", "here", first, other)
	for _, side := range [...]struct {
		name string
		a, b *rowstream.Table
	}{{"here", first, other}, {"there", other, first}} {
		have := uniqueKeys(side.b.Create)
		for _, u := range uniqueKeys(side.a.Create) {
			if !slices.ContainsFunc(have, u.equal) {
				all = append(all, fmt.Sprintf("the unique key %v is missing %s", u, side.name))
			}
		}
		indexes := SecondaryIndexes(side.b)
		for _, x := range SecondaryIndexes(side.a) {
			if !slices.Contains(indexes, x) {
				all = append(all, fmt.Sprintf("the index %s is missing %s", x, side.name))
			}
		}
	}
	return all
}
