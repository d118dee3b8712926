package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A table is what a run knows of one of its tables.
type table struct {
	spec   *TableSpec
	source *rowstream.Table
	plan   *rowstream.Plan
	target target
	state  *tableState      // nil when nothing is known yet
	create string           // CREATE TABLE for the target; empty when the table is there
	later  []index          // secondary indexes that are built after the rows
	there  *rowstream.Table // the target's table, or the source's where it is to be created

	keys   []foreignKey // of the target, created after the rows
	counts bool         // both sides have the AUTO_INCREMENT column

	bound rowBound // of the rows that this run copies

	// For following alone.
	events *rowstream.Plan // for rows in events, which no SQL can filter
	key    []int           // the source's key, as numbers of the target's columns
	unique []uniqueKey     // of the target

	redefined *redefinition   // nil unless the copy follows
	start     binlog.Position // of its changes; zero before its rows are read
}

// describe reads a table at both sides and refuses what cannot be copied well, before any
// row moves. It changes nothing.
func describe(ctx context.Context, from rowstream.Server, to *mysqlconn.Client, o *Options, spec *TableSpec) (*table, error) {
	source, err := from.Describe(ctx, spec.Schema, spec.Name)
	if err != nil {
		return nil, err
	}
	return describeAs(ctx, source, to, o, spec)
}

// describeAs is describe with what the source says of the table.
func describeAs(ctx context.Context, source *rowstream.Table, to *mysqlconn.Client, o *Options, spec *TableSpec) (t *table, err error) {
	t = &table{spec: spec, source: source, target: target{spec: spec}}
	if err := suitable(source); err != nil {
		return nil, err
	}
	if t.plan, t.target.columns, err = spec.plan(source); err != nil {
		return nil, err
	}
	if o.Verify {
		if err := t.comparable(); err != nil {
			return nil, err
		}
	}
	there, err := rowstream.ReadTable(ctx, to, spec.ToSchema, spec.ToName)
	switch {
	case errors.Is(err, rowstream.ErrNoTable):
		if len(spec.Columns) > 0 {
			return nil, fmt.Errorf("the target has no table %s: create it first, since it gets only some columns or other names", spec.target())
		}
		var without string
		if _, without, err = rowstream.CreateForeignKeys(source.Create); err == nil {
			t.create, err = createIn(without, spec.targetSQL(), to.ServerVersion)
		}
		there = source
	case err == nil:
		err = t.accept(there)
	}
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", spec.source(), err)
	}
	t.there = there
	if o.Follow {
		if err := t.followable(there); err != nil {
			return nil, err
		}
	}
	if !o.KeepIndexes {
		t.later = secondaryIndexes(there)
	}
	t.counts = t.counted(there)
	return t, nil
}

// suitable refuses tables whose rows could not be copied exactly.
func suitable(t *rowstream.Table) error {
	for _, k := range rowstream.CreateKeys(t.Create) {
		if k.WithoutOverlaps() {
			return fmt.Errorf("copy %s: its key %s is WITHOUT OVERLAPS, and MariaDB executes no REPLACE on such tables, by which rows are written", t.FullName(), k.Name)
		}
	}
	switch {
	case t.Engine != "InnoDB":
		return fmt.Errorf("table %s uses %s, which has no consistent snapshot: "+
			"ALTER TABLE %s ENGINE=InnoDB, or dump it while clients do not write", t.FullName(), t.Engine, t.SQLName())
	case len(t.Key) == 0:
		return fmt.Errorf("table %s has no primary key, nor a unique one over whole columns that are never NULL (ENUM, SET and JSON do not count, "+
			"nor do INVISIBLE and IGNORED keys): a copy of it cannot resume; add a key", t.FullName())
	}
	return nil
}

// accept checks that a table in the target can take the rows.
func (t *table) accept(there *rowstream.Table) error {
	source := *t.source
	if len(t.spec.Columns) > 0 { // compare what is copied
		source.Columns, source.Key, source.Generated = t.target.columns, nil, nil
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
	if d := differences(&source, there); len(d) > 0 {
		return &differsError{fmt.Errorf("the target's %s differs:\n  %s", t.spec.target(), strings.Join(d, "\n  ")), there}
	}
	if len(there.Triggers) > 0 {
		return fmt.Errorf("the target's %s has triggers (%s), which would change rows as they are written: drop them and create them again afterwards",
			t.spec.target(), strings.Join(there.Triggers, ", "))
	}
	if there.Engine != "" && there.Engine != "InnoDB" {
		return fmt.Errorf("the target's %s uses %s: without transactions a copy cannot resume after a crash; ALTER TABLE … ENGINE=InnoDB", t.spec.target(), there.Engine)
	}
	return nil
}

// A differsError says in what a table in the target is not the source's.
type differsError struct {
	error
	there *rowstream.Table
}

// begin creates a table that is new in the target, and records it in the state. What an earlier run left is resumed.
func (t *table) begin(ctx context.Context, c *mysqlconn.Client, s state, from, position string) error {
	if t.state == nil {
		if err := t.createTarget(ctx, c); err != nil {
			return err
		}
		if err := t.mustBeEmpty(ctx, c); err != nil {
			return err
		}
		if err := s.begin(ctx, c, t.spec, t.recordedSpec(), from, position, t.later, t.keys); err != nil {
			return err
		}
		t.state = &tableState{source: from, spec: t.recordedSpec(), phase: copying, position: position, indexes: t.later, keys: t.keys}
	}
	return nil
}

// strip drops the secondary indexes that are built after the rows, of a target table of which nothing is
// copied yet.
func (t *table) strip(ctx context.Context, c *mysqlconn.Client) error {
	for _, k := range t.state.chunks {
		if k.copied {
			return nil
		}
	}
	if len(t.state.indexes) == 0 || len(t.later) == 0 || t.state.phase != copying {
		return nil
	}
	have := secondaryIndexes(t.there)
	there := slices.DeleteFunc(slices.Clone(t.later), func(x index) bool { return !slices.Contains(have, x) }) // an earlier run may have dropped some
	if len(there) == 0 {
		return nil
	}
	if _, err := c.Exec(ctx, dropIndexes(t.spec.targetSQL(), there)); err != nil {
		return fmt.Errorf("drop the secondary indexes of %s, to be built again after the rows: %w; --keep-indexes leaves them alone", t.spec.target(), err)
	}
	return nil
}

func (t *table) createTarget(ctx context.Context, c *mysqlconn.Client) error {
	if t.create == "" {
		return nil
	}
	for _, sql := range []string{"CREATE DATABASE IF NOT EXISTS " + rowstream.Ident(t.spec.ToSchema), t.create} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create %s in the target: %w; or create it yourself and run the same command again", t.spec.target(), err)
		}
	}
	return nil
}

// mustBeEmpty refuses a target table with rows.
func (t *table) mustBeEmpty(ctx context.Context, c *mysqlconn.Client) error {
	found, err := t.hasRows(ctx, c)
	if err == nil && found {
		err = fmt.Errorf("copy to %s: it has rows already, which no copy has recorded; empty it, or use --restart --truncate %s",
			t.spec.target(), t.spec.target())
	}
	return err
}

func (t *table) hasRows(ctx context.Context, c *mysqlconn.Client) (found bool, err error) {
	if _, err = c.Query(ctx, "SELECT 1 FROM "+t.spec.targetSQL()+" LIMIT 1", func(mysqlwire.TextRow) error {
		found = true
		return nil
	}); err != nil {
		err = fmt.Errorf("read %s in the target: %w", t.spec.target(), err)
	}
	return found, err
}

// recall reads the state of earlier runs, and refuses to resume what differs from this one. With --restart there is
// nothing to resume.
func (t *table) recall(ctx context.Context, c *mysqlconn.Client, o *Options, s state) (err error) {
	if o.Restart {
		return nil
	}
	t.state, err = s.load(ctx, c, t.spec, len(t.source.Key))
	if absent(err) {
		err = nil
	}
	if err != nil || t.state == nil {
		return err
	}
	switch {
	case t.create != "":
		return fmt.Errorf("resume the copy to %s: the state in the target records it, but the table does not exist; use --restart", t.spec.target())
	case !t.resumeOrder():
		return fmt.Errorf("resume the copy to %s: it was of other rows:\n  then: %s\n  now:  %s\nrepeat its command to resume it, or use --restart", t.spec.target(), t.state.spec, t.spec.text())
	}
	return nil
}

// restart empties the target table. The state records that first: a run that is killed in between leaves a table that
// only another --restart accepts, where an empty table whose state says that it is copied would be taken for a copy.
//
// What an earlier run has left out of the table stays recorded until the table is recorded again.
func (t *table) restart(ctx context.Context, r *run) error {
	if t.create == "" {
		if err := t.recallLeftOut(ctx, r); err != nil {
			return err
		}
	}
	if err := r.state.empty(ctx, r.to, t.spec); err != nil {
		return err
	}
	if t.create == "" {
		if _, err := r.to.Exec(ctx, "TRUNCATE TABLE "+t.spec.targetSQL()); err != nil {
			return fmt.Errorf("empty %s in the target: %w", t.spec.target(), err)
		}
	}
	return nil
}

// recallLeftOut adds the indexes and keys that an earlier run has dropped, or has not created yet, to those that are built after
// the rows.
func (t *table) recallLeftOut(ctx context.Context, r *run) error {
	indexes, err := r.state.leftOut(ctx, r.to, t.spec)
	if err != nil {
		return err
	}
	for _, x := range indexes {
		if !slices.ContainsFunc(t.later, func(y index) bool { return y.name() == x.name() }) && !strings.Contains(t.there.Create, " KEY "+x.name()+" ") {
			t.later = append(t.later, x)
		}
	}
	keys, err := r.state.loadKeys(ctx, r.to, t.spec)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if !slices.ContainsFunc(t.keys, func(other foreignKey) bool { return other.name == k.name }) {
			t.keys = append(t.keys, k)
		}
	}
	return nil
}

// buildIndexes adds the secondary indexes that the table has not got (again), in one ALTER. It does so under the
// table's index lock, and with the epoch checked after that was taken.
func (t *table) buildIndexes(ctx context.Context, c *mysqlconn.Client, l *lease, patience time.Duration) error {
	if len(t.state.indexes) == 0 {
		return nil
	}
	return underIndexLock(ctx, c, l, t.spec, patience, func() error { return t.addMissing(ctx, c) })
}

// addMissing adds the indexes that the target's table lacks.
func (t *table) addMissing(ctx context.Context, c *mysqlconn.Client) error {
	there, err := rowstream.ReadTable(ctx, c, t.spec.ToSchema, t.spec.ToName)
	if err != nil {
		return err
	}
	have := secondaryIndexes(there)
	missing := slices.DeleteFunc(slices.Clone(t.state.indexes), func(x index) bool { return slices.Contains(have, x) })
	if len(missing) == 0 {
		return nil
	}
	if _, err := c.Exec(ctx, addIndexes(t.spec.targetSQL(), missing)); err != nil {
		return fmt.Errorf("build the secondary indexes of %s: %w; run the same command again to resume from here", t.spec.target(), err)
	}
	return nil
}
