package copier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/move/copier/cutover"
	"github.com/taredb/tare/move/copier/inventory"
	"github.com/taredb/tare/move/copier/state"
	"github.com/taredb/tare/move/copier/tabledef"
	"github.com/taredb/tare/move/copier/telemetry"
	"github.com/taredb/tare/move/copier/verify"
	"github.com/taredb/tare/move/internal/follow"
	"github.com/taredb/tare/move/throttle"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// Run copies tables. If it fails or is stopped, calling it again with the same options resumes the copy.
// Without Follow, the rows of one run come from one consistent view of the source; a run that resumes takes a
// new view for the remaining rows.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	control := &control{path: o.Control, socket: o.Socket, abort: func() { end(endError{ErrAborted}) }}
	defer func() { control.close(resultOf(ctx, err)) }()
	o.meter(control)
	o.waits = &telemetry.Waits{Observe: o.Observe}
	pacer, losses := o.newPacer(), 0
	values := make(newValues)
	var lost time.Time // time of the last loss of the lease
	for {
		report, err = runOnce(ctx, &o, pacer, control)
		if errors.Is(err, state.ErrLeaseLost) {
			lost = time.Now()
			losses++
		}
		if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) && !isEnd(ctx) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err) // the first failure may be that of a connection closed by ctx
		}
		then := "; resuming from the state in the target"
		switch {
		case err != nil && ctx.Err() == nil && values.repeat(err):
			then = "; reading the lookup table again"
		case err == nil || ctx.Err() != nil || losses == 0 || losses == state.MaxTries || time.Since(lost) > o.Patience || !mayResume(err):
			return report, err
		}
		o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: err.Error() + then})
		if !telemetry.Sleep(ctx, time.Second) {
			var ended endError
			if errors.As(context.Cause(ctx), &ended) {
				return nil, ended.error
			}
			return nil, context.Cause(ctx)
		}
		next := o.newPacer()
		next.Inherit(pacer)
		pacer = next
	}
}

// resultOf returns the error to record for a copy: that of its context if it was interrupted.
func resultOf(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// isEnd reports whether ctx was canceled to end the copy with an error that is its result.
func isEnd(ctx context.Context) bool {
	var ended endError
	return errors.As(context.Cause(ctx), &ended)
}

// newPacer returns a pacer for the limits that reports its waits and rates.
func (o *Options) newPacer() *throttle.Pacer {
	return throttle.NewPacer(throttle.PacerOptions{
		Limits: o.Throttle, MayRun: o.MayRun, Wait: o.waits.Begin,
		Observe: func(rate float64, reason string) {
			o.Observe(telemetry.Event{Kind: telemetry.EventThrottle, Share: &rate, Text: reason})
		},
	})
}

// mayResume reports whether another run may follow one that failed with err after a lost lease. It returns
// false if the source's log cannot be read further, whatever else failed, because the operator must judge the
// cause.
func mayResume(err error) bool {
	var stop *binlog.StopError
	return !errors.As(err, &stop) && (errors.Is(err, state.ErrLeaseLost) || errors.Is(err, state.ErrLocked) || state.IsUnreachable(err))
}

// runOnce runs the copy from the state in the target until it finishes, fails or loses its lease.
func runOnce(ctx context.Context, o *Options, pacer *throttle.Pacer, control *control) (*Report, error) {
	r := newRun(o, pacer, control)
	defer r.close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	report, err := r.run(ctx, end)
	control.detach()
	var reported endError
	if err != nil && errors.As(context.Cause(ctx), &reported) {
		err = reported.error // the cause, not the error of the call that it interrupted
	}
	return report, err
}

// An endError is the reason for which a run cancels its context.
type endError struct{ error }

// run executes all phases. end cancels the work in progress.
func (r *run) run(ctx context.Context, end context.CancelCauseFunc) (*Report, error) {
	fail := func(err error) { end(endError{err}) }
	leave, err := r.o.merge.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := r.describe.run(ctx); err != nil {
		return nil, err
	}
	r.weigh()
	if err := r.control.attach(r.monitor); err != nil {
		return nil, err
	}
	defer r.pacer.Start(ctx, fail)()
	defer func() { r.heart.End(ctx) }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.o.Restart, r.o.Truncate = false, nil // done: a later attempt must not restart again
	leave()
	if err := r.o.merge.ready(ctx); err != nil {
		return nil, err
	}
	if r.cut.Past() {
		err = r.cut.Finish(ctx)
	} else {
		err = r.transfer(ctx, fail)
	}
	if err != nil {
		return nil, err
	}
	return r.report(), nil
}

// transfer copies the rows, follows their changes, and completes the targets.
func (r *run) transfer(ctx context.Context, fail func(error)) error {
	r.rows = &rowsPhase{job: r.job, snapshot: r.snapshot}
	r.monitor.copies(r.rows)
	if err := r.copyKept(ctx, fail); err != nil {
		return err
	}
	if err := r.followToEnd(ctx); err != nil {
		return err
	}
	if r.o.Swap != nil { // the targets have other names now
		return nil
	}
	return inOrder(ctx, (&foreignKeys{r.job}).add, r.completeSchemas, r.verifyCopied, r.objects.unchanged)
}

// followToEnd follows the changes until following ends, if the options request it.
func (r *run) followToEnd(ctx context.Context) error {
	if !r.o.Follow {
		return nil
	}
	if err := r.followChanges(ctx); err != nil {
		return (&redefiner{r.job}).stopped(ctx, err)
	}
	if r.handedOver() { // the lookups were checked under the locks
		return nil
	}
	return r.checkLookups(ctx)
}

// completeSchemas raises the counters and sequences and creates the triggers, unless a cutover did so during the pause.
func (r *run) completeSchemas(ctx context.Context) error {
	if r.cut.Past() || r.handedOver() {
		return nil
	}
	return inOrder(ctx, r.raiseCounters, r.objects.createLast)
}

// verifyCopied compares the rows of a copy that has not followed changes, if the options request it.
func (r *run) verifyCopied(ctx context.Context) (err error) {
	if !r.o.Verify || r.o.Follow {
		return nil
	}
	r.monitor.setPhase(telemetry.RunVerifying)
	r.verified, err = verify.Once(ctx, r.verifyOptions())
	return err
}

// A run is one attempt at a copy.
type run struct {
	*job
	describe *describer
	recorded *sourceRecord
	objects  *schemaObjects

	snapshot rowstream.View

	monitor *monitor
	control *control

	rows *rowsPhase // nil before it starts

	verified []*verify.Report // by table, once they are compared

	heart *follow.Heartbeat // nil: no heartbeats
	mark  string            // the first heartbeat, for the position of the snapshot

	follow     *state.Following // nil unless changes are followed
	followFrom binlog.Position  // start of following; zero before the first snapshot
	follower   *follow.Follower // nil before it starts
	cut        *cutover.Cutover // nil unless a gateway's clients are to be switched
}

func newRun(o *Options, pacer *throttle.Pacer, control *control) *run {
	j := newJob(o)
	j.pacer = pacer
	m := &monitor{job: j, control: control, started: time.Now(), phase: telemetry.RunPreparing}
	return &run{job: j, describe: &describer{j, m}, recorded: &sourceRecord{j}, objects: &schemaObjects{job: j}, monitor: m, control: control}
}

func (r *run) close() {
	r.cut.Close()
	if r.snapshot != nil {
		_ = r.snapshot.Close() // its transactions are read-only
	}
	r.job.close()
}

// prepare does everything that precedes the first row, once both sides are described.
func (r *run) prepare(ctx context.Context) error {
	if err := inOrder(ctx, r.acquireState, r.recorded.accept, r.recorded.adopt, r.prepareCutover); err != nil || r.cut.Past() {
		return err
	}
	return inOrder(ctx, r.check, r.upgradeTables, r.prepareFollow, r.objects.listNotCopied, r.checkSource, r.begin, r.objects.createAccounts,
		func(ctx context.Context) error {
			return r.objects.create(ctx, inventory.Function, inventory.Procedure, inventory.View, inventory.Event)
		}, r.objects.compareAccounts, r.strip)
}

// inOrder runs steps until one fails, and returns its error.
func inOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// acquireState locks the state of the tables on the target and creates what it lacks.
func (r *run) acquireState(ctx context.Context) (err error) {
	specs := make([]*tabledef.Spec, len(r.tables))
	for i, t := range r.tables {
		specs[i] = t.Spec
	}
	if r.state.Lease, err = state.AcquireLease(ctx, r.to, r.state, specs, r.o.Patience); err != nil {
		return err
	}
	return r.state.Create(ctx, r.to)
}

// upgradeTables discards the recorded state of each table on a restart, and converts it to the current format otherwise.
func (r *run) upgradeTables(ctx context.Context) (err error) {
	for _, t := range r.tables {
		if r.o.Restart {
			err = restartTable(ctx, t, r)
		} else if t.State != nil {
			err = r.state.Upgrade(ctx, r.to, t.Spec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin records the snapshot and creates the schemas, sequences and tables.
func (r *run) begin(ctx context.Context) error {
	position, err := r.marked(r.snapshot.Position())
	if err != nil {
		return err
	}
	if err := r.boundRows(ctx); err != nil {
		return err
	}
	text := strings.TrimSpace(r.snapshot.How() + " " + r.snapshot.Position())
	switch {
	case r.shortViews():
		_ = r.snapshot.Close() // its position is known, and its transactions are read-only
		text += fmt.Sprintf("; rows are read in views of at most %v", r.o.MaxViewAge)
	case r.o.Follow:
		text += "; rows are read in one view, because stored generated columns are compared in it"
	}
	r.o.Observe(telemetry.Event{Kind: telemetry.EventSnapshot, Text: text})
	if err := r.objects.create(ctx, inventory.Schema, inventory.Sequence); err != nil {
		return err
	}
	if err := r.keepLookups(ctx); err != nil {
		return err
	}
	for _, t := range r.tables {
		if err := beginTable(ctx, t, r.to, r.state, r.source, position); err != nil {
			return err
		}
	}
	return nil
}

// strip prepares the target tables for rows. Foreign keys are dropped before the indexes that they need.
func (r *run) strip(ctx context.Context) error {
	for _, t := range r.tables {
		if err := dropForeignKeys(ctx, t, r.to); err != nil {
			return err
		}
	}
	for _, t := range r.tables {
		if err := stripIndexes(ctx, t, r.to); err != nil {
			return err
		}
	}
	return nil
}

// raiseCounters copies the AUTO_INCREMENT counters to the target at the end of a copy.
func (r *run) raiseCounters(ctx context.Context) error {
	w := r.newWriter()
	defer w.Close()
	return state.RaiseCounters(ctx, r.from, r.tables, w, r.o.Patience)
}

// boundRows finds the last keys of the tables that are still to be copied.
func (r *run) boundRows(ctx context.Context) error {
	if !r.shortViews() {
		return nil
	}
	reader := r.snapshot.Reader(0)
	for _, t := range r.tables {
		if t.Past() || t.State != nil && t.State.Phase != tabledef.Copying {
			continue
		}
		last, err := reader.LastKey(ctx, t.Source)
		if err != nil {
			return err
		}
		t.Bound = tabledef.RowBound{Known: true, Last: last}
	}
	return nil
}
