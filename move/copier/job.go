package copier

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// A job has the fields that the phases of a run share. The describer and the phase prepare set them; the others read them.
type job struct {
	o *Options
	sides
	state   state.State
	tables  []*tabledef.Table
	dialect *dialect.Translator

	pacer   *throttle.Pacer // nil if nothing is copied
	weighed int64           // heap bytes in Metrics
}

// The sides are the servers of a copy.
type sides struct {
	from   binlog.Follower
	source string            // the source's identity, as recorded in the state
	to     *mysqlconn.Client // its session has the locks on the target tables
}

func newJob(o *Options) *job { return &job{o: o, state: state.State{Schema: o.StateSchema}} }

// close closes the connections, which releases the locks.
func (j *job) close() {
	j.unweigh()
	if j.from != nil {
		_ = j.from.Close()
	}
	if j.to != nil {
		state.CloseLease(j.to)
	}
}

// connectSource connects to the source within the patience.
func (j *job) connectSource(ctx context.Context) (binlog.Follower, error) {
	defer j.o.waits.Begin("a connection to the source", "", j.o.Patience)()
	ctx, cancel := context.WithTimeoutCause(ctx, j.o.Patience, fmt.Errorf("no connection within %v", j.o.Patience))
	defer cancel()
	return j.o.From(ctx)
}

// openSnapshot takes the source's snapshot.
func (j *job) openSnapshot(ctx context.Context, workers int) (rowstream.View, error) {
	defer j.o.waits.Begin("a consistent snapshot of the source", "locks and transactions of others there", snapshotLimit)()
	ctx, cancel := context.WithTimeoutCause(ctx, snapshotLimit, fmt.Errorf("take a consistent snapshot: it took longer than %v", snapshotLimit))
	defer cancel()
	return j.from.Snapshot(ctx, workers, j.present())
}

// snapshotLimit bounds the time to take the snapshot, including all waits.
const snapshotLimit = 5 * time.Minute

// present returns the tables whose current definition is the one used.
func (j *job) present() (all []*rowstream.Table) {
	for _, t := range j.tables {
		if !t.Past() {
			all = append(all, t.Source)
		}
	}
	return all
}

// newWriter returns a writer to the target.
func (j *job) newWriter() *state.Writer {
	return &state.Writer{Cfg: j.o.To, State: j.state, Patience: j.o.Patience, Follows: j.o.Follow, Waits: j.o.waits, Observe: j.o.Observe}
}

// shortViews reports whether rows are read through short views: while changes are followed, unless a table
// has stored generated columns, which are compared in the view that their chunk was read from.
func (j *job) shortViews() bool {
	return j.o.Follow && !slices.ContainsFunc(j.tables, (*tabledef.Table).StoresGenerated)
}

// streams returns the options of all streams of changes.
func (j *job) streams() follow.Shared {
	return follow.Shared{
		Workers: j.o.Workers, Ignore: j.o.IgnoreStatements, Patience: j.o.Patience, Waits: j.o.waits, Observe: j.o.Observe,
		Count: j.o.Metrics.applied, Heap: j.o.Metrics.changeBytes(),
	}
}

// newHeart returns the heart of a stream of changes from a server, or nil if heartbeats are off.
func (j *job) newHeart(source binlog.Follower, copy string, tables []*tabledef.Table) *follow.Heartbeat {
	if j.o.Heartbeat.Off || len(tables) == 0 {
		return nil
	}
	return follow.NewHeartbeat(follow.HeartbeatOptions{
		Source: source, Copy: copy, Tables: tables, OnReplica: j.o.Heartbeat.OnReplica,
		Patience: j.o.Patience, Waits: j.o.waits, Observe: j.o.Observe,
	})
}

// sources returns the identities under which the source may be recorded: its current one and the recorded ones.
func (j *job) sources(ctx context.Context) ([]string, error) {
	recorded, err := j.state.RecordedSources(ctx, j.to, j.o.Tables)
	return append([]string{j.source}, recorded...), err
}

// describing returns the options for describing the tables.
func (j *job) describing() tabledef.DescribeOptions {
	return tabledef.DescribeOptions{Follow: j.o.Follow, Verify: j.o.Verify, KeepIndexes: j.o.KeepIndexes, Triggers: true, Dialect: j.dialect}
}
