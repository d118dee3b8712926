package alter

import (
	"context"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A job is the record, in jobRecords, of a copy that is not finished, in the altered server. The progress of the rows is in the state of package copier,
// under the name of the shadow.
type job struct {
	Clauses string `json:"clauses"`

	// Fixed has the values of added columns, which are the same in all runs. A nil value is NULL.
	Fixed map[string][]byte `json:"fixed"`

	// Definition is that of the table as the shadow was created from it; empty: it was not recorded.
	Definition string `json:"definition,omitempty"`

	From string `json:"from,omitempty"` // a position of the binary log before the last try of a swap
	Kept *kept  `json:"kept,omitempty"` // nil: the tables are not known to be swapped
}

// A kept is the record of an old table after the swap.
type kept struct {
	Until  time.Time `json:"until"`            // when it may be dropped
	Closed string    `json:"closed,omitempty"` // why there is no way back; empty: there is one
	Lossy  []string  `json:"lossy,omitempty"`  // possible losses of the way back

	// Dropped means that the old table is being dropped, by a run that has altered the table and has nothing else left to do.
	Dropped bool `json:"dropped,omitempty"`

	// Reverted means that the tables were swapped back, and the table of the revert is being dropped.
	Reverted bool `json:"reverted,omitempty"`

	// Fixed has, for rows written since the swap, the values of columns that the new definition does not have.
	Fixed map[string][]byte `json:"fixed"`
}

// over reports whether the old table may be dropped.
func (j *job) over() bool { return j.Kept != nil && time.Now().After(j.Kept.Until) }

// secondText is the format of times in messages.
const secondText = "2006-01-02 15:04:05 UTC"

// until returns the time until which the old table is kept, for messages.
func (j *job) until() string {
	if j.Kept == nil {
		return ""
	}
	return " until " + j.Kept.Until.UTC().Format(secondText)
}

// keptUntil returns the time until which the old table is kept; zero: it is not.
func (j *job) keptUntil() time.Time {
	if j.Kept == nil {
		return time.Time{}
	}
	return j.Kept.Until
}

// forgetJob deletes the record, and those of the rows.
func forgetJob(ctx context.Context, c *mysqlconn.Client, s *Statement) error {
	for _, spec := range []tabledef.Spec{s.spec(nil), s.backSpec(nil)} {
		if err := (state.State{Schema: Schema}).ForgetTable(ctx, c, &spec); err != nil {
			return err
		}
	}
	return jobRecords.delete(ctx, c, s)
}

// shadow returns the name of the table with the new definition.
func (s *Statement) shadow() string { return inventory.ShadowPrefix + s.Table }

// old returns the name that the table gets.
func (s *Statement) old() string { return inventory.OldPrefix + s.Table }

// reverted returns the name that the table with the new definition gets when it is reverted. It is sorted behind that of old.
func (s *Statement) reverted() string { return inventory.RevertedPrefix + s.Table }

// sqlName returns the name of a table of the schema for statements.
func (s *Statement) sqlName(table string) string {
	return session.Ident(s.Schema) + "." + session.Ident(table)
}

// spec is the copy of the table to its shadow.
func (s *Statement) spec(m *tabledef.Mapping) tabledef.Spec {
	return tabledef.Spec{Schema: s.Schema, Name: s.Table, ToSchema: s.Schema, ToName: s.shadow(), Mapping: m}
}

// backSpec is the copy of the changes of the table back to the old one.
func (s *Statement) backSpec(m *tabledef.Mapping) tabledef.Spec {
	return tabledef.Spec{Schema: s.Schema, Name: s.Table, ToSchema: s.Schema, ToName: s.old(), Mapping: m}
}

// exists reports whether the schema has a table.
func (s *Statement) exists(ctx context.Context, c *mysqlconn.Client, table string) (bool, error) {
	n, err := session.QueryValue(ctx, c, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+session.SchemaText(s.Schema)+
		" AND TABLE_NAME = "+session.SchemaText(table))
	if err != nil {
		return false, fmt.Errorf("look for table %s.%s: %w", s.Schema, table, err)
	}
	return n != "0", nil
}
