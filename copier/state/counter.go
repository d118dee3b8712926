package state

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// RaiseCounter raises the target's counter, under the lock for statements that belong to no transaction.
func RaiseCounter(t *tabledef.Table, ctx context.Context, c *mysqlconn.Client, l *Lease, counter uint64, limit time.Duration) error {
	if now, err := targetCounter(t, ctx, c); err != nil || now >= counter {
		return err
	}
	return UnderIndexLock(ctx, c, l, t.Spec, limit, func() error {
		if _, err := c.Exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", max(1, int(limit.Seconds())))); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "ALTER TABLE "+t.Spec.TargetSQL()+" AUTO_INCREMENT = "+strconv.FormatUint(counter, 10)); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "SET SESSION lock_wait_timeout = DEFAULT"); err != nil {
			return err
		}
		now, err := targetCounter(t, ctx, c)
		if err == nil && now < counter {
			err = fmt.Errorf("%w: it is %d instead of %d", ErrState, now, counter)
		}
		return err
	})
}

func targetCounter(t *tabledef.Table, ctx context.Context, c *mysqlconn.Client) (uint64, error) {
	create := ""
	_, err := c.Query(ctx, "SHOW CREATE TABLE "+t.Spec.TargetSQL(), func(row mysqlwire.TextRow) error {
		create = string(row[1])
		return nil
	})
	return rowstream.AutoIncrement(create), err
}
