package telemetry

import (
	"os"
	"time"

	"github.com/taredb/tare/internal/move/throttle"
)

// A Status is the state of a running copy, as reported by its control socket. Fields are added, but never
// renamed; an incompatible change increments Version.
type Status struct {
	Version  int             `json:"version"` // 1
	PID      int             `json:"pid"`
	From     string          `json:"from"`              // address
	To       string          `json:"to"`                // address
	Servers  []string        `json:"servers,omitempty"` // identities of both, independent of their addresses; none before it has connected
	Started  time.Time       `json:"started"`
	Phase    RunPhase        `json:"phase"`
	Tables   []TableStatus   `json:"tables"`
	Progress *CopyProgress   `json:"progress"` // of the rows; null before the first
	Throttle throttle.Status `json:"throttle"`
	Waits    []WaitStatus    `json:"waits"`            // the current waits, the oldest first
	Follow   *FollowStatus   `json:"follow,omitempty"` // if it follows the source
	Verify   *VerifyStatus   `json:"verify,omitempty"` // if it verifies
	Alter    *AlterStatus    `json:"alter,omitempty"`  // if it alters a table
	Parts    []Status        `json:"parts,omitempty"`  // per target or source, if there are several
}

// StatusVersion is the current Status.Version.
const StatusVersion = 1

// IdleStatus returns the status of a process whose copy has not started.
func IdleStatus() Status {
	return Status{
		Version: StatusVersion, PID: os.Getpid(), Phase: RunPreparing, Tables: []TableStatus{}, Waits: []WaitStatus{},
		Throttle: throttle.Status{Share: 1, Most: 1, Limits: []throttle.LimitStatus{}},
	}
}

// A RunPhase is the phase of a copy.
type RunPhase string

// The phases of a run, in order.
const (
	RunPreparing RunPhase = "preparing"
	RunCopying   RunPhase = "copying"
	RunVerifying RunPhase = "verifying"
	RunFollowing RunPhase = "following"
	RunReversing RunPhase = "reversing" // clients are on the target, whose changes are written back to the source
)

// A TableStatus is the progress of a table.
type TableStatus struct {
	Source       string `json:"source"`
	Target       string `json:"target"`
	Phase        string `json:"phase"`         // copying, indexing or finished
	Rows         int64  `json:"rows"`          // in the target, by this run and earlier ones
	RowsEstimate int64  `json:"rows_estimate"` // corrected by the copied rows

	RowsDeviation *int64 `json:"rows_deviation"` // by how much that may be wrong; null: the estimate is the server's

	Bytes        int64 `json:"bytes"`         // copied by this run
	Chunks       int   `json:"chunks"`        // cut so far
	ChunksCopied int   `json:"chunks_copied"` // copied so far
}

// A FollowStatus is the progress of a copy that follows its source.
type FollowStatus struct {
	Position         string   `json:"position"`                  // of the source's binary log that the target has reached
	Lag              string   `json:"lag"`                       // for messages
	LagSeconds       *float64 `json:"lag_seconds"`               // null: unknown
	ConfirmedSeconds *float64 `json:"lag_confirmed_seconds_ago"` // age of the last proof; null: there is none
	LagBytes         *int64   `json:"lag_bytes"`                 // null: unknown
	CaughtUp         bool     `json:"caught_up"`

	Outrun *Outrun `json:"outrun,omitempty"` // set while the source writes faster than the target applies

	HeldSeconds float64 `json:"held_seconds"`   // how long changes have waited for the throttle
	Held        string  `json:"held,omitempty"` // the reason for throttling; empty at full speed
}

// A VerifyStatus is the progress of a verification.
type VerifyStatus struct {
	Chunks     int `json:"chunks"`     // to be compared
	Compared   int `json:"compared"`   // compared so far
	Waiting    int `json:"waiting"`    // chunks that differed and are compared again
	Mismatches int `json:"mismatches"` // rows that certainly differ
}
