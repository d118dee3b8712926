package state

import (
	"context"
	"strconv"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Verified records that a chunk is equal on both sides. It is idempotent.
func (s State) Verified(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, k rowstream.Chunk) error {
	return s.Write(ctx, c, spec, func() error {
		return ExecExact(ctx, c, "REPLACE INTO "+s.verifieds()+" (target_schema, target_table, chunk) VALUES ("+
			session.Literal(spec.ToSchema)+", "+session.Literal(spec.StateName())+", "+strconv.Itoa(k.Number)+")", 1, 2)
	})
}

// LoadVerified returns the chunks that an interrupted verification has found equal.
func (s State) LoadVerified(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) (map[int]bool, error) {
	all := make(map[int]bool)
	_, err := c.Query(ctx, "SELECT chunk FROM "+s.verifieds()+RowsOf(spec), func(row mysqlwire.TextRow) error {
		n, err := strconv.Atoi(string(row[0]))
		all[n] = true
		return err
	})
	return all, s.wrapError(spec, err)
}

// ForgetVerified deletes the records of a verification: the next one compares all chunks again.
func (s State) ForgetVerified(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) error {
	return s.Write(ctx, c, spec, func() error { return ExecExact(ctx, c, "DELETE FROM "+s.verifieds()+RowsOf(spec)) })
}
