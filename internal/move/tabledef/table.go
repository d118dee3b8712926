package tabledef

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Table describes one table of a run.
type Table struct {
	Spec            *Spec
	Source          *rowstream.Table
	Plan            *rowstream.Plan
	Target          Target
	State           *Recorded        // nil if nothing is recorded
	Create          string           // CREATE TABLE for the target; empty if the table exists
	DeferredIndexes []Index          // secondary indexes that are created after the rows
	Written         *rowstream.Table // the target's table, or the source's if the target is to be created

	Keys   []ForeignKey // of the target, created after the rows
	Counts bool         // both sides have the AUTO_INCREMENT column

	Bound RowBound // of the rows that this run copies

	// Used only while following.
	Events *rowstream.Plan // for rows in events, which SQL cannot filter
	Key    []int           // the source's key, as numbers of the target's columns
	Unique []uniqueKey     // of the target

	Redefined *Redefinition   // nil unless the copy follows
	Start     binlog.Position // of its changes; zero before its rows are read
}

// DescribeOptions are the uses of a table, each of which may be refused.
type DescribeOptions struct {
	Follow, Verify bool
	KeepIndexes    bool // secondary indexes are kept while rows are copied

	Triggers bool // the caller judges triggers of the target

	Dialect *dialect.Translator // of the source's definitions for the target; nil: they are left alone
}

// Describe reads a table on both sides. It returns an error if the table cannot be copied exactly. It changes
// nothing.
func Describe(ctx context.Context, from rowstream.Server, to *mysqlconn.Client, o DescribeOptions, spec *Spec) (*Table, error) {
	source, err := from.Describe(ctx, spec.Schema, spec.Name)
	if err != nil {
		return nil, err
	}
	return DescribeAs(ctx, source, to, o, spec)
}

// DescribeAs is Describe with the source's description of the table.
func DescribeAs(ctx context.Context, source *rowstream.Table, to *mysqlconn.Client, o DescribeOptions, spec *Spec) (t *Table, err error) {
	t = &Table{Spec: spec, Source: source, Target: Target{Spec: spec}}
	if err := Suitable(source); err != nil {
		return nil, err
	}
	if t.Plan, t.Target.Columns, err = spec.plan(source); err != nil {
		return nil, err
	}
	if o.Verify {
		if err := t.Comparable(); err != nil {
			return nil, err
		}
	}
	there, err := rowstream.ReadTable(ctx, to, spec.ToSchema, spec.ToName)
	switch {
	case errors.Is(err, rowstream.ErrNoTable):
		if len(spec.Columns) > 0 || spec.Mapping != nil {
			return nil, fmt.Errorf("the target has no table %s: create it first, since it gets only some columns or other names", spec.Target())
		}
		there, err = t.createAs(o, to.ServerVersion)
	case err == nil:
		err = t.accept(there, o)
	}
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", spec.Source(), err)
	}
	t.Written, t.Target.Typed = there, t.typed(there)
	if o.Follow {
		if err := t.followable(there); err != nil {
			return nil, err
		}
	}
	if spec.Owner != nil {
		if err := t.own(there); err != nil {
			return nil, err
		}
	}
	if !o.KeepIndexes {
		t.DeferredIndexes = SecondaryIndexes(there)
	}
	t.Counts = t.counted(there)
	return t, nil
}

// Suitable returns an error for tables whose rows could not be copied exactly.
func Suitable(t *rowstream.Table) error {
	for _, k := range createtable.Keys(t.Create) {
		if k.WithoutOverlaps() {
			return fmt.Errorf("copy %s: its key %s is WITHOUT OVERLAPS, and MariaDB executes no REPLACE on such tables, by which rows are written", t.FullName(), k.Name)
		}
	}
	switch {
	case t.Engine != "InnoDB":
		return fmt.Errorf("table %s uses %s, which has no consistent snapshot: "+
			"ALTER TABLE %s ENGINE=InnoDB, or dump it while clients do not write", t.FullName(), t.Engine, t.SQLName())
	case len(t.Key) == 0:
		return fmt.Errorf("table %s has no primary key, nor a unique one over whole columns that are never NULL (ENUM, SET, JSON and CHAR with a NOPAD collation do not count, "+
			"nor do INVISIBLE and IGNORED keys): a copy of it cannot resume; add a key", t.FullName())
	}
	return nil
}

// createAs sets the statement that creates the table in the target, and returns the table's description there.
func (t *Table) createAs(o DescribeOptions, version string) (*rowstream.Table, error) {
	there, err := translated(t.Source, o.Dialect)
	if err != nil {
		return nil, err
	}
	if d := differences(t.expected(there, o), there); len(d) > 0 {
		return nil, fmt.Errorf("it cannot be created in the target:\n  %s\nchange the collation on the source, or copy without option follow and option verify", strings.Join(d, "\n  "))
	}
	_, without, err := rowstream.CreateForeignKeys(there.Create)
	if err == nil {
		t.Create, err = createIn(without, t.Spec.TargetSQL(), version)
	}
	if err == nil {
		err = checkCreate(t.Create, t.Source.Engine, version)
	}
	return there, err
}

// accept returns an error if a table in the target cannot store the rows.
func (t *Table) accept(there *rowstream.Table, o DescribeOptions) error {
	source := *t.expected(there, o)
	if len(t.Spec.Columns) > 0 { // compare only the copied columns
		source.Columns, source.Key, source.Generated = t.Target.Columns, nil, nil
		wanted := make(map[string]bool)
		for i := range source.Columns {
			wanted[strings.ToLower(source.Columns[i].Name)] = true
		}
		narrowed := *there
		narrowed.Columns, narrowed.Key, narrowed.Generated = nil, nil, nil
		for _, c := range there.Columns {
			if wanted[strings.ToLower(c.Name)] {
				narrowed.Columns = append(narrowed.Columns, c)
			}
		}
		there = &narrowed
	}
	if t.Spec.Mapping != nil {
		if err := t.Spec.Mapping.accept(there); err != nil {
			return err
		}
	} else if d := differences(&source, there); len(d) > 0 {
		return &DiffersError{fmt.Errorf("the target's %s differs:\n  %s", t.Spec.Target(), strings.Join(d, "\n  ")), there}
	}
	if len(there.Triggers) > 0 && !o.Triggers {
		return t.TriggersRefused(there)
	}
	if there.Engine != "" && there.Engine != "InnoDB" {
		return fmt.Errorf("the target's %s uses %s: without transactions a copy cannot resume after a crash; ALTER TABLE … ENGINE=InnoDB", t.Spec.Target(), there.Engine)
	}
	return nil
}

// TriggersRefused returns the error for a table of the target that has triggers and is written to.
func (t *Table) TriggersRefused(there *rowstream.Table) error {
	return fmt.Errorf("the target's %s has triggers (%s), which would change rows as they are written: drop them and create them again afterwards",
		t.Spec.Target(), strings.Join(there.Triggers, ", "))
}

// A DiffersError lists the differences between a table in the target and the source's.
type DiffersError struct {
	error
	Target *rowstream.Table
}

// Comparable returns an error if ranges of the table's key cannot be selected in the target.
func (t *Table) Comparable() error {
	if t.Spec.Lookup != nil && t.StoresGenerated() {
		return fmt.Errorf("verify table %s: it has stored generated columns, which servers alone can compare, and a lookup table selects its rows: leave option verify out", t.Spec.Source())
	}
	if t.Plan == nil || t.Plan.Output == nil {
		return nil
	}
	for _, k := range t.Source.Key {
		if !slices.ContainsFunc(t.Plan.Output, func(o rowstream.Output) bool { return o.Column == k && o.From == rowstream.ColumnValue }) {
			return fmt.Errorf("verify table %s: the column %s of its key is not among option columns, so ranges of the key cannot be compared: add it, or leave option verify out", t.Spec.Source(), t.Source.Columns[k].Name)
		}
	}
	return nil
}

// ColumnNumber returns the number of a column by its name, without regard to case; -1: there is none.
func ColumnNumber(t *rowstream.Table, name string) int {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return i
		}
	}
	return -1
}

// counted reports whether the table's AUTO_INCREMENT column is copied to one of the target.
func (t *Table) counted(there *rowstream.Table) bool {
	for i := range t.Target.Columns {
		from := i
		if t.Plan != nil && t.Plan.Output != nil {
			if t.Plan.Output[i].From != rowstream.ColumnValue {
				continue
			}
			from = t.Plan.Output[i].Column
		}
		n := ColumnNumber(there, t.Target.Columns[i].Name)
		if t.Source.Columns[from].Auto && n >= 0 && there.Columns[n].Auto {
			return true
		}
	}
	return false
}

// StoresGenerated reports whether the source has stored generated columns that are compared.
func (t *Table) StoresGenerated() bool {
	return len(t.Spec.Columns) == 0 && t.Spec.Mapping == nil && slices.ContainsFunc(t.Source.Generated, func(g rowstream.Column) bool { return g.Stored })
}

// Past reports whether the table is described by an earlier definition.
func (t *Table) Past() bool { return t.Redefined != nil && t.Redefined.Past }

// CopiedAt returns the position of the table's first snapshot.
func (t *Table) CopiedAt() (binlog.Position, error) {
	p, err := binlog.ParsePosition(t.State.Position)
	if err == nil && p.IsZero() {
		err = errors.New("the source reported no position of its binary log when the rows were read: turn on log_bin, and copy again with option follow and option restart")
	}
	if err != nil {
		return p, fmt.Errorf("follow the changes of %s: %w", t.Spec.Source(), err)
	}
	return p, nil
}

// A Target is one table that rows are written to.
type Target struct {
	Spec    *Spec
	Columns []rowstream.Column
	Owned   *Owned // nil unless several sources have rows of it
	Typed   *Typed // nil unless documents are written by the server
}

// CascadeSQL returns the statements of the actions of the table's foreign keys, by the number of the Cascade;
// nil for keys that are not derived.
func (t *Table) CascadeSQL() (all []*rowstream.RowSQL, err error) {
	for i := range t.Source.Cascades {
		if c := &t.Source.Cascades[i]; c.Refused != "" || !c.OnDelete() {
			continue
		}
		if all == nil {
			all = make([]*rowstream.RowSQL, len(t.Source.Cascades))
		}
		if all[i], err = rowstream.NewCascadeSQL(t.Spec.TargetSQL(), t.Source, i); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Spec.Target(), err)
		}
	}
	return all, nil
}
