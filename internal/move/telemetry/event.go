package telemetry

import (
	"fmt"
	"strings"
)

// An EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventSnapshot  EventKind = "snapshot"   // the source's snapshot was taken; Text describes how and at which position
	EventNotCopied EventKind = "not-copied" // objects of the source that the copy does not include: NotCopied; Text lists them
	EventObject    EventKind = "object"     // an object besides tables was created in the target; Text names it
	EventTable     EventKind = "table"      // a table is started or resumed: Chunks and Rows were copied before
	EventChunk     EventKind = "chunk"      // a chunk is in the target: its Rows and Bytes
	EventRetry     EventKind = "retry"      // a chunk's transaction is repeated; Text has the reason
	EventIndexes   EventKind = "indexes"    // the indexes that were left out are being created; Text lists them
	EventDone      EventKind = "done"       // a table is finished
	EventFollow    EventKind = "follow"     // the source's changes are applied from here on: Text is the position of its log
	EventLag       EventKind = "lag"        // the lag of the target: Lag
	EventCaughtUp  EventKind = "caught-up"  // the target has caught up with the source, described in Text
	EventOutrun    EventKind = "outrun"     // the source writes faster than the target applies; Text has the rates
	EventThrottle  EventKind = "throttle"   // the copy is throttled, stopped or resumed, with the rate Share; Text has the reason
	EventCutover   EventKind = "cutover"    // a step of a cutover, described in Text
	EventAlter     EventKind = "alter"      // a step of an ALTER TABLE, described in Text
	EventControl   EventKind = "control"    // a request over the control socket that changes the run; Text describes it, its client and its status
	EventWait      EventKind = "wait"       // the copy has waited for a while: Wait has the reason
	EventWaited    EventKind = "waited"     // such a wait is over: Wait has its duration
	EventVerified  EventKind = "verified"   // a chunk is equal on both sides: its Rows
	EventDiffers   EventKind = "differs"    // a chunk differs, described in Text
)

// An Event is an event of a copy, for people or programs that observe it.
type Event struct {
	Kind  EventKind `json:"event"`
	Table string    `json:"table,omitempty"` // in the source
	Chunk int       `json:"chunk"`           // number of the chunk, from 0
	Rows  int64     `json:"rows"`
	Bytes int64     `json:"bytes"` // of rows as they are read

	Chunks       int   `json:"chunks,omitempty"`        // with table: copied before
	RowsEstimate int64 `json:"rows_estimate,omitempty"` // with table: the server's estimate

	Lag *Lag `json:"lag,omitempty"` // with lag

	Progress *CopyProgress `json:"progress,omitempty"` // with chunk: of all tables

	NotCopied *NotCopied `json:"not_copied,omitempty"` // with not-copied

	Wait *WaitStatus `json:"wait,omitempty"` // with wait and waited

	Share *float64 `json:"share,omitempty"` // with throttle: the current rate as a fraction of full speed

	Text string `json:"text,omitempty"`

	From string `json:"from,omitempty"` // address of the source, if there are several
	To   string `json:"to,omitempty"`   // address of the target, if there are several
}

// A NotCopied lists the objects of one kind in a schema of the source that a copy does not include.
type NotCopied struct {
	Kind   string   `json:"kind"` // trigger, view, procedure, function, event, grantee, schema default
	Schema string   `json:"schema"`
	Names  []string `json:"names"`
}

// shownNames is the maximum number of names in a text.
const shownNames = 20

// String lists the objects, abbreviated if there are many.
func (n *NotCopied) String() string {
	names := n.Names
	more := ""
	if len(names) > shownNames {
		names, more = names[:shownNames], fmt.Sprintf(" and %d more", len(names)-shownNames)
	}
	return n.Kind + " in " + n.Schema + ": " + strings.Join(names, ", ") + more
}
