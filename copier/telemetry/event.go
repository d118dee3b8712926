package telemetry

import (
	"fmt"
	"strings"
)

// An EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventSnapshot  EventKind = "snapshot"   // the source's view was taken; Text says how and where
	EventNotCopied EventKind = "not-copied" // objects of the source that the copy leaves behind: NotCopied; Text lists them
	EventTable     EventKind = "table"      // a table is begun or resumed: Chunks and Rows were copied before
	EventChunk     EventKind = "chunk"      // a chunk is in the target: its Rows and Bytes
	EventRetry     EventKind = "retry"      // a chunk's transaction is repeated; Text says why
	EventIndexes   EventKind = "indexes"    // the indexes that were left out are being built; Text names them
	EventDone      EventKind = "done"       // a table is finished
	EventFollow    EventKind = "follow"     // the source's changes are applied from here on: Text is the position of its log
	EventLag       EventKind = "lag"        // how far the target is behind: Lag
	EventCaughtUp  EventKind = "caught-up"  // the target has what the source has; Text says so
	EventOutrun    EventKind = "outrun"     // the source writes faster than the target takes it; Text says how fast
	EventThrottle  EventKind = "throttle"   // the copy is slowed down, stopped or let go again, to Share; Text says why
	EventCutover   EventKind = "cutover"    // a step of a cutover, described in Text
	EventControl   EventKind = "control"    // a call over the control socket that changes the run; Text says which, by whom and its status
	EventWait      EventKind = "wait"       // the copy has waited for a while: Wait has the reason
	EventWaited    EventKind = "waited"     // such a wait is over: Wait says how long it was
	EventVerified  EventKind = "verified"   // a chunk is equal on both sides: its Rows
	EventDiffers   EventKind = "differs"    // a chunk is not; Text says how
)

// An Event is something that people or programs who watch a copy want to know.
type Event struct {
	Kind  EventKind `json:"event"`
	Table string    `json:"table,omitempty"` // in the source
	Chunk int       `json:"chunk"`           // number of the chunk, from 0
	Rows  int64     `json:"rows"`
	Bytes int64     `json:"bytes"` // of rows as they are read

	Chunks       int   `json:"chunks,omitempty"`        // with table: copied before
	RowsEstimate int64 `json:"rows_estimate,omitempty"` // with table: the server's guess

	Lag *Lag `json:"lag,omitempty"` // with lag

	Progress *CopyProgress `json:"progress,omitempty"` // with chunk: of all tables

	NotCopied *NotCopied `json:"not_copied,omitempty"` // with not-copied

	Wait *WaitStatus `json:"wait,omitempty"` // with wait and waited

	Share *float64 `json:"share,omitempty"` // with throttle: of full speed, now

	Text string `json:"text,omitempty"`
}

// A NotCopied is a kind of objects of a schema of the source that a copy leaves behind.
type NotCopied struct {
	Kind   string   `json:"kind"` // trigger, view, procedure, function, event, grantee, schema default
	Schema string   `json:"schema"`
	Names  []string `json:"names"`
}

// shownNames is how many names a text lists.
const shownNames = 20

// String lists the objects, a few of many.
func (n *NotCopied) String() string {
	names := n.Names
	more := ""
	if len(names) > shownNames {
		names, more = names[:shownNames], fmt.Sprintf(" and %d more", len(names)-shownNames)
	}
	return n.Kind + " in " + n.Schema + ": " + strings.Join(names, ", ") + more
}
