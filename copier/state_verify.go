package copier

import (
	"context"
	"strconv"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// verified notes that a chunk is equal on both sides. Doing so twice is doing it once.
func (s state) verified(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, k rowstream.Chunk) error {
	return s.write(ctx, c, spec, func() error {
		return change(ctx, c, "REPLACE INTO "+s.verifieds()+" (target_schema, target_table, chunk) VALUES ("+
			literal(spec.ToSchema)+", "+literal(spec.ToName)+", "+strconv.Itoa(k.Number)+")", 1, 2)
	})
}

// loadVerified reads which chunks a verification that did not come to its end has found equal.
func (s state) loadVerified(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) (map[int]bool, error) {
	all := make(map[int]bool)
	_, err := c.Query(ctx, "SELECT chunk FROM "+s.verifieds()+spec.where(), func(row mysqlwire.TextRow) error {
		n, err := strconv.Atoi(string(row[0]))
		all[n] = true
		return err
	})
	return all, s.noted(spec, err)
}

// forgetVerified ends a verification: the next one compares all again.
func (s state) forgetVerified(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) error {
	return s.write(ctx, c, spec, func() error { return change(ctx, c, "DELETE FROM "+s.verifieds()+spec.where()) })
}
