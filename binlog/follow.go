package binlog

import (
	"context"
	"fmt"
	"time"

	"github.com/taredb/tare/rowstream"
	"github.com/taredb/tare/sqldigest"
)

// A Follower is a Server whose binary log can be read, and that heartbeats can be written to. A heartbeat that was written and
// then read in the log proves that all that was committed before it was written has been read.
type Follower interface {
	rowstream.Server

	// CheckFollow says what keeps the tables from being followed from a position on, and
	// what to do about it: the log's format and images, its retention, privileges, foreign
	// keys whose actions are not logged. nil when nothing does.
	CheckFollow(ctx context.Context, tables []*rowstream.Table, from Position) error

	// Follow reads what happened to tables from a position on.
	Follow(ctx context.Context, o FollowOptions) (Changes, error)

	// NowPosition is the end of the binary log now. Every transaction that a reader of the
	// tables has seen until then is before it.
	NowPosition(ctx context.Context) (Position, error)

	// NamedPosition is NowPosition, with the GTID where the server has such: it holds on other servers too. The server may have
	// to read a file of its log.
	NamedPosition(ctx context.Context) (Position, error)

	// LogBytes is how many bytes of the log are between two positions.
	LogBytes(ctx context.Context, from, to Position) (int64, error)

	// Layout is each column that a table has now, in order: its number in the table's columns, or -1
	// when it is generated. A table that is not as it was described is an error.
	Layout(ctx context.Context, t *rowstream.Table) ([]int, error)

	// SchemaChanges are the changes of the tables' definitions between two positions, in the
	// log's order. It reads all of the log between them.
	SchemaChanges(ctx context.Context, tables []*rowstream.Table, from, to Position) ([]SchemaChange, error)

	// Beat writes a heartbeat: one row in the HeartbeatTable of each schema, which it creates where it is missing. On
	// a replica it is written to the replica's primary, and must arrive through replication.
	Beat(ctx context.Context, h Heartbeat) error

	// EndBeats removes a run's rows, and the tables that no other run uses.
	EndBeats(ctx context.Context, h Heartbeat) error
}

// A Heartbeat says what Beat writes.
type Heartbeat struct {
	Copy      string // letters and digits, of the row: a later run of the same copy writes the same one
	Run       string // letters and digits, of one reader of the log: see FollowOptions
	Number    uint64 // from 1 on; each is greater than the one before
	Schemas   []string
	OnReplica bool // a replica's primary may be written to; otherwise heartbeats on a replica are refused
}

// A SchemaChange is a statement in the log that has changed a table's definition, or emptied,
// dropped or renamed it.
type SchemaChange struct {
	Table  int      // number of the table
	At     Position // before it
	SQL    string   // the beginning of the statement, without its literals
	Digest string   // of the statement
	Kind   SchemaChangeKind
	Rows   bool // some of the table's were logged before it: behind the change before, or behind the place where reading began
}

// A SchemaChangeKind is what a statement does to the rows of a table.
type SchemaChangeKind uint8

// The kinds of changes.
const (
	ChangeIndex    SchemaChangeKind = iota // CREATE INDEX, DROP INDEX: nothing
	ChangeColumns                          // ALTER TABLE: it may convert them, where the same statement does the same
	ChangeTruncate                         // TRUNCATE TABLE: it removes them
	ChangeOther                            // whatever it is, the log does not tell
)

// FollowOptions say what of the binary log is wanted.
type FollowOptions struct {
	// From is where to begin. With a GTID in it the server looks the place up, so that it may
	// be another server than the one that told the position; otherwise it must be the same.
	From Position

	// Skip is how many rows of the transaction behind From are left out, since they were handed
	// out before: a ChangeBatch says how many those are.
	Skip uint64

	Tables []*rowstream.Table // as they were described when they were copied
	Plans  []*rowstream.Plan  // filter and projection of each; a nil entry, or nil: all as it is

	// Before has for a table the numbers of the columns, of the rows handed out, that images before a change are needed
	// with: the others may be NULL in them, which spares the memory of long values. A nil entry, or nil: all columns.
	Before [][]int

	// Layouts has for a table that is described as it was at From, and is not so any more, what
	// Layout was then. A nil entry, or nil: the table must be as it is described.
	Layouts [][]int

	// Defined has for a table the place before which changes of its definition are passed over: they
	// are in its description already, and no rows of another form come before them (SchemaChanges
	// tells). A zero entry, or nil: each of them stops the reading.
	Defined []Position

	// Starts has for a table the position before which its changes are passed over: its rows were
	// copied at that position, after From. Neither rows nor changes of its definition before it
	// are read. A zero entry, or nil: there are none.
	Starts []Position

	// Ignore has the digests of statements that the operator vouches for: they change no followed
	// table, and reading continues after them. A StopError has the digest of what it is about.
	Ignore []sqldigest.Digest

	// BatchBytes is how many bytes of rows a batch gathers before it is handed out; 0 stands
	// for DefaultFollowBytes. A batch is larger by up to the rows of one event. Nothing is
	// read ahead of the batch but what fits the connection's buffer: who takes no batch makes
	// the server wait.
	BatchBytes int

	// PreparedBytes is how many bytes of rows of prepared XA transactions are kept until these are committed; 0 stands
	// for DefaultPreparedBytes. The rows of others are read again from the log when they are committed, which stops the
	// reading if the server has purged them. Over a wire the Service has it chosen.
	PreparedBytes int

	// ServerID is the id as which the reader shows up at the server; 0: one at random, from a
	// high range. Two readers of one id throw each other out. Over a wire it is 0: there the
	// Service has one chosen.
	ServerID uint32

	// Heartbeat is how often the server says that there is nothing new; 0 stands for
	// DefaultHeartbeat. Three silent ones are a lost connection.
	Heartbeat time.Duration

	// Waiting is told when a lost connection is being made again, for at most limit, and returns a function that is
	// called at the end of that; nil: it is not told.
	Waiting func(limit time.Duration) (end func())

	// Run is whose heartbeats are recognized; empty: none are.
	Run string

	// Patience is how long a lost connection is tried again until Next answers its error; 0
	// stands for DefaultPatience.
	Patience time.Duration
}

// Defaults of FollowOptions.
const (
	DefaultFollowBytes   = 4 << 20
	DefaultPreparedBytes = 32 << 20
	DefaultHeartbeat     = time.Second
)

// Changes hands out what happened to tables, in the log's order. It is for one goroutine.
//
// A lost connection is made again and reading goes on at the very row: nothing is left out or
// handed out twice, also within a transaction that was handed out in parts. Any error of Next
// but that of its context is final. After it, everything up to the last batch's Upto has
// been handed out, and rows of the transaction behind it maybe in part: who applied such a
// part goes on from Upto, and comes by it again.
type Changes interface {
	// Next empties b and fills it with what happened next. It returns when the batch is full
	// or, with what it has, when nothing more is waiting at the server; an empty batch says
	// how far the log was read, and at each heartbeat that the server is there. It blocks
	// otherwise. When ctx ends, it returns what it has, if that is anything. What stops the
	// reading is a *StopError.
	Next(ctx context.Context, b *ChangeBatch) error

	// Close ends the reading. It may be called while Next runs.
	Close() error
}

// A StopReason says why reading the log cannot go on.
type StopReason uint8

// The reasons to stop.
const (
	StopSchema    StopReason = iota + 1 // a followed table's definition changed, or it was dropped, renamed or emptied
	StopStatement                       // changes were logged as a statement instead of rows
	StopImage                           // a row's image lacks columns
	StopLogGone                         // the server no longer has the log at the position
	StopUndone                          // rows were logged that are not committed there: XA, partial rollbacks
	StopUnknown                         // an event or a value that Tare does not know
	StopSettings                        // the server does not log all changes, by its settings
)

// Known reports whether r is one of the reasons.
func (r StopReason) Known() bool { return r >= StopSchema && r <= StopSettings }

// A StopError says why reading the log cannot go on. The position is before the transaction
// that cannot be read; everything before it has been handed out.
type StopError struct {
	Reason StopReason
	At     Position
	Table  string           // full name; empty when it is not about one table
	What   string           // happened
	SQL    string           // with StopSchema and StopStatement: the statement without its literals, its beginning when it is long; empty when it was not seen
	Digest string           // of the statement, for FollowOptions.Ignore
	Change SchemaChangeKind // what SQL does to the rows
	Try    string           // what to do
	Err    error            // what lies beneath, if anything
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
