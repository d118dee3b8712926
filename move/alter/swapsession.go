package alter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// pollLocks is the interval at which the state of a session is read while it is expected to wait for a lock.
const pollLocks = 10 * time.Millisecond

// sessions are those of a try. The observer watches the other two, which lock the table or wait for its lock.
//
// The server bounds how long they do, so that clients do not wait for this process if it is stopped or cut off. A watchdog each ends
// them at 1.8 × --max-lock-wait after the lock was requested, at which time this process has given up, if it can (within). A
// session that is ended is no danger at any step: see swap.go. Should the watchdogs themselves be ended, the limits of the sessions
// remain, which count again from each statement.
type sessions struct {
	keeper, switcher, observer *mysqlconn.Client
	watchdogs                  []*session.Watchdog // of the keeper and of the switcher
	limited                    time.Time           // when the watchdogs were started
}

// Parts of --max-lock-wait, by which it is multiplied.
const (
	ownShare      = 1.7 // time after which a try is given up
	watchdogShare = 1.8
)

func times(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * share)
}

func (w *swapper) open(ctx context.Context) (*sessions, error) {
	var s sessions
	for i, c := range []**mysqlconn.Client{&s.keeper, &s.switcher, &s.observer} {
		var err error
		if *c, err = session.Connect(ctx, w.o.On); err == nil {
			err = setLockWait(ctx, *c, w.o.MaxLockWait)
		}
		if err == nil { // the try before may have left a statement
			err = state.TakeLock(ctx, *c, swapLock(w.s, swapRoles[i]), 2*w.o.MaxLockWait)
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
	for _, c := range []*mysqlconn.Client{s.keeper, s.switcher} {
		d, err := session.OpenWatchdog(ctx, w.o.On, c)
		if err != nil {
			s.close()
			return nil, err
		}
		s.watchdogs = append(s.watchdogs, d)
	}
	return &s, nil
}

// close ends the sessions, and with them their locks.
func (s *sessions) close() {
	for _, c := range []*mysqlconn.Client{s.keeper, s.switcher, s.observer} {
		if c != nil {
			_ = c.Close()
		}
	}
	for _, d := range s.watchdogs {
		d.Close()
	}
}

// limit has the server bound the locks of the sessions, before the first is requested.
func (s *sessions) limit(ctx context.Context, most time.Duration) error {
	s.limited = time.Now()
	for _, c := range []*mysqlconn.Client{s.keeper, s.switcher} {
		if err := session.LimitLocks(ctx, c, most, 2*most); err != nil {
			return err
		}
	}
	for _, d := range s.watchdogs {
		if err := d.Start(ctx, times(most, watchdogShare)); err != nil {
			return err
		}
	}
	return nil
}

// within bounds what is done while clients wait, once the lock is granted.
func (s *sessions) within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	left := min(most, time.Until(s.limited.Add(times(most, ownShare))))
	return context.WithTimeoutCause(ctx, left, fmt.Errorf("it was not done within the %v of option max-lock-wait", most))
}

// asked is a statement that a session executes while others are at work.
type asked struct{ done chan error }

func ask(ctx context.Context, c *mysqlconn.Client, sql string) *asked {
	a := &asked{done: make(chan error, 1)}
	go func() {
		a.done <- panics.Guard(func() error {
			_, err := c.Exec(ctx, sql)
			return err
		})
	}()
	return a
}

// waiting blocks until the switcher waits for a table's lock. It returns the error of the statement if that has ended instead.
func (s *sessions) waiting(ctx context.Context, a *asked) error {
	for {
		state, _, err := session.State(ctx, s.observer, s.watchdogs[1].Victim)
		if err != nil {
			return err
		}
		if strings.HasPrefix(state, "Waiting for table metadata lock") {
			return nil
		}
		select {
		case err := <-a.done:
			if err == nil {
				err = errors.New("it did not wait for the table's lock, which was lost")
			}
			a.done <- err
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollLocks):
		}
	}
}

// A lostError is the end of a RENAME whose response was lost: its effect is unknown.
type lostError struct{ cause error }

// Error implements error.
func (e lostError) Error() string {
	return "the connection was lost while the tables were renamed; run the same command again: it finds out whether they were: " + e.cause.Error()
}

// lost returns the error of a RENAME.
func lost(err error) error {
	var refused *mysqlconn.ServerError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return lostError{err}
}

// outcome finds out the effect of a RENAME whose response was lost, once its session has ended: servers rename all tables of a
// statement or none.
func (w *swapper) outcome(ctx context.Context, s *sessions, failed error) error {
	var l lostError
	if !errors.As(failed, &l) {
		return failed
	}
	var shadow, old bool
	err := retry.Within(ctx, w.o.Patience, func() error {
		c, err := session.Connect(ctx, w.o.On)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }() // it only reads
		_, exists, err := session.State(ctx, c, s.watchdogs[1].Victim)
		if err == nil && exists {
			err = errors.New("the session that renames the tables may still do so")
		}
		if err == nil {
			shadow, err = w.s.exists(ctx, c, w.shadow)
		}
		if err == nil {
			old, err = w.s.exists(ctx, c, w.old)
		}
		return err
	})
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case old && !shadow:
		return nil
	case shadow && !old:
		return fmt.Errorf("the session that was to rename the tables ended before it did: %w", l.cause)
	}
	return failed
}
