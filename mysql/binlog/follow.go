package binlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Follower is a Server whose binary log can be read, and to which heartbeats can be written. A heartbeat
// that was written and then read from the log proves that everything committed before it was written has been
// read.
type Follower interface {
	rowstream.Server

	// CheckFollow returns an error if the tables cannot be followed from a position, with the remedy: because
	// of the log's format and images, its retention, privileges, or foreign keys whose actions are not
	// logged.
	CheckFollow(ctx context.Context, tables []*rowstream.Table, from Position) error

	// Follow reads the changes of tables from a position on.
	Follow(ctx context.Context, o FollowOptions) (Changes, error)

	// CurrentPosition returns the current end of the binary log. Every transaction that a reader of the tables
	// has seen so far is before it.
	CurrentPosition(ctx context.Context) (Position, error)

	// GTIDPosition is CurrentPosition, with the GTID if the server has GTIDs: it is valid on other servers too.
	// The server may have to read a file of its log.
	GTIDPosition(ctx context.Context) (Position, error)

	// LogBytes returns the number of bytes of the log between two positions.
	LogBytes(ctx context.Context, from, to Position) (int64, error)

	// Layout returns, for each current column of a table in order, its index in the table's columns, or -1
	// for a generated column. It returns an error if the table differs from its description.
	Layout(ctx context.Context, t *rowstream.Table) ([]int, error)

	// SchemaChanges returns the changes of the tables' definitions between two positions, in the order of the
	// log. It reads all of the log between them.
	SchemaChanges(ctx context.Context, tables []*rowstream.Table, from, to Position) ([]SchemaChange, error)

	// WriteHeartbeat writes a heartbeat: one row in the HeartbeatTable of each schema, which it creates if it is
	// missing. For a replica it is written to the replica's primary, and must arrive through replication.
	WriteHeartbeat(ctx context.Context, h Heartbeat) error

	// CheckHeartbeat returns the error of WriteHeartbeat if heartbeats must not be written because of the
	// replication of the server, or cannot be because it is read-only or the account lacks privileges. It writes
	// nothing.
	CheckHeartbeat(ctx context.Context, h Heartbeat) error

	// DeleteHeartbeat deletes a run's rows, and the tables that no other run uses.
	DeleteHeartbeat(ctx context.Context, h Heartbeat) error
}

// A Heartbeat is the heartbeat that WriteHeartbeat writes.
type Heartbeat struct {
	Copy      string // letters and digits; the key of the row, which later runs of the same copy reuse
	Run       string // letters and digits; identifies one reader of the log, see FollowOptions
	Number    uint64 // from 1; increasing
	Schemas   []string
	OnReplica bool // permits writing to a replica's primary; otherwise heartbeats on a replica are refused
}

// A SchemaChange is a statement in the log that has changed a table's definition, or has emptied, dropped or
// renamed the table.
type SchemaChange struct {
	Table  int      // index of the table
	At     Position // before it
	SQL    string   // the beginning of the statement, without its literals
	Digest string   // of the statement
	Kind   SchemaChangeKind
	Rows   bool // rows of the table were logged before it: since the previous change, or since the start position
}

// A SchemaChangeKind is the effect of a statement on the rows of a table.
type SchemaChangeKind uint8

// The kinds of changes.
const (
	ChangeIndex    SchemaChangeKind = iota // CREATE INDEX, DROP INDEX: none
	ChangeColumns                          // ALTER TABLE: it may convert them, with the same result for the same statement
	ChangeTruncate                         // TRUNCATE TABLE: it removes them
	ChangeOther                            // anything else: the effect is not in the log
)

// FollowOptions specify which changes of the binary log are read.
type FollowOptions struct {
	// From is the start position. If it has a GTID, the server looks its position up, so that it may be
	// another server than the one that reported the position; otherwise it must be the same server.
	From Position

	// Skip is the number of rows of the transaction after From to skip, because they were returned before:
	// ChangeBatch.Skip.
	Skip uint64

	Tables []*rowstream.Table // as described when they were copied
	Plans  []*rowstream.Plan  // filter and projection of each; a nil entry, or nil: rows are unchanged

	// Before has, per table, the indexes of the columns of the returned rows that before images must have.
	// Other columns may be NULL in them, which saves the memory of long values. A nil entry, or nil: all
	// columns.
	Before [][]int

	// Layouts has, for a table described by its definition at From that has changed since, the result of
	// Layout at that time. A nil entry, or nil: the table must match its description.
	Layouts [][]int

	// Defined has, per table, the position before which changes of its definition are skipped: they are
	// included in its description already, and no rows of another form come before them (see SchemaChanges).
	// A zero entry, or nil: each change stops the reader.
	Defined []Position

	// Starts has, per table, the position before which its changes are skipped: its rows were copied at that
	// position, after From. Neither rows nor changes of its definition before it are read. A zero entry, or
	// nil: no change is skipped.
	Starts []Position

	// Ignore has the digests of statements that the operator has declared harmless: they change no followed
	// table, and reading continues after them. A StopError has the digest of its statement.
	Ignore []sqldigest.Digest

	// BatchBytes is the number of bytes of rows after which a batch is returned; 0: DefaultFollowBytes. A
	// batch may exceed it by the rows of one event. Nothing is read ahead of the batch except into the
	// connection's buffer: the server waits if no batch is requested.
	BatchBytes int

	// PreparedBytes is the maximum number of bytes of rows of prepared XA transactions that are kept until
	// their commit; 0: 32 MiB. The rows of others are read again from the log at their commit,
	// which stops the reader if the server has purged them. Over a wire, the Service sets it.
	PreparedBytes int

	// ServerID is the id of the reader as a replica; 0: a random id from a high range. The server disconnects
	// a reader when another one with its id connects. Over a wire it is 0, and the Service sets it.
	ServerID uint32

	// Heartbeat is the interval at which the server reports that there is nothing new; 0: DefaultHeartbeat. A
	// connection without three consecutive reports is considered lost.
	Heartbeat time.Duration

	// Waiting is called when a lost connection is being reestablished, for at most limit; the function it
	// returns is called at the end of that. It may be nil.
	Waiting func(limit time.Duration) (end func())

	// Run is the run whose heartbeats are recognized; empty: none.
	Run string

	// Patience is how long a lost connection is retried until Next returns its error; 0: DefaultPatience.
	Patience time.Duration
}

// Defaults of FollowOptions.
const (
	DefaultFollowBytes = 4 << 20
	DefaultHeartbeat   = time.Second
)

// Changes return changes of tables, in the order of the log. They must not be used concurrently.
//
// A lost connection is reestablished and reading resumes at the same row: no change is lost or duplicated,
// even within a transaction that was returned in parts. Any error of Next, except that of its context, is
// final. After it, everything up to the last batch's Upto has been returned, and possibly a part of the
// transaction after it: if such a part was applied, resume from Upto, which returns it again.
type Changes interface {
	// Next empties b and fills it with the next changes. It returns when the batch is full, or with a smaller
	// batch when the server has nothing more. An empty batch reports how far the log was read, and at each
	// heartbeat that the server is reachable. Otherwise Next blocks. When ctx ends, it returns the batch
	// unless that is empty. An error that stops the reader is a *StopError.
	Next(ctx context.Context, b *ChangeBatch) error

	// Close stops reading. It may be called while Next runs.
	Close() error
}

// A StopReason is the reason why the log cannot be read further.
type StopReason uint8

// The reasons to stop.
const (
	StopSchema     StopReason = iota + 1 // a followed table's definition changed, or it was dropped, renamed or emptied
	StopStatement                        // changes were logged as a statement instead of rows
	StopImage                            // a row's image lacks columns
	StopLogGone                          // the server no longer has the log at the position
	StopRolledBack                       // logged rows that are not committed there: XA, partial rollbacks
	StopUnknown                          // an event or a value of an unknown kind
	StopSettings                         // by its settings, the server does not log all changes
)

// Known reports whether r is one of the reasons.
func (r StopReason) Known() bool { return r >= StopSchema && r <= StopSettings }

// A StopError reports why the log cannot be read further. The position is before the transaction that cannot
// be read; everything before it has been returned.
type StopError struct {
	Reason StopReason
	At     Position
	Table  string           // full name; empty if it does not concern one table
	What   string           // the problem
	SQL    string           // with StopSchema and StopStatement: the beginning of the statement, without literals; empty if it is unknown
	Digest string           // of the statement, for FollowOptions.Ignore
	Change SchemaChangeKind // the effect of SQL on rows
	Try    string           // the remedy
	Err    error            // the cause, if any
}

func (e *StopError) Error() string {
	what := e.What
	if e.Table != "" {
		what = "table " + e.Table + ": " + what
	}
	if e.Err != nil {
		what += ": " + e.Err.Error()
	}
	return fmt.Sprintf("follow the binary log after %s: %s; %s", e.At.Place(), what, e.Try)
}

func (e *StopError) Unwrap() error { return e.Err }

// stopRows returns the error for rows of a table that were not all read; nil for nil.
func (r *logReader) stopRows(f *followedTable, err error) error {
	if err == nil {
		return nil
	}
	if missing := new(rowstream.LookupError); errors.As(err, &missing) {
		return r.stop(StopUnknown, f.table.FullName(), "a row in the log belongs to no shard", "values may be added while the log is followed", err)
	}
	return r.stop(StopUnknown, f.table.FullName(), "its rows in the log cannot be read", "report it with the table's definition, and copy the table again with option restart", err)
}
