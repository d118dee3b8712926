package copier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/accounts"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	// DefaultWorkers is the number of chunks copied concurrently. The inserting server is the bottleneck long
	// before the copier is.
	DefaultWorkers = 4

	// defaultChunkBytes is the approximate number of bytes of rows per transaction: large enough that the
	// cost of transactions is negligible, small enough to be rolled back and repeated quickly.
	defaultChunkBytes = 16 << 20

	// DefaultPatience is how long the copy waits for an unreachable target.
	DefaultPatience = time.Minute

	// defaultMaxViewAge is the maximum age of a view of a followed source: short for clients that wait for
	// its metadata locks, and long enough that the cost of taking views is negligible.
	defaultMaxViewAge = time.Minute

	minViewAge = 100 * time.Millisecond
)

// A Tuning is how much is done at a time, and how long a server that does not respond is awaited.
type Tuning = throttle.Tuning

// Options specify a copy.
type Options struct {
	// From opens the side that rows are read from; see FromServer and FromRemote.
	From func(context.Context) (binlog.Follower, error)

	To     mysqlconn.Config
	Tables []tabledef.Spec

	// Objects are the objects of whole schemas that are copied with the tables; see Resolve. Nil: tables alone.
	Objects *inventory.Inventory

	// Objects was resolved from Selection.
	Selection inventory.Selection

	// Accounts are those that are copied with the schemas; see Resolve. Nil: none.
	Accounts *accounts.Plan

	// Collations has the target's collations in place of those that it has not, where none compares by the same rules.
	Collations map[string]string

	// Tuning has DefaultWorkers, defaultChunkBytes and DefaultPatience in place of zeros. MaxViewAge is for copies that follow, which
	// read rows through many views that become consistent by the changes applied; 0: defaultMaxViewAge. Without Follow there is one
	// view without a limit.
	Tuning

	StateSchema string // empty: DefaultStateSchema

	// KeepIndexes keeps secondary indexes while rows are copied. Otherwise non-unique ones of an empty target
	// table are dropped before the rows and created again afterwards.
	KeepIndexes bool

	// Restart discards the progress of earlier runs and empties the target tables. A table with rows that no
	// copy has recorded is emptied only if Truncate names it, as schema.table.
	Restart  bool
	Truncate []string

	// Follow applies the source's changes once the rows are copied, until the copy is finished over its
	// control socket or, with UntilCaughtUp, until the target has caught up once.
	Follow        bool
	UntilCaughtUp bool

	// IgnoreStatements are the digests of statements in the source's binary log that change no copied table.
	// Following continues after them.
	IgnoreStatements []sqldigest.Digest

	// Heartbeat configures the heartbeats by which lag is measured while changes are followed.
	Heartbeat HeartbeatOptions

	// Cutover switches clients to the target once it has caught up. nil: they are not switched.
	Cutover *cutover.Options

	// Verify compares all rows on both sides once they are copied.
	Verify bool

	// Swap gives the targets the names of the sources once the target has caught up, which ends following; nil: they keep their names.
	Swap Swap

	// Throttle slows the copy down to protect the servers' other clients.
	Throttle throttle.Options

	// Control is the path of a Unix socket over which the copy can be watched and changed while it runs;
	// empty: none. See Control, ControlDir and ControlName.
	Control string

	// MayRun reports whether reading may continue. It is called before each row, at most once per tick of
	// the process's clock. nil: always.
	MayRun func() bool

	waits *telemetry.Waits // the current waits of the copy

	part  *splitPart // nil: the copy is no part of a Split
	merge *mergePart // nil: the copy is no part of a merge

	// Metrics are the copy's metrics; nil: none.
	Metrics *Metrics

	// Observe is called with each event, concurrently by several goroutines. It may be nil.
	Observe func(telemetry.Event)
}

func (o *Options) setDefaults() {
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.ChunkBytes = cmp.Or(o.ChunkBytes, defaultChunkBytes)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	o.StateSchema = cmp.Or(o.StateSchema, state.DefaultStateSchema)
	if o.Observe == nil {
		o.Observe = func(telemetry.Event) {}
	}
	for i := range o.Tables {
		o.Tables[i].Defaults()
	}
}

// validate sets defaults and returns an error if the options are invalid.
func (o *Options) validate() error {
	o.setDefaults()
	switch {
	case o.From == nil:
		return errors.New("no server to copy from")
	case len(o.Tables) == 0:
		return errors.New("no tables to copy")
	case o.Workers < 0 || o.Workers > 256:
		return fmt.Errorf("option workers %d: use 1 to 256", o.Workers)
	case o.UntilCaughtUp && !o.Follow:
		return errors.New("until the target has caught up has no meaning when changes are not followed")
	case o.MaxViewAge != 0 && !o.Follow:
		return errors.New("views of a limited age need changes to be followed, which make their rows consistent")
	case o.MaxViewAge != 0 && o.MaxViewAge < minViewAge:
		return fmt.Errorf("views of at most %v: use %v or more", o.MaxViewAge, minViewAge)
	case o.Swap != nil && (!o.Follow || o.UntilCaughtUp || o.Cutover != nil):
		return errors.New("tables are swapped when changes are followed, and without a cutover")
	case o.Cutover != nil && (!o.Follow || o.UntilCaughtUp):
		return errors.New("a cutover needs changes to be followed until clients are at the target")
	case o.ChunkBytes < 1<<10 || o.ChunkBytes > 1<<30:
		return fmt.Errorf("option chunk-bytes %d: use 1KiB to 1GiB", o.ChunkBytes)
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
		o.MaxViewAge = cmp.Or(o.MaxViewAge, defaultMaxViewAge)
	}
	o.To.Patience = cmp.Or(o.To.Patience, o.Patience)
	return o.To.Validate()
}

// HeartbeatOptions configure the heartbeats by which a copy that follows proves that the log it reads is
// current.
type HeartbeatOptions struct {
	// Off disables heartbeats. Lag is then estimated from positions of the log, a log that was reset is
	// detected only if it is shorter, and a position of another server may be taken for one of the source.
	Off bool

	// OnReplica permits a source that is a replica: heartbeats are written to its primary.
	OnReplica bool
}

// FromServer returns a function for Options.From that connects to the server directly.
func FromServer(cfg mysqlconn.Config) func(context.Context) (binlog.Follower, error) {
	return func(ctx context.Context) (binlog.Follower, error) {
		d, err := binlog.OpenDirect(ctx, cfg)
		if err != nil {
			return nil, err // a nil *Direct would be a non-nil Follower
		}
		return d, nil
	}
}

// FromRemote returns a function for Options.From that reads from a wire.Service.
func FromRemote(o wire.RemoteOptions) func(context.Context) (binlog.Follower, error) {
	return func(ctx context.Context) (binlog.Follower, error) {
		s, err := wire.OpenRemote(ctx, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}
