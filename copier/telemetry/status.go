package telemetry

import (
	"time"

	"github.com/taredb/tare/throttle"
)

// A Status is the state of a running copy, as its control socket reports it. Fields are
// added, never renamed; Version grows when that is not enough.
type Status struct {
	Version  int             `json:"version"` // 1
	PID      int             `json:"pid"`
	From     string          `json:"from"` // address
	To       string          `json:"to"`   // address
	Started  time.Time       `json:"started"`
	Phase    RunPhase        `json:"phase"`
	Tables   []TableStatus   `json:"tables"`
	Progress *CopyProgress   `json:"progress"` // of the rows; null before the first
	Throttle throttle.Status `json:"throttle"`
	Waits    []WaitStatus    `json:"waits"`            // the waits under way, the oldest first
	Follow   *FollowStatus   `json:"follow,omitempty"` // when it follows the source
	Verify   *VerifyStatus   `json:"verify,omitempty"` // when it verifies
}

// StatusVersion is the form of Status.
const StatusVersion = 1

// A RunPhase is the phase of a copy.
type RunPhase string

// The phases of a run, in their order.
const (
	RunPreparing RunPhase = "preparing"
	RunCopying   RunPhase = "copying"
	RunVerifying RunPhase = "verifying"
	RunFollowing RunPhase = "following"
	RunReversing RunPhase = "reversing" // clients are at the target: its changes go back
)

// A TableStatus is how far a table is.
type TableStatus struct {
	Source       string `json:"source"`
	Target       string `json:"target"`
	Phase        string `json:"phase"` // copying, indexing or finished
	Rows         int64  `json:"rows"`  // in the target, by this run and those before it
	RowsEstimate int64  `json:"rows_estimate"`
	Bytes        int64  `json:"bytes"`         // that this run has copied
	Chunks       int    `json:"chunks"`        // cut so far
	ChunksCopied int    `json:"chunks_copied"` // of them
}

// A FollowStatus is how far a copy that follows its source is.
type FollowStatus struct {
	Position         string   `json:"position"`                  // of the source's binary log, that the target has reached
	Lag              string   `json:"lag"`                       // for people
	LagSeconds       *float64 `json:"lag_seconds"`               // null: unknown
	ConfirmedSeconds *float64 `json:"lag_confirmed_seconds_ago"` // age of the last proof; null: there is none
	LagBytes         *int64   `json:"lag_bytes"`                 // null: unknown
	CaughtUp         bool     `json:"caught_up"`

	Outrun *Outrun `json:"outrun,omitempty"` // while the source writes faster than the target takes it: it will not catch up

	HeldSeconds float64 `json:"held_seconds"`   // how long changes have waited for the throttle
	Held        string  `json:"held,omitempty"` // why they are not applied at full speed; empty when they are
}

// A VerifyStatus is how far the verification is.
type VerifyStatus struct {
	Chunks     int `json:"chunks"`     // to be compared
	Compared   int `json:"compared"`   // of them
	Waiting    int `json:"waiting"`    // that differed and are looked at again
	Mismatches int `json:"mismatches"` // rows that differ for sure
}
