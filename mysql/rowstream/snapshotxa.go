package rowstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	// preparedWait is how long a snapshot over several connections waits for the end of prepared XA
	// transactions.
	preparedWait = 10 * time.Second

	preparedPoll = 50 * time.Millisecond
)

// unprepared takes a snapshot while no XA transaction is prepared: the rows of one would be neither in the
// snapshot nor after its position in the log. If there is always one, or the user may not see them, How
// reports that; a COMMIT of one then stops the reader of the log.
func (s *snapshot) unprepared(ctx context.Context, take func() error) error {
	c := s.clients[0]
	for deadline := time.Now().Add(preparedWait); ; {
		before, err := secondPhases(ctx, c)
		if err != nil {
			return err
		}
		if err := take(); err != nil || s.position == "" {
			return err
		}
		n, err := prepared(ctx, c)
		if refused, ok := errors.AsType[*mysqlconn.ServerError](err); ok && (session.Denied(refused.Number) || refused.Number == errXADenied) {
			s.how += "; prepared XA transactions cannot be seen: GRANT XA_RECOVER_ADMIN"
			return nil
		}
		if err != nil {
			return err
		}
		after, err := secondPhases(ctx, c)
		if err != nil || n == 0 && after == before {
			return err
		}
		if time.Now().After(deadline) {
			s.how += fmt.Sprintf("; prepared XA transactions: %d (XA RECOVER); the commit of one stops following", n)
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(preparedPoll):
		}
	}
}

// errXADenied is MySQL's error for XA RECOVER without XA_RECOVER_ADMIN.
const errXADenied = 1401

// prepared returns the number of prepared XA transactions.
func prepared(ctx context.Context, c *mysqlconn.Client) (n int, err error) {
	_, err = c.Query(ctx, "XA RECOVER", func(mysqlwire.TextRow) error {
		n++
		return nil
	})
	return n, err
}

// secondPhases returns the number of XA transactions committed or rolled back since the server started.
func secondPhases(ctx context.Context, c *mysqlconn.Client) (n int64, err error) {
	_, err = c.Query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_xa_commit', 'Com_xa_rollback')", func(row mysqlwire.TextRow) error {
		v, err := strconv.ParseInt(string(row[1]), 10, 64)
		n += v
		return err
	})
	return n, err
}
