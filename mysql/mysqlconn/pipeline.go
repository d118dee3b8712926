package mysqlconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// Pipeline sends statements in one write and reads their responses in order: one round trip. row is called for
// each row, with the index of its statement. The server executes a statement even if it has refused an earlier
// one; the error is that of the first refused, and the connection stays usable after it as after Exec's.
func (c *Client) Pipeline(ctx context.Context, statements []string, row func(statement int, r mysqlwire.TextRow) error) error {
	if c.broken {
		return ErrBroken
	}
	var first, rowErr error
	err := c.during(ctx, func() error {
		for _, sql := range statements {
			c.Seq = 0
			c.AppendMessage(mysqlwire.AppendQuery(nil, []byte(sql), c.Capabilities))
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for i := range statements {
			c.Seq = 1
			var result Result
			ofRow, err := c.readResults(&result, c.texts(func(r mysqlwire.TextRow) error { return row(i, r) }))
			if rowErr == nil {
				rowErr = ofRow
			}
			var refused *ServerError
			switch {
			case err == nil:
			case !errors.As(err, &refused):
				return err
			case first == nil:
				first = err
			}
		}
		return nil
	})
	if err != nil {
		c.broken = true
		return fmt.Errorf("execute: %w", err)
	}
	if first == nil {
		first = rowErr
	}
	if first != nil {
		return fmt.Errorf("execute: %w", first)
	}
	return nil
}
