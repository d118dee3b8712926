package rowstream

import (
	"context"
	"fmt"
	"time"
)

// A Follower is a Server whose binary log can be read.
type Follower interface {
	// CheckFollow says what keeps the tables from being followed from a position on, and
	// what to do about it: the log's format and images, its retention, privileges, foreign
	// keys whose actions are not logged. nil when nothing does.
	CheckFollow(ctx context.Context, tables []*Table, from Position) error

	// Follow reads what happened to tables from a position on.
	Follow(ctx context.Context, o FollowOptions) (Changes, error)

	// NowPosition is the end of the binary log now. Every transaction that a reader of the
	// tables has seen until then is before it.
	NowPosition(ctx context.Context) (Position, error)

	// LogBytes is how many bytes of the log are between two positions.
	LogBytes(ctx context.Context, from, to Position) (int64, error)
}

// FollowOptions say what of the binary log is wanted.
type FollowOptions struct {
	// From is where to begin. With a GTID in it the server looks the place up, so that it may
	// be another server than the one that told the position; otherwise it must be the same.
	From Position

	// Skip is how many rows of the transaction behind From are left out, since they were handed
	// out before: a ChangeBatch says how many those are.
	Skip uint64

	Tables []*Table // as they were described when they were copied
	Plans  []*Plan  // filter and projection of each; a nil entry, or nil: all as it is

	// BatchBytes is how many bytes of rows a batch gathers before it is handed out; 0 stands
	// for DefaultFollowBytes. A batch is larger by up to the rows of one event. Nothing is
	// read ahead of the batch but what fits the connection's buffer: who takes no batch makes
	// the server wait.
	BatchBytes int

	// ServerID is the id as which the reader shows up at the server; 0: one at random, from a
	// high range. Two readers of one id throw each other out. Over a wire it is 0: there the
	// Service has one chosen.
	ServerID uint32

	// Heartbeat is how often the server says that there is nothing new; 0 stands for
	// DefaultHeartbeat. Three silent ones are a lost connection.
	Heartbeat time.Duration

	// Patience is how long a lost connection is tried again until Next answers its error; 0
	// stands for DefaultPatience.
	Patience time.Duration
}

// Defaults of FollowOptions.
const (
	DefaultFollowBytes = 4 << 20
	DefaultHeartbeat   = time.Second
	DefaultPatience    = time.Minute
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
)

// A StopError says why reading the log cannot go on. The position is before the transaction
// that cannot be read; everything before it has been handed out.
type StopError struct {
	Reason StopReason
	At     Position
	Table  string // full name; empty when it is not about one table
	What   string // happened
	Try    string // what to do
	Err    error  // what lies beneath, if anything
}

func (e *StopError) Error() string {
	what := e.What
	if e.Table != "" {
		what = "table " + e.Table + ": " + what
	}
	if e.Err != nil {
		what += ": " + e.Err.Error()
	}
	return fmt.Sprintf("follow the binary log after %s: %s; %s", e.At, what, e.Try)
}

func (e *StopError) Unwrap() error { return e.Err }
