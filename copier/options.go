package copier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/cutover"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/rowstream/wire"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/throttle"
)

const (
	// DefaultWorkers is how many chunks are copied at once. A server that inserts is the
	// limit long before the copier is.
	DefaultWorkers = 4

	// DefaultChunkBytes is about how many bytes of rows one transaction writes: enough that
	// transactions do not show, little enough to be repeated and rolled back quickly.
	DefaultChunkBytes = 16 << 20

	// DefaultPatience is how long a target that went away is waited for.
	DefaultPatience = time.Minute

	// DefaultMaxViewAge is how old a view of a source that is followed gets: short for those who wait for its metadata
	// locks, and long enough that taking views does not show.
	DefaultMaxViewAge = time.Minute

	minViewAge = 100 * time.Millisecond
)

// Options say what is copied, from where and how.
type Options struct {
	// From opens the side that rows are read from; see FromServer and FromRemote.
	From func(context.Context) (binlog.Follower, error)

	To     mysqlconn.Config
	Tables []tabledef.Spec

	Workers     int           // 0: DefaultWorkers
	ChunkBytes  int64         // 0: DefaultChunkBytes
	Patience    time.Duration // 0: DefaultPatience
	StateSchema string        // empty: DefaultStateSchema

	// KeepIndexes leaves secondary indexes in place while rows are copied. Otherwise an
	// empty target table loses those that are not unique, and gets them back afterwards.
	KeepIndexes bool

	// Restart forgets what an earlier run has copied and empties the target tables. One with rows that no copy has
	// recorded is emptied only if Truncate names it, as schema.table.
	Restart  bool
	Truncate []string

	// Follow applies the source's changes once the rows are copied, until the copy is told to
	// finish, or, with UntilCaughtUp, until the target has once had all that the source has.
	Follow        bool
	UntilCaughtUp bool

	// MaxViewAge bounds how long a view of the source lives while Follow is set: rows are read through many of them, and
	// made consistent by the changes that are applied. 0: DefaultMaxViewAge. Without Follow there is one view, of any age.
	MaxViewAge time.Duration

	// IgnoreStatements has the digests of statements in the source's binary log that change no
	// copied table: following continues after them.
	IgnoreStatements []sqldigest.Digest

	// Heartbeat is how the lag is proven while changes are followed.
	Heartbeat HeartbeatOptions

	// Cutover switches clients to the target once that has caught up; nil: the copy does not.
	Cutover *cutover.Options

	// Verify compares all rows on both sides once they are copied.
	Verify bool

	// Throttle slows the copy down for the sake of others.
	Throttle throttle.Options

	// Control is the path of a unix socket over which the copy can be watched and changed while
	// it runs; empty: none. See Control, ControlDir and ControlName.
	Control string

	// MayGoOn is asked before each row whether reading may go on, at most once a tick of the
	// process' clock; nil: it may.
	MayGoOn func() bool

	waits *telemetry.Waits // all that the copy waits for

	// Metrics are the copy's metrics; nil: none.
	Metrics *Metrics

	// Observe is told of each event, by several goroutines at once; nil: nobody is.
	Observe func(telemetry.Event)
}

// Validate fills in defaults and says what is wrong with o, if anything.
func (o *Options) Validate() error {
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.ChunkBytes = cmp.Or(o.ChunkBytes, DefaultChunkBytes)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	o.StateSchema = cmp.Or(o.StateSchema, state.DefaultStateSchema)
	if o.Observe == nil {
		o.Observe = func(telemetry.Event) {}
	}
	for i := range o.Tables {
		o.Tables[i].Defaults()
	}
	switch {
	case o.From == nil:
		return errors.New("no server to copy from")
	case len(o.Tables) == 0:
		return errors.New("no tables to copy")
	case o.Workers < 0 || o.Workers > 256:
		return fmt.Errorf("%d workers: use 1 to 256", o.Workers)
	case o.UntilCaughtUp && !o.Follow:
		return errors.New("until the target has caught up has no meaning when changes are not followed")
	case o.MaxViewAge != 0 && !o.Follow:
		return errors.New("views of a limited age need changes to be followed, which make their rows consistent")
	case o.MaxViewAge != 0 && o.MaxViewAge < minViewAge:
		return fmt.Errorf("views of at most %v: use %v or more", o.MaxViewAge, minViewAge)
	case o.Cutover != nil && (!o.Follow || o.UntilCaughtUp):
		return errors.New("a cutover needs changes to be followed until clients are at the target")
	case o.ChunkBytes < 1<<10 || o.ChunkBytes > 1<<30:
		return fmt.Errorf("chunks of %d bytes: use 1 KiB to 1 GiB", o.ChunkBytes)
	}
	targets := make(map[string]bool)
	for i := range o.Tables {
		t := &o.Tables[i]
		if targets[t.Target()] {
			return fmt.Errorf("two tables go to %s", t.Target())
		}
		targets[t.Target()] = true
	}
	if err := o.truncatable(); err != nil {
		return err
	}
	if err := o.Throttle.Validate(); err != nil {
		return err
	}
	if o.Cutover != nil {
		if err := o.Cutover.Validate(); err != nil {
			return err
		}
	}
	if o.Follow {
		o.MaxViewAge = cmp.Or(o.MaxViewAge, DefaultMaxViewAge)
	}
	o.To.Patience = cmp.Or(o.To.Patience, o.Patience)
	return o.To.Validate()
}

// HeartbeatOptions say how a copy that follows proves that the log that it reads is alive.
type HeartbeatOptions struct {
	// Off leaves heartbeats out: the lag is then what positions of the log suggest, a log that was started again is
	// noticed only where it is shorter, and a position of another server may be taken for one of the source.
	Off bool

	// OnReplica allows a source that is a replica: heartbeats are written to its primary.
	OnReplica bool
}

// FromServer reads over connections to the server itself.
func FromServer(cfg mysqlconn.Config) func(context.Context) (binlog.Follower, error) {
	return func(ctx context.Context) (binlog.Follower, error) {
		d, err := binlog.OpenDirect(ctx, cfg)
		if err != nil {
			return nil, err // a nil *Direct would be a Follower that is not nil
		}
		return d, nil
	}
}

// FromRemote reads what a wire.Service serves.
func FromRemote(o wire.RemoteOptions) func(context.Context) (binlog.Follower, error) {
	return func(ctx context.Context) (binlog.Follower, error) {
		s, err := wire.OpenRemote(ctx, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}
