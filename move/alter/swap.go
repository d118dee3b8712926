package alter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// The swap gives the shadow the name of the table, when no client can write to the table, and the shadow has all of its changes. Clients
// that wait for the table then use the new one.
//
// In MySQL one session, the switcher, holds both tables locked and renames them. The changes are applied before it has its locks, while
// another session, the keeper, has the table locked against writes:
//
//	keeper: LOCK t READ ──> all changes applied ──> switcher: LOCK t, shadow WRITE, seen waiting ──> keeper: UNLOCK
//	──> switcher has the locks ──> nothing was left to apply ──> RENAME
//
// No one can write to either table after the last step but one. A change that another client has made between the two locks is seen there:
// it cannot be applied, and the try ends.
//
// MariaDB refuses RENAME in a session that has locked tables, so that the renaming session, the switcher, waits for the lock of the keeper.
// If the keeper let go before the switcher waited, clients could write to the table again. If it died, the switcher would rename too
// early. A sentry, a table in the way of RENAME, prevents the latter:
//
//	keeper: LOCK t, sentry WRITE ──> all changes applied ──> switcher: RENAME t TO sentry, shadow TO t, sentry TO old: seen waiting for t
//	──> keeper: DROP sentry, UNLOCK ──> the switcher, which is first in the queue, renames
//
// RENAME takes the locks of its tables in the order of their names. The sentry's name is behind the table's, so that the switcher waits
// for the table itself. If the names of shadow and old are before it, it has their locks by then: a third session sees that the lock of old
// is taken, which the switcher has done after it had waited for whatever else, and then sees it waiting.

// A swapper swaps the tables of a run.
type swapper struct {
	o      *Options
	s      *Statement
	report *CopyReport
	maria  bool

	gateway     *gatewayclient.Client // pauses clients; nil: they are not paused
	shadow, old string                // names: the table that takes the name of the table, and the one that it gets

	// before is called under the lock, with a position before the RENAME; nil: it is not.
	before func(context.Context, *mysqlconn.Client, binlog.Position) error
}

// newSwapper returns a swapper. The name old is sorted behind shadow.
func (r *run) newSwapper(report *CopyReport, g *gatewayclient.Client, shadow, old string) *swapper {
	return &swapper{o: r.o, s: r.s, report: report, maria: session.IsMariaDB(r.c.ServerVersion), gateway: g, shadow: shadow, old: old}
}

// close closes the connection to the gateway.
func (w *swapper) close() {
	if w.gateway != nil {
		w.gateway.Close()
	}
}

// record calls before.
func (w *swapper) record(ctx context.Context, c *copier.Swapping, s *sessions) error {
	if w.before == nil {
		return nil
	}
	p, err := c.Position()
	if err != nil {
		return err
	}
	return w.before(ctx, s.observer, p)
}

// postponed reports that a swap is postponed.
func (w *swapper) postponed() {
	w.o.Monitor.step(telemetry.StepPostponed)
	w.notify("all rows are equal; the swap is postponed until tare alter ctl cutover")
}

// run swaps the tables, within as many tries as the options allow.
func (w *swapper) run(ctx context.Context, c *copier.Swapping) error {
	w.o.Monitor.step(telemetry.StepSwapping)
	for try := 1; ; try++ {
		if err := w.ready(ctx, c); err != nil {
			return err
		}
		if err := c.RaiseCounters(ctx, w.o.MaxLockWait); err != nil && !lockTimeout(err) { // before the pause, which is left with little to do
			return err
		}
		began := time.Now()
		err := w.try(ctx, c)
		w.o.Monitor.tried(began, err)
		if err == nil {
			w.o.Monitor.swapped(time.Since(began))
			w.report.PauseSeconds = time.Since(began).Seconds()
			w.notify("%[1]s.%[2]s has the name %[1]s.%[3]s; clients waited for at most %[4]v; the former table is %[1]s.%[5]s",
				w.s.Schema, w.shadow, w.s.Table, time.Since(began).Round(time.Millisecond), w.old)
			return nil
		}
		c.Thaw()
		if ctx.Err() != nil || !mayPass(err) || errors.Is(err, verify.ErrDiffer) || c.Err() != nil {
			return err
		}
		w.report.SwapTries = append(w.report.SwapTries, err.Error())
		if try >= w.o.LockTries {
			return fmt.Errorf("swap %s with its shadow: %d tries have failed; run the same command again to resume from here; the last one: %w", w.s.fullName(), try, err)
		}
		pause := lockPause(try, w.o.MaxLockWait)
		w.notify("try %d of %d: %v; next try in %v", try, w.o.LockTries, err, pause)
		if !telemetry.Sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// errUnguarded means that the tables were renamed although this process has not permitted it.
var errUnguarded = errors.New("the tables were renamed before all changes were applied: another session has dropped the sentry, so that changes may be missing; compare the tables")

// mayPass reports whether another try may succeed: a lock was not granted in time, or the sentry has done its work.
func mayPass(err error) bool {
	const exists = 1050
	var refused *mysqlconn.ServerError
	return !errors.Is(err, errUnguarded) && !errors.As(err, new(lostError)) && (!errors.As(err, &refused) || refused.SafeToRetry() || refused.Number == exists)
}

func (w *swapper) notify(format string, a ...any) {
	w.o.Observe(telemetry.Event{Kind: telemetry.EventAlter, Text: fmt.Sprintf(format, a...)})
}

// ready blocks until the shadow's lag is small enough to be caught up within the lock.
func (w *swapper) ready(ctx context.Context, c *copier.Swapping) error {
	for {
		if lag, ok := c.Lag(); ok && lag <= w.o.MaxLockWait {
			return nil
		}
		if err := c.Err(); err != nil {
			return err
		}
		if !telemetry.Sleep(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// try swaps the tables, or leaves all as it was.
func (w *swapper) try(ctx context.Context, c *copier.Swapping) error {
	s, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	release, err := w.pauseClients(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := s.limit(ctx, w.o.MaxLockWait); err != nil {
		return err
	}
	if w.maria {
		err = w.behindSentry(ctx, c, s)
	} else {
		err = w.underLocks(ctx, c, s)
	}
	return w.outcome(ctx, s, err)
}

// underLocks is the way of MySQL.
func (w *swapper) underLocks(ctx context.Context, c *copier.Swapping, s *sessions) error {
	locked, cancel, err := w.lock(ctx, s, "LOCK TABLES "+w.s.quotedName()+" READ")
	if err != nil {
		return err
	}
	defer cancel()
	if err := reach(locked, c, s.keeper); err != nil {
		return err
	}
	if err := c.RaiseCounters(locked, w.o.MaxLockWait); err != nil {
		return err
	}
	whole := context.WithoutCancel(ctx) // a statement that was sent is completed, so that its effect is known
	a := ask(whole, s.switcher, "LOCK TABLES "+w.s.quotedName()+" WRITE, "+w.s.sqlName(w.shadow)+" WRITE")
	err = s.waiting(locked, a)
	_, unlockErr := s.keeper.Exec(whole, "UNLOCK TABLES")
	if lockErr := <-a.done; lockErr != nil || err != nil || unlockErr != nil {
		return errors.Join(err, lockErr, unlockErr)
	}
	c.Thaw()
	if err := c.Reach(locked); err != nil {
		return err
	}
	if err := w.record(locked, c, s); err != nil {
		return err
	}
	_, err = s.switcher.Exec(whole, "RENAME TABLE "+w.s.quotedName()+" TO "+w.s.sqlName(w.old)+", "+w.s.sqlName(w.shadow)+" TO "+w.s.quotedName())
	return lost(err)
}

// lock locks the table. The context that it returns ends when clients would wait for too long.
func (w *swapper) lock(ctx context.Context, s *sessions, sql string) (context.Context, context.CancelFunc, error) {
	began := time.Now()
	if _, err := s.keeper.Exec(ctx, sql); err != nil {
		w.report.LockWaits = append(w.report.LockWaits, time.Since(began).Seconds())
		return nil, nil, fmt.Errorf("lock %s: %w", w.s.fullName(), err)
	}
	locked, cancel := s.within(ctx, w.o.MaxLockWait)
	return locked, cancel, nil
}

// sentryComment marks a sentry, which may be dropped.
const sentryComment = "sentry of tare alter, which may be dropped"

// sentry returns the name of the sentry, which is sorted behind that of the table.
func (s *Statement) sentry() string {
	first := "~"
	if s.Table >= first { // of a character beyond ASCII
		first = "\uffee"
	}
	return first + inventory.SentryPrefix + s.Table
}

// behindSentry is the way of MariaDB.
func (w *swapper) behindSentry(ctx context.Context, c *copier.Swapping, s *sessions) error {
	table, old, shadow, sentry := w.s.quotedName(), w.s.sqlName(w.old), w.s.sqlName(w.shadow), w.s.sqlName(w.s.sentry())
	if err := dropSentry(ctx, s.observer, w.s); err != nil {
		return err
	}
	if _, err := s.observer.Exec(ctx, "CREATE TABLE "+sentry+" (tare_sentry INT PRIMARY KEY) ENGINE=InnoDB COMMENT='"+sentryComment+"'"); err != nil {
		return fmt.Errorf("create the sentry of %s: %w", w.s.fullName(), err)
	}
	locked, cancel, err := w.lock(ctx, s, "LOCK TABLES "+table+" WRITE, "+sentry+" WRITE")
	if err != nil {
		return err
	}
	defer cancel()
	if err := reach(locked, c, s.keeper); err != nil {
		return err
	}
	if err := c.RaiseCounters(locked, w.o.MaxLockWait); err != nil {
		return err
	}
	if err := w.record(locked, c, s); err != nil {
		return err
	}
	whole := context.WithoutCancel(ctx) // a statement that was sent is completed, so that its effect is known
	a := ask(whole, s.switcher, "RENAME TABLE "+table+" TO "+sentry+", "+shadow+" TO "+table+", "+sentry+" TO "+old)
	dropped := false
	if err = w.queued(locked, s, a); err == nil {
		_, err = s.keeper.Exec(whole, "DROP TABLE "+sentry)
		var refused *mysqlconn.ServerError
		dropped = !errors.As(err, &refused)
	}
	_, unlockErr := s.keeper.Exec(whole, "UNLOCK TABLES") // a lost session has no locks
	renamed := <-a.done
	switch {
	case dropped:
		return lost(renamed)
	case renamed == nil:
		return errUnguarded
	}
	return errors.Join(err, unlockErr)
}

// queued blocks until the RENAME of the switcher waits for the lock of the table itself.
func (w *swapper) queued(ctx context.Context, s *sessions, a *asked) error {
	if w.s.Table > w.old { // it has the lock of old before it waits for that of the table
		const free = 1146 // there is no such table, and no lock of its name
		for {
			_, err := s.observer.Exec(ctx, "SET STATEMENT lock_wait_timeout = 0 FOR SELECT 1 FROM "+w.s.sqlName(w.old)+" LIMIT 0")
			var refused *mysqlconn.ServerError
			if lockTimeout(err) {
				break
			}
			if err == nil {
				return fmt.Errorf("table %s.%s exists", w.s.Schema, w.old)
			}
			if !errors.As(err, &refused) || refused.Number != free {
				return err
			}
			select {
			case err := <-a.done:
				a.done <- err
				return fmt.Errorf("it did not wait for the table's lock: %w", err)
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(pollLocks):
			}
		}
	}
	return s.waiting(ctx, a)
}

// dropSentry drops the sentry that a dead run has left, once no RENAME of that run waits for it.
func dropSentry(ctx context.Context, c *mysqlconn.Client, s *Statement) error {
	comment, err := session.QueryValue(ctx, c, "SELECT CONCAT('=', TABLE_COMMENT) FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+session.SchemaText(s.Schema)+
		" AND TABLE_NAME = "+session.SchemaText(s.sentry()))
	switch {
	case err != nil:
		return fmt.Errorf("look for the sentry of %s: %w", s.fullName(), err)
	case comment == "":
		return nil
	case comment != "="+sentryComment:
		return fmt.Errorf("table %s.%s is in the way: rename it", s.Schema, s.sentry())
	}
	for began := time.Now(); ; {
		n, err := session.QueryValue(ctx, c, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE LOCATE("+
			session.Literal("RENAME TABLE "+s.quotedName()+" TO ")+", INFO) = 1")
		if err != nil {
			return fmt.Errorf("look for a RENAME of %s: %w", s.fullName(), err)
		}
		if n == "0" {
			break
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("a RENAME of %s by an earlier run still waits: KILL it", s.fullName())
		}
		if !telemetry.Sleep(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	if _, err := c.Exec(ctx, "DROP TABLE "+s.sqlName(s.sentry())); err != nil {
		return fmt.Errorf("drop the sentry of %s: %w", s.fullName(), err)
	}
	return nil
}

// reach blocks until the shadow has all changes, and compares the rows that could not be compared before.
func reach(ctx context.Context, c *copier.Swapping, keeper *mysqlconn.Client) error {
	if err := c.Reach(ctx); err != nil {
		return err
	}
	return c.Compare(ctx, keeper)
}
