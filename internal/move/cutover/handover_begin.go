package cutover

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A HandoverTarget is a target of a handover before its part runs.
type HandoverTarget struct {
	Config mysqlconn.Config
	Schema string // of the state
	Tables []tabledef.Spec
}

// Begin reads from the targets what became of the handovers of earlier runs, before any part runs. If the tables are handed over, it
// returns true: nothing may be applied to the targets again. If an earlier run was interrupted before that, it makes the source
// writable again. It then checks that the account may stop the writes.
func (h *Handover) Begin(ctx context.Context, targets []HandoverTarget, restart bool) (done bool, err error) {
	began := false
	for i := range targets {
		noted, err := h.noted(ctx, &targets[i])
		if err != nil {
			return false, fmt.Errorf("%s: %w", targets[i].Config.Addr, err)
		}
		if i == 0 && noted.phase == phaseHanded {
			return true, h.complete(ctx, targets, &noted, restart)
		}
		began = began || noted.phase == phaseHanding || noted.phase == phaseHanded
	}
	if err := h.source.settled(ctx); err != nil {
		return false, err
	}
	off, err := h.source.writable(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case !off && !began:
		return false, fmt.Errorf("the source (%s) is read-only, and no handover has made it so: the cutover is to do that once all targets have everything; SET GLOBAL read_only = 0 there, and run the command again", h.o.Source.Addr)
	case !off:
		if err := h.source.release(ctx); err != nil {
			return false, fmt.Errorf("make the source writable again, which an interrupted handover has made read-only: %w", err)
		}
		h.notify("an earlier handover was interrupted before it was complete: the source is writable again, and clients are there")
	}
	return false, h.source.check(ctx, h.o.Tables)
}

// Check returns an error if the account may not stop the writes to the source. It changes nothing.
func (h *Handover) Check(ctx context.Context) error { return h.source.check(ctx, h.o.Tables) }

// noted returns the record of the handover in a target.
func (h *Handover) noted(ctx context.Context, t *HandoverTarget) (noted recorded, err error) {
	c, err := session.Connect(ctx, t.Config)
	if err != nil {
		return noted, err
	}
	defer func() { _ = c.Close() }() // it only read
	records := record{state.State{Schema: t.Schema}.Followed("", t.Tables)}
	noted, _, err = records.load(ctx, c)
	return noted, err
}

// complete records the handover in the targets that an earlier run has not reached.
func (h *Handover) complete(ctx context.Context, targets []HandoverTarget, first *recorded, restart bool) error {
	back := fmt.Sprintf("to go back while no client has written to them: SET GLOBAL read_only = 0 on the source, and DELETE FROM %s on each target",
		state.State{Schema: targets[0].Schema}.Cutovers())
	if restart {
		return fmt.Errorf("the tables are handed over to the targets, and option restart would empty tables that clients write to; %s", back)
	}
	off, err := h.source.writable(ctx)
	if err != nil {
		return err
	}
	if off {
		return fmt.Errorf("the tables are handed over to the targets, but the source (%s) is not read-only, as after a restart of it: what clients write there does not reach the targets; "+
			"if clients use the targets: SET GLOBAL read_only = 1 on the source, and read_only in its configuration; %s", h.o.Source.Addr, back)
	}
	for i := range targets {
		if err := h.repeat(ctx, &targets[i], first.source); err != nil {
			return fmt.Errorf("%s: %w", targets[i].Config.Addr, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made, h.report.Phase, h.report.SourcePosition = true, string(phaseHanded), first.source.String()
	return nil
}

// repeat records in a target that the tables are handed over, unless it is recorded there.
func (h *Handover) repeat(ctx context.Context, t *HandoverTarget, position binlog.Position) error {
	noted, err := h.noted(ctx, t)
	if err != nil || noted.phase == phaseHanded {
		return err
	}
	c, err := session.Connect(ctx, t.Config)
	if err != nil {
		return err
	}
	defer state.CloseLease(c)
	s := state.State{Schema: t.Schema}
	specs := make([]*tabledef.Spec, len(t.Tables))
	for i := range specs {
		specs[i] = &t.Tables[i]
	}
	if s.Lease, err = state.AcquireLease(ctx, c, s, specs, h.o.Patience); err != nil {
		return err
	}
	records := record{s.Followed("", t.Tables)}
	return records.recordHandover(ctx, c, position, phaseHanded)
}

// recordHandover records the progress of a handover.
func (s *record) recordHandover(ctx context.Context, c *mysqlconn.Client, position binlog.Position, p phase) error {
	switched := "NULL"
	if p == phaseHanded {
		switched = "UTC_TIMESTAMP(6)"
	}
	return s.write(ctx, c, "REPLACE INTO "+s.Cutovers()+" (id, version, source, targets, phase, source_position, target_position, noted, switched) VALUES ("+
		session.Literal(s.ID)+", "+strconv.Itoa(state.StateVersion)+", "+session.Literal(s.Source)+", "+session.Literal(s.Targets)+", "+session.Literal(string(p))+", "+
		session.Literal(position.String())+", '', UTC_TIMESTAMP(6), "+switched+")", p)
}

// readOnly stops the writes to a server.
type readOnly struct {
	cfg      mysqlconn.Config
	patience time.Duration
}

// use calls do with a connection, which it closes afterwards.
func (r *readOnly) use(ctx context.Context, do func(*mysqlconn.Client) error) error {
	c, err := session.Connect(ctx, r.cfg)
	if err != nil {
		return fmt.Errorf("connect to the source: %w", err)
	}
	defer func() { _ = c.Close() }() // its statements have been executed
	return do(c)
}

// writable reports whether the server accepts writes of accounts without special privileges.
func (r *readOnly) writable(ctx context.Context) (off bool, err error) {
	err = r.use(ctx, func(c *mysqlconn.Client) error {
		v, err := session.QueryValue(ctx, c, "SELECT @@GLOBAL.read_only + 0")
		off = v == "0"
		return err
	})
	return off, err
}

// stopLock is the lock of a session that makes the server read-only. The server may execute its statement after its process was killed.
const stopLock = "tare.read_only"

// settled returns when no statement of an earlier run may make the server read-only any more.
func (r *readOnly) settled(ctx context.Context) error {
	return r.use(ctx, func(c *mysqlconn.Client) error {
		if err := state.AwaitLock(ctx, c, stopLock, r.patience); err != nil {
			return fmt.Errorf("wait until no earlier run makes the source read-only: %w", err)
		}
		return nil
	})
}

// errNoTable is the server's error for a table that does not exist, to an account that may lock it.
const errNoTable = 1146

// check returns an error if the account may not stop the writes. It changes nothing.
func (r *readOnly) check(ctx context.Context, tables []tabledef.Spec) error {
	return r.use(ctx, func(c *mysqlconn.Client) error {
		if !session.IsMariaDB(c.ServerVersion) {
			return checkMySQL(ctx, c, tables)
		}
		if _, err := c.Exec(ctx, "SET GLOBAL read_only = @@GLOBAL.read_only"); err != nil {
			return fmt.Errorf("the cutover of several targets makes the source read-only at the end, which its account must be permitted to do: %w", err)
		}
		for i := range tables {
			sql := "LOCK TABLES " + session.Ident(tables[i].Schema) + ".`_tare no such table` READ"
			var refused *mysqlconn.ServerError
			if _, err := c.Exec(ctx, sql); !errors.As(err, &refused) || refused.Number != errNoTable {
				return fmt.Errorf("the cutover of several targets locks %s against writes, which the source's account must be permitted to do (LOCK TABLES): %w", tables[i].Source(), err)
			}
		}
		return nil
	})
}

// watchdogShare is the share of a limit after which the server ends a session that has a lock, or waits for it: before clients have waited
// for twice the limit.
const watchdogShare = 1.8

// A heldLock is a session with a lock on the source.
type heldLock struct {
	*mysqlconn.Client
	watchdog *session.Watchdog
	until    time.Time // when the watchdog ends the session, or later
}

// close releases the lock.
func (l *heldLock) close() {
	_ = l.Client.Close() // the server releases the lock
	l.watchdog.Close()
}

// lock locks tables against writes until the lock is closed. It waits for open transactions that have written to them, for at most limit.
// MySQL is locked as a whole: see lockMySQL. The server ends the session, and with it the lock, after watchdogShare of limit, also if this
// process is stopped.
func (r *readOnly) lock(ctx context.Context, tables []tabledef.Spec, limit time.Duration) (_ *heldLock, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("lock the source against writes: %w", err)
		}
	}()
	c, err := session.Connect(ctx, r.cfg)
	if err != nil {
		return nil, err
	}
	watchdog, err := session.OpenWatchdog(ctx, r.cfg, c)
	if err != nil {
		_ = c.Close() // it has no locks
		return nil, err
	}
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = session.Ident(tables[i].Schema) + "." + session.Ident(tables[i].Name) + " READ"
	}
	sql := "LOCK TABLES " + strings.Join(names, ", ")
	if !session.IsMariaDB(c.ServerVersion) {
		sql = lockMySQL
	}
	bound := time.Duration(float64(limit) * watchdogShare)
	l := &heldLock{c, watchdog, time.Now().Add(bound)}
	if err = session.LimitLocks(ctx, c, limit, 2*limit); err == nil {
		err = watchdog.Start(ctx, bound)
	}
	if err == nil {
		_, err = c.Exec(ctx, sql)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// stop makes the server read-only. It returns nil only if it certainly is, and an uncertainError if it may be.
func (r *readOnly) stop(ctx context.Context, limit time.Duration) error {
	id := ""
	err := r.use(ctx, func(c *mysqlconn.Client) (err error) {
		if id, err = session.QueryValue(ctx, c, "SELECT CONNECTION_ID()"); err != nil {
			return retry.Final(err)
		}
		if err = session.Set(ctx, c, session.Seconds("lock_wait_timeout", limit)); err == nil {
			err = state.TakeLock(ctx, c, stopLock, limit)
		}
		if err != nil {
			id = ""
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, r.patience, fmt.Errorf("no response within %v", r.patience))
		defer cancel()
		_, err = c.Exec(ctx, "SET GLOBAL read_only = 1")
		return err
	})
	return r.stopped(ctx, id, err)
}

// stopped returns the error of a statement of the connection id that makes the server read-only. If it is not known whether it was
// executed, stopped finds that out.
func (r *readOnly) stopped(ctx context.Context, id string, err error) error {
	var refused *mysqlconn.ServerError
	if err == nil || id == "" || errors.As(err, &refused) && !refused.SafeToRetry() && !state.IsShutdown(refused.Number) {
		return err
	}
	off := false
	unknown := retry.Within(ctx, r.patience, func() error {
		running := false
		if err := r.use(ctx, func(c *mysqlconn.Client) (err error) {
			_, running, err = session.State(ctx, c, id)
			return err
		}); err != nil {
			return err
		}
		if running {
			return fmt.Errorf("connection %s may still be executing it", id)
		}
		var err error
		off, err = r.writable(ctx)
		return err
	})
	switch {
	case unknown != nil:
		return &uncertainError{errors.Join(err, unknown)}
	case off:
		return err
	}
	return nil
}

// release makes the server writable again.
func (r *readOnly) release(ctx context.Context) error {
	return retry.Within(ctx, r.patience, func() error {
		return r.use(ctx, func(c *mysqlconn.Client) error {
			_, err := c.Exec(ctx, "SET GLOBAL read_only = 0")
			if err != nil && !state.IsUnreachable(err) {
				return retry.Final(err)
			}
			return err
		})
	})
}
