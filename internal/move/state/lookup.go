package state

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

func (s State) lookups() string { return session.Ident(s.Schema) + ".copy_lookup" }

// KeepLookup records the values of the lookup table that selects the rows of a target table. resumed reports that an earlier run has
// copied rows: then the values must contain those that it recorded.
func (s State) KeepLookup(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, resumed bool) error {
	if err := s.createTables(ctx, c, "CREATE TABLE IF NOT EXISTS "+s.lookups()+` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  entries       longblob NOT NULL COMMENT 'values and the numbers of their shards, each after its length',
  PRIMARY KEY (target_schema, target_table)
) ENGINE=InnoDB COMMENT='the lookup tables by which rows were divided'`); err != nil {
		return err
	}
	before, found := "", false
	err := RepeatDeadlocked(func() error {
		_, err := c.Query(ctx, "SELECT entries FROM "+s.lookups()+RowsOf(spec)+" FOR UPDATE", func(row mysqlwire.TextRow) error {
			before, found = string(row[0]), true
			return nil
		})
		return err
	})
	if err == nil && resumed && !found {
		err = fmt.Errorf("%w: the values of the lookup table are not recorded; use option restart", ErrState)
	}
	if err != nil {
		return s.wrapError(spec, err)
	}
	if resumed {
		if err := spec.Lookup.Extends([]byte(before)); err != nil {
			return err
		}
	}
	now := spec.Lookup.Record()
	if found && string(now) == before {
		return nil
	}
	return s.Write(ctx, c, spec, func() error {
		return ExecExact(ctx, c, "REPLACE INTO "+s.lookups()+" (target_schema, target_table, entries) VALUES ("+
			session.Literal(spec.ToSchema)+", "+session.Literal(spec.ToName)+fmt.Sprintf(", x'%x')", now), 1, 2)
	})
}
