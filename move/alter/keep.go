package alter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// After the swap the old table is kept, and is the target of another copy, the way back: its rows are those of the swap, and its changes
// are those of the table since. The record of the finished copy becomes that of the way back, so that package copier resumes it like any
// copy that has all rows:
//
//	swap ──> turn: state of the way back ──> kept for long enough, or finish: old table dropped
//	                                     └──> revert, or a window for it: changes followed ──> rows compared, swapped back
//
// After a kill, the next run derives the stage from the tables that exist (see findStage).

// A Kept is the state of an old table.
type Kept struct {
	State   KeptState `json:"state"`
	Until   string    `json:"until,omitempty"`    // when it may be dropped; empty: it is not kept
	NoWay   string    `json:"no_way,omitempty"`   // why there is no way back; empty: there is one
	Lossy   []string  `json:"lossy,omitempty"`    // possible losses of the way back
	Changes int64     `json:"changes,omitempty"`  // of rows that this run has followed back
	Altered string    `json:"reverted,omitempty"` // the table with the new definition, where it was reverted with a loss
}

// A KeptState is a state of an old table.
type KeptState string

// The states of an old table.
const (
	KeptDropped  KeptState = "dropped"
	KeptKept     KeptState = "kept"
	KeptReverted KeptState = "reverted" // it has the name of the table again
)

// ErrNotFollowed is the error of a table that is altered, and whose old table is not kept current.
var ErrNotFollowed = errors.New("the table is altered, and its changes are not followed back into the old one any more")

// findStage loads the record of the table, and finds out how far its copy has come.
func (r *run) findStage(ctx context.Context) (err error) {
	r.stage = stageNone
	if r.job, err = loadRecord[job](ctx, r.c, jobRecords, r.s); err != nil || r.job == nil {
		return err
	}
	has := make(map[string]bool)
	for _, name := range []string{r.s.shadow(), r.s.old(), r.s.reverted()} {
		if has[name], err = r.s.exists(ctx, r.c, name); err != nil {
			return err
		}
	}
	switch kept := r.job.Kept != nil; {
	case has[r.s.old()] && (kept || !has[r.s.shadow()]), kept && r.job.Kept.Dropped:
		r.stage = stageSwapped
	case kept && (has[r.s.reverted()] || r.job.Kept.Reverted):
		r.stage = stageReverted
	case kept:
		r.stage = stageDropped
	default:
		r.stage = stageCopying
	}
	return nil
}

// forgetOld drops the tables left by a swap. It deletes the records last, because a repeated run finds the tables by them. A swap back is
// recorded first: nothing else shows it once the table of the revert is dropped.
func (r *run) forgetOld(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := dropSentry(ctx, r.c, r.s); err != nil {
		return err
	}
	if err := r.drop(ctx, r.s.old()); err != nil {
		return err
	}
	if err := r.dropReverted(ctx); err != nil {
		return err
	}
	return forgetJob(ctx, r.c, r.s)
}

// dropReverted drops the table of a revert, unless it has values that the old definition does not have.
func (r *run) dropReverted(ctx context.Context) error {
	if k := r.job.Kept; k != nil && len(k.Lossy) > 0 {
		return nil
	} else if k != nil && r.stage == stageReverted && !k.Reverted {
		k.Reverted = true
		if err := jobRecords.save(ctx, r.c, r.s, r.job); err != nil {
			return err
		}
	}
	return r.drop(ctx, r.s.reverted())
}

// dropOld is forgetOld at the end of a run. It is recorded first: neither table shows afterwards that they were swapped.
func (r *run) dropOld(ctx context.Context) error {
	if r.job.Kept == nil {
		r.job.Kept = &kept{Until: time.Now().UTC().Truncate(time.Second), Closed: "its old table is not kept"}
	}
	r.job.Kept.Dropped = true
	if err := jobRecords.save(context.WithoutCancel(ctx), r.c, r.s, r.job); err != nil {
		return err
	}
	return r.forgetOld(ctx)
}

func (r *run) drop(ctx context.Context, name string) error {
	if _, err := r.c.Exec(ctx, "DROP TABLE IF EXISTS "+r.s.sqlName(name)); err != nil {
		return fmt.Errorf("drop the old table %s.%s: %w", r.s.Schema, name, err)
	}
	return nil
}

// keep keeps the old table of a swap for as long as the options say, and follows changes back into it during the window for a revert.
func (r *run) keep(ctx context.Context, report *Report) error {
	if err := dropSentry(ctx, r.c, r.s); err != nil {
		return err
	}
	if r.job.Kept == nil && r.o.KeepOld > 0 {
		if err := r.turn(ctx); err != nil {
			return fmt.Errorf("%w: %w; run the same command again", ErrNotFollowed, err)
		}
	}
	if r.job.Kept != nil { // an earlier run may have ended before this
		spec := r.s.spec(nil)
		if err := (state.State{Schema: Schema}).ForgetTable(ctx, r.c, &spec); err != nil {
			return fmt.Errorf("%w; run the same command again", err)
		}
	}
	if r.job.Kept == nil || r.job.over() {
		report.Copy.Kept = Kept{State: KeptDropped}
		err := r.dropOld(ctx)
		r.monitorOld(&report.Copy.Kept)
		r.o.Swapped(report)
		return err
	}
	k := r.job.Kept
	report.Copy.Kept = Kept{State: KeptKept, Until: k.Until.UTC().Format(time.RFC3339), NoWay: k.Closed, Lossy: k.Lossy}
	r.monitorOld(&report.Copy.Kept)
	r.o.Swapped(report)
	if k.Closed != "" || r.o.RevertWindow == 0 {
		return nil
	}
	b := r.newBacking(report)
	b.over = time.Now().Add(r.o.RevertWindow)
	if err := b.follow(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotFollowed, again(err, "run the same command again to resume, or tare alter revert with option table "+r.s.fullName()))
	}
	return nil
}

// monitorOld reports the state of the old table.
func (r *run) monitorOld(k *Kept) { r.o.Monitor.old(r.s.Schema+"."+r.s.old(), k, r.job.keptUntil()) }

// turn records the way back from the swap, or why there is none.
func (r *run) turn(ctx context.Context) error {
	k := &kept{Until: time.Now().Add(r.o.KeepOld).UTC().Truncate(time.Second), Fixed: make(map[string][]byte)}
	err := r.recordBack(ctx, k)
	var none noWayError
	switch {
	case errors.As(err, &none):
		k.Closed = none.Error()
	case err != nil:
		return err
	}
	r.job.Kept = k
	if err := jobRecords.save(ctx, r.c, r.s, r.job); err != nil {
		r.job.Kept = nil
		return err
	}
	return nil
}

// A noWayError is the reason why there is no way back.
type noWayError struct{ error }

// Unwrap returns the cause.
func (e noWayError) Unwrap() error { return e.error }

// backTables reads both tables after the swap, and returns the mapping between them.
func (r *run) backTables(ctx context.Context, fixed map[string][]byte) (m *tabledef.Mapping, back WayBack, err error) {
	old, err := rowstream.ReadTable(ctx, r.c, r.s.Schema, r.s.old())
	if err != nil {
		return nil, back, err
	}
	altered, err := rowstream.ReadTable(ctx, r.c, r.s.Schema, r.s.Table)
	if err != nil {
		return nil, back, err
	}
	m, back, err = r.wayBack(ctx, old, altered, fixed)
	if err == nil && back.Refused != "" {
		err = noWayError{errors.New(back.Refused)}
	}
	return m, back, err
}

// recordBack has the state of the finished copy become that of the way back.
func (r *run) recordBack(ctx context.Context, k *kept) error {
	from, err := binlog.ParsePosition(r.job.From)
	if err != nil {
		return err
	}
	if from.IsZero() {
		return noWayError{errors.New("no position of the binary log before the swap is recorded")}
	}
	m, back, err := r.backTables(ctx, k.Fixed)
	if err != nil {
		return err
	}
	k.Lossy = back.Lossy
	d, err := binlog.OpenDirect(ctx, r.o.On)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // it only reads
	definition, err := r.definedBy(ctx, d, from)
	if err != nil {
		return err
	}
	spec := r.s.backSpec(m)
	t, err := tabledef.DescribeAs(ctx, definition.Table, r.c, tabledef.DescribeOptions{Follow: true, KeepIndexes: true}, &spec)
	switch {
	case state.IsUnreachable(err) || errors.As(err, new(*mysqlconn.ServerError)): // it says nothing about the tables
		return err
	case err != nil:
		return noWayError{err}
	}
	finished := r.s.spec(nil)
	return state.State{Schema: Schema}.Turn(ctx, r.c, &finished, &spec, t.RecordedSpec(), from.String(), definition)
}

// definedBy returns the definition of the table by the swap, which must be its only change since from.
func (r *run) definedBy(ctx context.Context, d *binlog.Direct, from binlog.Position) (is tabledef.Definition, err error) {
	if is.Table, err = d.Describe(ctx, r.s.Schema, r.s.Table); err != nil {
		return is, err
	}
	if is.Layout, err = d.Layout(ctx, is.Table); err != nil {
		return is, err
	}
	if is.Upto, err = d.GTIDPosition(ctx); err != nil {
		return is, err
	}
	changes, err := d.SchemaChanges(ctx, []*rowstream.Table{is.Table}, from, is.Upto)
	if err != nil {
		return is, err
	}
	if len(changes) != 1 || changes[0].Rows {
		var texts []string
		for _, c := range changes {
			texts = append(texts, c.SQL)
		}
		return is, noWayError{fmt.Errorf("the binary log since %s has other changes of the definition than the swap: %s", from, strings.Join(texts, "; "))}
	}
	return is, nil
}

// Revert gives a table that was altered by a copy its former definition back, if its old table is kept: it follows the changes since the
// swap into the old table, compares all rows, and swaps the tables back. The clauses of the options are ignored.
func Revert(ctx context.Context, o Options) (_ *Report, err error) {
	defer o.withHooks()()
	defer func() { o.hooks.failed(err) }()
	r, report, err := openKept(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	ctx, end, err := o.listen(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { end(err) }()
	if err := r.revert(ctx, report); err != nil {
		return nil, aborted(ctx, err)
	}
	return report, nil
}

// revert swaps the tables back.
func (r *run) revert(ctx context.Context, report *Report) error {
	began := time.Now()
	switch {
	case r.stage == stageReverted:
		report.Copy.Kept = Kept{State: KeptReverted}
		return r.forgetOld(ctx)
	case r.stage == stageDropped, r.job.Kept != nil && r.job.Kept.Dropped:
		return fmt.Errorf("revert %s: its old table %s.%s was dropped; tare alter finish deletes the record of it", r.s.fullName(), r.s.Schema, r.s.old())
	}
	if r.job.Kept == nil {
		r.o.KeepOld = max(r.o.KeepOld, time.Hour) // it is reverted before
		if err := r.turn(ctx); err != nil {
			return err
		}
	}
	if r.job.Kept.Closed != "" {
		return fmt.Errorf("revert %s: %s", r.s.fullName(), r.job.Kept.Closed)
	}
	b := r.newBacking(report)
	b.reverting = true
	if err := b.Revert(r.o.LossyRevert); err != nil {
		return err
	}
	if err := b.follow(ctx); err != nil {
		return fmt.Errorf("revert %s: %w", r.s.fullName(), again(err, "run the same command again to resume"))
	}
	report.Seconds = time.Since(began).Seconds()
	r.o.Monitor.step(telemetry.StepDone)
	return nil
}

// Finish drops the old table of a table that was altered by a copy. The clauses of the options are ignored.
func Finish(ctx context.Context, o Options) (*Report, error) {
	r, report, err := openKept(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if report.Copy.Kept.State = KeptDropped; r.stage == stageReverted {
		report.Copy.Kept.State = KeptReverted
	}
	return report, r.forgetOld(ctx)
}

// openKept connects to a server with an old table, and takes the lock of the table's alterations.
func openKept(ctx context.Context, o *Options) (*run, *Report, error) {
	if err := o.validate(); err != nil {
		return nil, nil, err
	}
	r := &run{o: o, s: &Statement{Schema: o.Schema, Table: o.Table}}
	o.Monitor.begin(o.On.Addr, r.s.fullName(), "")
	var err error
	if r.c, err = connect(ctx, o.On); err != nil {
		return nil, nil, err
	}
	if err = o.Monitor.connected(ctx, r.c); err == nil {
		err = r.prepareKept(ctx)
	}
	if err != nil {
		r.close()
		return nil, nil, err
	}
	o.Monitor.named(r.s.fullName(), r.s.Text)
	report := &Report{
		Table: r.s.fullName(), Alter: r.s.Text, Server: r.c.ServerVersion, Way: WayCopy, Why: "an earlier run has swapped the tables",
		LockWaits: []float64{}, Copy: newCopyReport(r.s),
	}
	return r, report, nil
}

func (r *run) prepareKept(ctx context.Context) error {
	if err := r.fold(ctx); err != nil {
		return err
	}
	if err := r.lock(ctx); err != nil {
		return err
	}
	if err := r.findStage(ctx); err != nil {
		return err
	}
	if r.stage < stageSwapped {
		return fmt.Errorf("no old table of %s is kept: there is nothing to revert or to drop", r.s.fullName())
	}
	var err error
	r.s, err = Parse(r.s.Schema, r.s.Table, r.job.Clauses)
	return err
}

// again adds to an error the command that resumes, unless there is no way back.
func again(err error, try string) error {
	if errors.As(err, new(noWayError)) {
		return err
	}
	return fmt.Errorf("%w; %s", err, try)
}

// closesWay reports whether an error of the way back is permanent.
func closesWay(err error) bool {
	var stop *binlog.StopError
	return errors.As(err, &stop) || errors.Is(err, state.ErrRows)
}

// notify reports a step.
func (r *run) notify(format string, a ...any) {
	r.o.Observe(telemetry.Event{Kind: telemetry.EventAlter, Text: fmt.Sprintf(format, a...)})
}
