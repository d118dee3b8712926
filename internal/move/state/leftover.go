package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A server executes the statement that it has received to its end, also when the process that has sent it was killed. A session whose
// statements a later run must not meet therefore acquires a named lock first: the server releases it with the session, after the statement.

// TakeLock acquires a named lock for the session of c. A session that still has it after wait, for a process that has ended, is ended by KILL.
func TakeLock(ctx context.Context, c *mysqlconn.Client, name string, wait time.Duration) error {
	for killed := false; ; killed = true {
		got, err := getLock(ctx, c, name, max(1, int(wait.Seconds())))
		if err != nil || got {
			return err
		}
		holder, err := session.QueryValue(ctx, c, "SELECT COALESCE(IS_USED_LOCK("+session.Literal(name)+"), 0)")
		if err != nil {
			return err
		}
		if killed {
			return fmt.Errorf("%w: connection %s executes a statement of a run that has ended: wait for it, or KILL %[2]s there", ErrLocked, holder)
		}
		const noThread = 1094
		_, err = c.Exec(ctx, "KILL "+holder)
		if refused, ok := errors.AsType[*mysqlconn.ServerError](err); err != nil && !(ok && refused.Number == noThread) {
			return fmt.Errorf("end connection %s, which executes a statement of a run that has ended: %w", holder, err)
		}
	}
}

// AwaitLock returns when no other session has the lock; see TakeLock.
func AwaitLock(ctx context.Context, c *mysqlconn.Client, name string, wait time.Duration) error {
	if err := TakeLock(ctx, c, name, wait); err != nil {
		return err
	}
	_, err := session.QueryValue(ctx, c, "SELECT RELEASE_LOCK("+session.Literal(name)+")")
	return err
}
