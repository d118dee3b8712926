package state

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// ForgetTable deletes all that is recorded of a target table, once no run writes to it. A statement of an older run that arrives later finds
// no epoch, and is rolled back.
func (s State) ForgetTable(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) error {
	for _, table := range []string{s.Epochs(), s.chunks(), s.verifieds(), s.definitions(), s.foreignKeys(), s.lookups(), s.Tables()} {
		if _, err := c.Exec(ctx, "DELETE FROM "+table+RowsOf(spec)); err != nil && !Absent(err) {
			return fmt.Errorf("delete the state of %s in schema %s: %w", spec.Target(), s.Schema, err)
		}
	}
	id := s.Followed("", []tabledef.Spec{*spec}).ID
	if _, err := c.Exec(ctx, "DELETE FROM "+s.Follows()+" WHERE id = "+session.Literal(id)); err != nil && !Absent(err) {
		return fmt.Errorf("delete the state of %s in schema %s: %w", spec.Target(), s.Schema, err)
	}
	return nil
}
