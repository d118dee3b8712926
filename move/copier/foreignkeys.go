package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Foreign keys are created after the rows. Until then the target tables have none, because rows arrive in the
// order of chunks, not in that of references. The effects of the source's keys on rows are part of the rows
// copied.
//
//	record the keys ──> drop them, or create the table without ──> rows ──> indexes ──> ALTER TABLE … ADD, which validates them
//
// The state has the keys that are still to be created. A run that follows creates them when the target has
// caught up for the first time, while no change is applied: the target then equals the source between two
// transactions. From then on changes are still applied with foreign_key_checks = 0: the source has checked
// them, and the changes that its keys cause are in its log or derived from it (cascades.go).

// foreignKeys are those of the target tables.
type foreignKeys struct{ *job }

// find finds the foreign keys of the target tables, and returns an error for keys that could not be
// created after the rows, and for definitions that name a schema outside of the copy.
func (f *foreignKeys) find(ctx context.Context) error {
	for _, t := range f.tables {
		for _, schema := range t.Qualifiers(f.to.ServerVersion) {
			if !f.writesTo(schema) {
				return fmt.Errorf("copy %s: its definition names an object of the schema %s, which the copy does not write to: create %s in the target, and repeat the copy",
					t.Spec.Source(), schema, t.Spec.Target())
			}
		}
		keys, _, err := rowstream.CreateForeignKeys(t.Written.Create)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Spec.Source(), err)
		}
		for i := range keys {
			k := &keys[i]
			schema, name := f.referred(t, k)
			referred := session.Ident(schema) + "." + session.Ident(name)
			t.Keys = append(t.Keys, tabledef.ForeignKey{Name: k.Name, Definition: k.Definition(referred), Referred: referred})
			if t.Create == "" {
				continue
			}
			if err := f.mayReferTo(ctx, t, k, schema, name); err != nil {
				return err
			}
		}
	}
	if err := f.freeNames(ctx); err != nil {
		return err
	}
	if !f.o.Follow {
		return nil
	}
	return tabledef.OnlyAmong(ctx, f.to, f.tables)
}

// referred returns the table in the target that a key refers to. A copied table is referred to under its name
// in the target. Other tables of the table's schema are expected in the target schema.
func (f *foreignKeys) referred(t *tabledef.Table, k *rowstream.ForeignKey) (schema, name string) {
	if t.Create == "" { // the key is the target's
		if k.Schema == "" {
			return t.Spec.ToSchema, k.Table
		}
		return k.Schema, k.Table
	}
	schema = k.Schema
	if schema == "" {
		schema = t.Spec.Schema
	}
	for _, other := range f.tables {
		if other.Spec.Schema == schema && other.Spec.Name == k.Table {
			return other.Spec.ToSchema, other.Spec.ToName
		}
	}
	if schema == t.Spec.Schema {
		schema = t.Spec.ToSchema
	}
	return schema, k.Table
}

// copiesTo reports whether the run copies to a table of the target. Names that differ only in case are the
// same table only if the target does not distinguish them.
func (f *foreignKeys) copiesTo(ctx context.Context, schema, name string) (bool, error) {
	if slices.ContainsFunc(f.tables, func(t *tabledef.Table) bool { return t.Spec.ToSchema == schema && t.Spec.ToName == name }) {
		return true, nil
	}
	if !tabledef.IsTarget(f.tables, schema, name) {
		return false, nil
	}
	fold, err := session.QueryValue(ctx, f.to, "SELECT @@lower_case_table_names")
	return fold != "0", err
}

// writesTo reports whether a table of the copy is of the schema in the target.
func (f *foreignKeys) writesTo(schema string) bool {
	return slices.ContainsFunc(f.tables, func(t *tabledef.Table) bool { return t.Spec.ToSchema == schema })
}

// mayReferTo returns an error for a key of a table to be created if the table that it refers to will not
// exist, or is of a schema that the copy does not write to: there the key would block changes, and the source alone has chosen it.
func (f *foreignKeys) mayReferTo(ctx context.Context, t *tabledef.Table, k *rowstream.ForeignKey, schema, name string) error {
	if copied, err := f.copiesTo(ctx, schema, name); copied || err != nil {
		return err
	}
	_, err := rowstream.ReadTable(ctx, f.to, schema, name)
	if errors.Is(err, rowstream.ErrNoTable) {
		return fmt.Errorf("copy %s: its foreign key %s refers to %s.%s, which is not copied and does not exist in the target: "+
			"add it to option tables, or create %s in the target without the key", t.Spec.Source(), k.Name, schema, name, t.Spec.Target())
	}
	if err == nil && !f.writesTo(schema) {
		return fmt.Errorf("copy %s: its foreign key %s refers to %s.%s, a table of a schema that the copy does not write to, whose rows it would keep from being changed: "+
			"add it to option tables, or create %s in the target, with the key or without it", t.Spec.Source(), k.Name, schema, name, t.Spec.Target())
	}
	return err
}

// freeNames returns an error for keys whose names are taken by other keys of their schema. Names are unique
// per schema.
func (f *foreignKeys) freeNames(ctx context.Context) error {
	type place struct{ schema, name string }
	taken := make(map[place]string)
	for _, t := range f.tables {
		for _, k := range t.Keys {
			at := place{strings.ToLower(t.Spec.ToSchema), strings.ToLower(k.Name)}
			if other := taken[at]; other != "" {
				return fmt.Errorf("copy %s: its foreign key %s has the name of one of %s, and names of foreign keys are unique in a schema of the target: "+
					"create one of the two tables there with another name for its key", t.Spec.Source(), k.Name, other)
			}
			taken[at] = t.Spec.Target()
		}
	}
	for _, t := range f.tables {
		if t.Create == "" || len(t.Keys) == 0 {
			continue
		}
		if _, err := f.to.Query(ctx, "SELECT CONSTRAINT_NAME, TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = "+
			session.Literal(t.Spec.ToSchema), func(row mysqlwire.TextRow) error {
			name, other := string(row[0]), string(row[1])
			for _, k := range t.Keys {
				if strings.EqualFold(k.Name, name) {
					return fmt.Errorf("copy %s: its foreign key %s has the name of one of %s.%s in the target, and names of foreign keys are unique in a schema: "+
						"create %s there with another name for the key", t.Spec.Source(), name, t.Spec.ToSchema, other, t.Spec.Target())
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// dropForeignKeys drops the recorded foreign keys of a target table without copied rows.
func dropForeignKeys(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client) error {
	if t.State.Phase != tabledef.Copying || len(t.State.Keys) == 0 || t.Create != "" || slices.ContainsFunc(t.State.Chunks, func(k tabledef.RecordedChunk) bool { return k.Copied }) {
		return nil
	}
	there, err := rowstream.ReadTable(ctx, c, t.Spec.ToSchema, t.Spec.ToName)
	if err != nil {
		return err
	}
	keys, _, err := rowstream.CreateForeignKeys(there.Create)
	if err != nil || len(keys) == 0 {
		return err
	}
	parts := make([]string, len(keys))
	for i := range keys {
		parts[i] = "DROP FOREIGN KEY " + session.Ident(keys[i].Name)
	}
	if _, err := c.Exec(ctx, "ALTER TABLE "+t.Spec.TargetSQL()+" "+strings.Join(parts, ", ")); err != nil {
		return fmt.Errorf("drop the foreign keys of %s, to be created again after the rows: %w", t.Spec.Target(), err)
	}
	return nil
}

// add creates the remaining foreign keys once all tables have their rows and indexes. Servers validate
// the rows then.
func (f *foreignKeys) add(ctx context.Context) error {
	for _, t := range f.tables {
		if t.State == nil || len(t.State.Keys) == 0 {
			continue
		}
		f.o.Observe(telemetry.Event{Kind: telemetry.EventIndexes, Table: t.Spec.Source(), Text: tabledef.JoinKeys(t.State.Keys)})
		w := f.newWriter()
		w.Table = t.Spec.Source()
		err := w.Retry(ctx, func() error {
			err := state.WithIndexLock(ctx, w.Conn, f.state.Lease, t.Spec, f.o.Patience, func() error { return addMissingKeys(ctx, t, w.Conn) })
			if err != nil {
				return err
			}
			return f.state.Write(ctx, w.Conn, t.Spec, func() error { return f.state.RecordKeys(ctx, w.Conn, t.Spec, nil) })
		})
		w.Close()
		if err != nil {
			return err
		}
		t.State.Keys = nil
	}
	return nil
}

// addMissingKeys adds the keys that the target's table lacks, in one ALTER. foreign_key_checks must be on,
// otherwise the server does not validate the rows.
func addMissingKeys(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client) error {
	there, err := rowstream.ReadTable(ctx, c, t.Spec.ToSchema, t.Spec.ToName)
	if err != nil {
		return err
	}
	have, _, err := rowstream.CreateForeignKeys(there.Create)
	if err != nil {
		return err
	}
	var parts []string
	for _, k := range t.State.Keys {
		if !slices.ContainsFunc(have, func(h rowstream.ForeignKey) bool { return strings.EqualFold(h.Name, k.Name) }) {
			parts = append(parts, "ADD "+k.Definition)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	// MySQL 8.4 and later refuse keys to columns that are not unique, which the source permitted.
	err = session.Set(ctx, c, session.Int("restrict_fk_on_non_standard_key", 0))
	if err != nil && !session.IsUnseen(err) {
		return err
	}
	if err := session.Set(ctx, c, session.Int("foreign_key_checks", 1)); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "ALTER TABLE "+t.Spec.TargetSQL()+" "+strings.Join(parts, ", "))
	if refused := new(mysqlconn.ServerError); errors.As(err, &refused) && refused.Number == errNoReferencedRow {
		err = violation(ctx, t, c, err)
	} else if err != nil {
		err = fmt.Errorf("create the foreign keys of %s: %w; all rows are copied: run the same command again to resume from here", t.Spec.Target(), err)
	}
	if offErr := session.Set(ctx, c, session.Int("foreign_key_checks", 0)); err == nil {
		err = offErr
	}
	return err
}

// errNoReferencedRow is the server's error for rows that refer to a missing row.
const errNoReferencedRow = 1452

// violation returns the error for a table whose rows violate a key. It names the key, the number of such
// rows, and a statement that lists them.
func violation(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client, refused error) error {
	for _, k := range t.State.Keys {
		from, err := orphans(&k, t.Spec.TargetSQL())
		if err != nil {
			return errors.Join(refused, err)
		}
		n, err := session.QueryValue(ctx, c, "SELECT COUNT(*)"+from)
		if err != nil {
			return errors.Join(refused, err)
		}
		if n != "0" {
			return fmt.Errorf("create the foreign key %s of %s: %s rows refer to no row of %s; they are listed by SELECT tare_child.*%s; "+
				"all rows are copied: correct these in the source and the target, and run the same command again to resume from here",
				k.Name, t.Spec.Target(), n, k.Referred, from)
		}
	}
	return fmt.Errorf("create the foreign keys of %s: %w; all rows are copied: run the same command again to resume from here", t.Spec.Target(), refused)
}

// orphans returns the FROM and WHERE clauses of a statement over the rows of a table whose referenced row is
// missing.
func orphans(k *tabledef.ForeignKey, table string) (string, error) {
	keys, _, err := rowstream.CreateForeignKeys("  " + k.Definition)
	if err != nil || len(keys) != 1 {
		return "", errors.Join(err, fmt.Errorf("%w: the recorded foreign key %s cannot be parsed", state.ErrState, k.Name))
	}
	var on, set []string
	for i, column := range keys[0].Columns {
		on = append(on, "tare_parent."+session.Ident(keys[0].Referred[i])+" = tare_child."+session.Ident(column))
		set = append(set, "tare_child."+session.Ident(column)+" IS NOT NULL")
	}
	return " FROM " + table + " AS tare_child WHERE " + strings.Join(set, " AND ") +
		" AND NOT EXISTS (SELECT 1 FROM " + k.Referred + " AS tare_parent WHERE " + strings.Join(on, " AND ") + ")", nil
}
