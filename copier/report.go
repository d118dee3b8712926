package copier

import (
	"github.com/taredb/tare/copier/accounts"
	"github.com/taredb/tare/copier/cutover"
	"github.com/taredb/tare/copier/follow"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/copier/verify"
	"github.com/taredb/tare/throttle"
)

// A Report is the result of a copy.
type Report struct {
	Snapshot string        `json:"snapshot"` // how the source's snapshot was taken
	Position string        `json:"position"` // of the source's binary log at that snapshot; empty if the source reports none
	Tables   []TableReport `json:"tables"`

	NotCopied []telemetry.NotCopied `json:"not_copied"`        // objects of the source's schemas that the copy does not include
	Objects   int                   `json:"objects,omitempty"` // objects besides tables that this run has created

	Accounts *accounts.Report `json:"accounts,omitempty"` // if accounts were copied

	Throttle *throttle.Status `json:"throttle,omitempty"` // if there were limits
	Follow   *follow.Report   `json:"follow,omitempty"`   // if changes were followed
	Cutover  *cutover.Report  `json:"cutover,omitempty"`  // if clients were to be switched
}

// A TableReport is the result for one table.
type TableReport struct {
	Source  string   `json:"source"`
	Target  string   `json:"target"`
	Rows    int64    `json:"rows"`   // in the target, by this run and earlier ones
	Chunks  int      `json:"chunks"` // likewise
	Before  int      `json:"before"` // chunks copied by earlier runs
	Indexes []string `json:"indexes"`

	Verify *verify.Report `json:"verify,omitempty"` // if rows were compared
}

// Mismatches returns the number of rows of all tables known to differ.
func (r *Report) Mismatches() (n int64) {
	for i := range r.Tables {
		if v := r.Tables[i].Verify; v != nil {
			n += v.Mismatches()
		}
	}
	return n
}

// Unverified returns the number of chunks compared and the total, and whether the comparison is incomplete.
func (r *Report) Unverified() (compared, of int, incomplete bool) {
	for i := range r.Tables {
		if v := r.Tables[i].Verify; v != nil {
			compared, of = compared+v.Compared(), of+v.Of
			incomplete = incomplete || v.Incomplete()
		}
	}
	return compared, of, incomplete
}
