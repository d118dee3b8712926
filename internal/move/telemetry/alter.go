package telemetry

import "time"

// An AlterStatus is the state of an ALTER TABLE, of which a copy may be a part.
type AlterStatus struct {
	Table string `json:"table"`
	Alter string `json:"alter"`         // the clauses; empty for clients that may not see statement texts
	Way   string `json:"way"`           // instant, inplace or copy; empty: not chosen
	Why   string `json:"why,omitempty"` // the reason for the way

	Steps []StepStatus `json:"steps"` // the latest steps; the last one is current

	LockTries   int64     `json:"lock_tries"`        // statements and swaps that waited for the table's lock
	LockSeconds float64   `json:"lock_wait_seconds"` // in the tries that failed
	Tries       []LockTry `json:"tries"`             // the latest of them

	PauseSeconds float64   `json:"pause_seconds"` // from the request for the lock to the end of the last swap; 0: none
	Old          *OldTable `json:"old,omitempty"` // the old table of a copy, after the swap

	Queue []QueueItem `json:"queue,omitempty"` // all entries of the queue that it is a part of
}

// An AlterStep is a step of an ALTER TABLE.
type AlterStep string

// The steps of an ALTER TABLE.
const (
	StepChecking  AlterStep = "checking"  // the clauses are executed on a probe
	StepAltering  AlterStep = "altering"  // the server alters the table, at once or in place
	StepCopying   AlterStep = "copying"   // rows are copied, changes are followed, and both are compared
	StepPostponed AlterStep = "postponed" // all rows are equal, and ctl cutover is awaited
	StepSwapping  AlterStep = "swapping"  // the tables are swapped
	StepBack      AlterStep = "reversing" // changes are followed back into the old table
	StepDone      AlterStep = "done"
)

// A StepStatus is a step with the time at which it started.
type StepStatus struct {
	Step  AlterStep `json:"step"`
	Start time.Time `json:"start"`
}

// Step returns the current step.
func (a *AlterStatus) Step() AlterStep {
	if len(a.Steps) == 0 {
		return StepChecking
	}
	return a.Steps[len(a.Steps)-1].Step
}

// A LockTry is a statement that waited for a table's lock, or a swap of tables.
type LockTry struct {
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`         // which bound the wait of clients behind it, besides the work of an INPLACE
	Error   string    `json:"error,omitempty"` // empty: it succeeded
}

// An OldTable is the table with the former definition, after a swap.
type OldTable struct {
	Name  string     `json:"name"`
	State string     `json:"state"`            // kept, dropped or reverted
	Until *time.Time `json:"until,omitempty"`  // when it is dropped; null: it is not kept
	NoWay string     `json:"no_way,omitempty"` // why it cannot be reverted; empty: it can
	Lossy []string   `json:"lossy,omitempty"`  // possible losses of a revert
}

// A QueueState is the state of an alteration in a queue.
type QueueState string

// The states of an alteration in a queue.
const (
	QueueWaiting QueueState = "waiting"
	QueueRefused QueueState = "refused" // by the check before the first one
	QueueRunning QueueState = "running"
	QueueDone    QueueState = "done"
	QueueEarlier QueueState = "earlier" // done by an earlier run
	QueueFailed  QueueState = "failed"
)

// A QueueItem is an alteration in a queue.
type QueueItem struct {
	Line  int        `json:"line"`
	Table string     `json:"table"`
	State QueueState `json:"state"`
}

// QueuePosition returns the number of the alteration that runs in the queue, from 1; 0: none.
func (a *AlterStatus) QueuePosition() int {
	for i, x := range a.Queue {
		if x.State == QueueRunning {
			return i + 1
		}
	}
	return 0
}
