package copier

import (
	"github.com/taredb/tare/internal/move/accounts"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/move/verify"
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

// report returns the report of a run that has succeeded.
func (r *run) report() *Report {
	report := &Report{Tables: []TableReport{}, NotCopied: r.objects.notCopied, Objects: r.objects.created, Accounts: r.objects.accounts}
	if report.NotCopied == nil {
		report.NotCopied = []telemetry.NotCopied{}
	}
	if cut := r.handOver.cut; cut != nil {
		report.Cutover = cut.Report()
	}
	snapshot := r.prepare.snapshot
	if snapshot == nil { // clients were switched before this run
		return report
	}
	report.Snapshot, report.Position = snapshot.How(), snapshot.Position()
	if s := r.pacer.Status(); len(s.Limits) > 0 {
		report.Throttle = &s
	}
	if f := r.follow.follower; f != nil {
		report.Follow = f.Report()
	}
	for i, t := range r.tables {
		tr := TableReport{Source: t.Spec.Source(), Target: t.Spec.Target(), Indexes: []string{}}
		tr.Rows, tr.Chunks, tr.Before = r.rows.result(i)
		for _, x := range t.State.Indexes {
			tr.Indexes = append(tr.Indexes, string(x))
		}
		switch {
		case i < len(r.verify.reports):
			tr.Verify = r.verify.reports[i]
		case r.o.Verify: // the copy was already finished when this run started
			tr.Verify = &verify.Report{Of: tr.Chunks, Different: []verify.ChunkMismatch{}}
		}
		report.Tables = append(report.Tables, tr)
	}
	return report
}
