package tabledef

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// IsTarget reports whether a table of the target is one of tables. Names are compared without regard to case.
func IsTarget(tables []*Table, schema, name string) bool {
	return slices.ContainsFunc(tables, func(t *Table) bool {
		return strings.EqualFold(t.Spec.ToSchema, schema) && strings.EqualFold(t.Spec.ToName, name)
	})
}

// OnlyAmong returns an error for target tables that tables outside of the copy refer to: changes are applied
// with foreign_key_checks = 0, and could remove rows that those tables refer to.
func OnlyAmong(ctx context.Context, c *mysqlconn.Client, tables []*Table) error {
	for _, t := range tables {
		if _, err := c.Query(ctx, "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS"+
			" WHERE UNIQUE_CONSTRAINT_SCHEMA = "+session.Literal(t.Spec.ToSchema)+" AND REFERENCED_TABLE_NAME = "+session.Literal(t.Spec.ToName), func(row mysqlwire.TextRow) error {
			if IsTarget(tables, string(row[0]), string(row[1])) {
				return nil
			}
			return fmt.Errorf("follow changes to %s: the foreign key %s of %s.%s refers to it there, and that table is not part of the copy: "+
				"applied changes could leave its rows without those that they refer to; drop the key there while the copy follows, or add the table",
				t.Spec.Target(), row[2], row[0], row[1])
		}); err != nil {
			return err
		}
	}
	return nil
}

// ReverseRefusal returns why foreign keys of the source's table do not permit changes to be written back to it
// in a session with foreign_key_checks = 0; empty if they do.
func (t *Table) ReverseRefusal(tables []*Table) string {
	keys, _, err := rowstream.CreateForeignKeys(t.Source.Create)
	if err != nil {
		return err.Error()
	}
	for i := range keys {
		k := &keys[i]
		schema := k.Schema
		if schema == "" {
			schema = t.Spec.Schema
		}
		if k.Acts() {
			return fmt.Sprintf("the foreign key %s of %s changes rows, which the target's log does not list", k.Name, t.Spec.Source())
		}
		if !slices.ContainsFunc(tables, func(other *Table) bool { return other.Spec.Schema == schema && other.Spec.Name == k.Table }) {
			return fmt.Sprintf("the foreign key %s of %s refers to %s.%s, which is not part of the copy", k.Name, t.Spec.Source(), schema, k.Table)
		}
	}
	return ""
}
