package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// QueryValue returns the value of a statement with one row and column; empty if there is no row.
func QueryValue(ctx context.Context, c *mysqlconn.Client, sql string) (value string, err error) {
	_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		value = string(row[0])
		return nil
	})
	return value, err
}

// Variable returns the value of a global variable.
func Variable(ctx context.Context, c *mysqlconn.Client, name string) (value string, err error) {
	return QueryValue(ctx, c, "SELECT @@global."+name)
}

// InSnapshot calls do, whose statements over the connection read the rows of one point in time.
func InSnapshot(ctx context.Context, c *mysqlconn.Client, do func() error) error {
	for _, sql := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		_, _ = c.Exec(ctx, "ROLLBACK") // a lost connection does so too
		return err
	}
	_, err := c.Exec(ctx, "COMMIT")
	return err
}

// GTIDMark precedes the GTIDs in the text of a position of the binary log.
const GTIDMark = "gtid="

// CurrentPosition returns the current position of the binary log, empty if the server has none or does not
// report it to the user.
func CurrentPosition(ctx context.Context, c *mysqlconn.Client) (string, error) {
	position, err := ReadPosition(ctx, c)
	if IsUnseen(err) {
		return "", nil
	}
	return position, err
}

// ReadPosition is CurrentPosition, but it is an error if the account may not see the position.
func ReadPosition(ctx context.Context, c *mysqlconn.Client) (position string, err error) {
	for _, sql := range []string{"SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"} {
		position = ""
		_, failed := c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
			position = string(row[0]) + " " + string(row[1])
			if len(row) > 4 && len(row[4]) > 0 && !IsMariaDB(c.ServerVersion) {
				position += " " + GTIDMark + strings.Join(strings.Fields(string(row[4])), "") // MySQL's set, one source per line
			}
			return nil
		})
		switch refused, ok := errors.AsType[*mysqlconn.ServerError](failed); {
		case failed == nil:
			return position, nil
		case !ok:
			return "", failed
		case refused.Number != mysqlwire.ErrnoSyntax: // one of the statements is unknown to each server
			err = fmt.Errorf("%s: %w", sql, failed)
		}
	}
	return "", err
}
