package state

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Lease is a run's exclusive right to write to its target tables. It consists of
//
//   - named locks, one per table, of one session, the holder: while that session exists in the server,
//     whatever statement it executes, no other run starts. Statements that are not transactional (CREATE,
//     TRUNCATE, DROP INDEX) are sent only over this session;
//   - an epoch, a random token in the tables' rows of copy_epoch. Every transaction that changes rows or
//     state reads it under a shared lock before it commits. A new run replaces it under an exclusive lock, so
//     a transaction of an older run has either committed before the new run reads the state, or never does.
//
// A run's knowledge of the target in memory is valid only while the holder's session exists: a server that
// was restarted, or replaced by another, may have lost acknowledged commits. Every new connection therefore
// checks that the holder still has its locks, and a run that has lost its lease starts again from the state.
type Lease struct {
	state   State
	session string         // connection id of the holder
	First   *tabledef.Spec // the table whose row in copy_epoch transactions check
	epoch   string
}

// ErrLeaseLost is the error of a run that may no longer write to the target.
var ErrLeaseLost = errors.New("the lease on the target tables is lost: its session was closed, or another run took over")

// ErrState means that the state in the target differs from what the run has written. Repeating does not help.
var ErrState = errors.New("the state in the target is not as it was written")

// ErrLocked means that another run holds a lock.
var ErrLocked = errors.New("another tare copy is at work")

// Epochs returns the name of copy_epoch.
func (s State) Epochs() string { return session.Ident(s.Schema) + ".copy_epoch" }

// CreateEpochs creates copy_epoch if it is missing.
func (s State) CreateEpochs(ctx context.Context, c *mysqlconn.Client) error {
	return s.createTables(ctx, c, "CREATE TABLE IF NOT EXISTS "+s.Epochs()+` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  epoch         varbinary(64) NOT NULL COMMENT 'token of the only run that may write; empty: none',
  taken         datetime(6) NOT NULL,
  PRIMARY KEY (target_schema, target_table),
  KEY epoch (epoch)
) ENGINE=InnoDB COMMENT='which run of tare copy may write to a table'`)
}

// AcquireLease acquires the lease on tables; c becomes the holder. It returns once no statement of an earlier
// run can take effect any more.
func AcquireLease(ctx context.Context, c *mysqlconn.Client, s State, specs []*tabledef.Spec, patience time.Duration) (*Lease, error) {
	specs = slices.SortedFunc(slices.Values(specs), func(a, b *tabledef.Spec) int { return strings.Compare(a.Target(), b.Target()) })
	l := &Lease{state: s, First: specs[0], epoch: newEpoch()}
	for _, spec := range specs {
		got, err := getLock(ctx, c, LockName(spec), 2)
		if err != nil {
			return nil, fmt.Errorf("lock %s in the target: %w", spec.Target(), err)
		}
		if !got {
			return nil, fmt.Errorf("%w on %s: wait for it, or stop it; a killed one lets go as soon as the server notices", ErrLocked, spec.Target())
		}
	}
	// The holder is idle until the copy ends.
	if err := session.Set(ctx, c, session.Int("wait_timeout", 31536000)); err != nil {
		return nil, fmt.Errorf("prepare the lease on the target tables: %w", err)
	}
	var err error
	if l.session, err = session.QueryValue(ctx, c, "SELECT CONNECTION_ID()"); err == nil {
		err = s.CreateEpochs(ctx, c)
	}
	if err == nil {
		err = l.replaceEpochs(ctx, c, specs)
	}
	if err != nil {
		return nil, fmt.Errorf("take the lease on the target tables: %w", err)
	}
	for _, spec := range specs {
		if err := LockIndexes(ctx, c, spec, patience); err != nil {
			return nil, err
		}
		if err := unlockIndexes(ctx, c, spec); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// CloseLease closes the connection that has a lease. It releases the locks first: the server would do so
// too, but only when it detects that the connection is closed, and until then another run waits and Plan
// fails.
func CloseLease(c *mysqlconn.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = session.QueryValue(ctx, c, "SELECT RELEASE_ALL_LOCKS()") // the connection may be lost
	_ = c.Close()
}

func newEpoch() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// replaceEpochs replaces the epoch of the tables, and revokes that of the earlier runs for all of their tables.
func (l *Lease) replaceEpochs(ctx context.Context, c *mysqlconn.Client, specs []*tabledef.Spec) error {
	for _, spec := range specs {
		err := RepeatDeadlocked(func() error {
			_, err := c.Exec(ctx, "INSERT INTO "+l.state.Epochs()+" (target_schema, target_table, epoch, taken) VALUES ("+
				session.Literal(spec.ToSchema)+", "+session.Literal(spec.StateName())+", '', UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE epoch = epoch")
			return err
		})
		if err != nil {
			return err
		}
	}
	return RepeatDeadlocked(func() error {
		return transaction(ctx, c, func() error { return l.replace(ctx, c, specs) })
	})
}

// replace is the body of take's transaction.
func (l *Lease) replace(ctx context.Context, c *mysqlconn.Client, specs []*tabledef.Spec) error {
	var before []string
	for _, spec := range specs {
		epoch, err := session.QueryValue(ctx, c, "SELECT epoch FROM "+l.state.Epochs()+RowsOf(spec)+" FOR UPDATE")
		if err != nil {
			return err
		}
		if epoch != "" {
			before = append(before, session.Literal(epoch))
		}
	}
	if len(before) > 0 {
		if _, err := c.Exec(ctx, "UPDATE "+l.state.Epochs()+" SET epoch = '' WHERE epoch IN ("+strings.Join(before, ", ")+")"); err != nil {
			return err
		}
	}
	for _, spec := range specs {
		if err := ExecExact(ctx, c, "UPDATE "+l.state.Epochs()+" SET epoch = "+session.Literal(l.epoch)+", taken = UTC_TIMESTAMP(6)"+RowsOf(spec), 1); err != nil {
			return err
		}
	}
	n, err := session.QueryValue(ctx, c, "SELECT COUNT(*) FROM "+l.state.Epochs()+" WHERE epoch = "+session.Literal(l.epoch))
	if err == nil && n != strconv.Itoa(len(specs)) {
		err = fmt.Errorf("%w: %s of %d tables have the run's epoch", ErrState, n, len(specs))
	}
	return err
}

// Check returns ErrLeaseLost unless the run still has its epoch. It must be called within a transaction, and
// prevents other runs from replacing the epoch until the transaction ends. Transactions of one run do not
// wait for each other.
func (l *Lease) Check(ctx context.Context, c *mysqlconn.Client) error {
	epoch, err := session.QueryValue(ctx, c, "SELECT epoch FROM "+l.state.Epochs()+RowsOf(l.First)+" LOCK IN SHARE MODE")
	if Absent(err) || err == nil && epoch != l.epoch {
		return ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("check the run's epoch in schema %s: %w", l.state.Schema, err)
	}
	return nil
}

// Confirm returns an error unless the holder's session exists on the server that c is connected to.
func (l *Lease) Confirm(ctx context.Context, c *mysqlconn.Client) error {
	session, err := session.QueryValue(ctx, c, "SELECT COALESCE(IS_USED_LOCK("+session.Literal(LockName(l.First))+"), 0)")
	switch {
	case err != nil:
		return fmt.Errorf("check the run's lock: %w", err)
	case session != l.session:
		return ErrLeaseLost
	}
	return nil
}

// Write runs do in a transaction that commits only while the run has its epoch. A transaction that the server rolls back for the sake of
// another run's is repeated.
func (l *Lease) Write(ctx context.Context, c *mysqlconn.Client, do func() error) error {
	return RepeatDeadlocked(func() error {
		return transaction(ctx, c, func() error {
			if err := l.Check(ctx, c); err != nil {
				return err
			}
			return do()
		})
	})
}

// RepeatDeadlocked calls do, a whole transaction or a statement outside of one, again while the server rolls it back for
// the sake of another run's: parts of a split, or of a merge, record their states in the same tables at the same time.
func RepeatDeadlocked(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		var refused *mysqlconn.ServerError
		if !errors.As(err, &refused) || refused.Number != mysqlwire.ErrnoDeadlock || try == MaxTries {
			return err
		}
	}
}

// transaction runs do in a transaction, which is rolled back if do or the COMMIT fails.
func transaction(ctx context.Context, c *mysqlconn.Client, do func() error) error {
	if _, err := c.Exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	err := do()
	if err == nil {
		_, err = c.Exec(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = c.Exec(ctx, "ROLLBACK") // a lost connection does so too
	}
	return err
}

// ExecExact executes a statement and returns an error unless it affects one of the given numbers of rows without
// a warning: the session's sql_mode is not strict, and a value that does not fit would be truncated.
func ExecExact(ctx context.Context, c *mysqlconn.Client, sql string, affected ...uint64) error {
	res, err := c.Exec(ctx, sql)
	switch {
	case err != nil:
		return err
	case res.Warnings != 0:
		return fmt.Errorf("%w: %d warnings by %.100q", ErrState, res.Warnings, sql)
	case len(affected) > 0 && !slices.Contains(affected, res.AffectedRows):
		return fmt.Errorf("%w: %d rows were affected instead of %d by %.100q", ErrState, res.AffectedRows, affected[0], sql)
	}
	return nil
}

// LockName returns the name of a run's lock on a target table. Such names have at most 64 characters in
// MySQL, which computes no SHA1 since 9.6. If several sources are merged, each has a lock, and that of the first is the one
// of a copy from a single source.
func LockName(spec *tabledef.Spec) string {
	name := spec.Target()
	if spec.Owner != nil && spec.Owner.Source > 0 {
		name = spec.StateTarget()
	}
	return fmt.Sprintf("tare.copy.%x", sha1.Sum([]byte(name)))
}

func indexLockName(spec *tabledef.Spec) string {
	return fmt.Sprintf("tare.index.%x", sha1.Sum([]byte(spec.Target())))
}

func getLock(ctx context.Context, c *mysqlconn.Client, name string, seconds int) (bool, error) {
	got, err := session.QueryValue(ctx, c, fmt.Sprintf("SELECT COALESCE(GET_LOCK(%s, %d), 0)", session.Literal(name), seconds))
	return got == "1", err
}

// LockIndexes acquires the lock under which the indexes of a table are changed. ALTER TABLE is not
// transactional: the session that executes it has this lock, and checks the epoch after acquiring it; a new
// run replaces the epoch first and then waits for the lock.
func LockIndexes(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, patience time.Duration) error {
	got, err := getLock(ctx, c, indexLockName(spec), max(1, int(patience.Seconds())))
	if err == nil && !got {
		var id string
		id, err = session.QueryValue(ctx, c, "SELECT COALESCE(IS_USED_LOCK("+session.Literal(indexLockName(spec))+"), 0)")
		if err == nil {
			return fmt.Errorf("%w: an ALTER TABLE of a run that has ended still executes on %s in the target, as connection %s: wait for it, or KILL %s there",
				ErrLocked, spec.Target(), id, id)
		}
	}
	if err != nil {
		return fmt.Errorf("lock the indexes of %s in the target: %w", spec.Target(), err)
	}
	return nil
}

func unlockIndexes(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) error {
	if _, err := session.QueryValue(ctx, c, "SELECT RELEASE_LOCK("+session.Literal(indexLockName(spec))+")"); err != nil {
		return fmt.Errorf("unlock the indexes of %s in the target: %w", spec.Target(), err)
	}
	return nil
}

// WithIndexLock calls do, which alters a table, under its index lock, after checking the epoch under the
// lock.
func WithIndexLock(ctx context.Context, c *mysqlconn.Client, l *Lease, spec *tabledef.Spec, patience time.Duration, do func() error) (err error) {
	if err := LockIndexes(ctx, c, spec, patience); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = unlockIndexes(ctx, c, spec)
		}
	}()
	if err := l.Check(ctx, c); err != nil {
		return err
	}
	return do()
}
