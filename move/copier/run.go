package copier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/mysql/binlog"
)

// Run copies tables. If it fails or is stopped, calling it again with the same options resumes the copy.
// Without Follow, the rows of one run come from one consistent view of the source; a run that resumes takes a
// new view for the remaining rows.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	requests := &controlled{path: o.Control, socket: o.openSocket(), abort: func() { end(endError{control.ErrAborted}) }}
	defer func() { requests.close(resultOf(ctx, err)) }()
	o.meter(requests)
	o.waits = &telemetry.Waits{Observe: o.Observe}
	pacer, losses := o.newPacer(), 0
	values := make(newValues)
	var lost time.Time // time of the last loss of the lease
	for {
		report, err = runOnce(ctx, &o, pacer, requests)
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
func runOnce(ctx context.Context, o *Options, pacer *throttle.Pacer, requests *controlled) (*Report, error) {
	r := newRun(o, pacer, requests)
	defer r.close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	report, err := r.run(ctx, end)
	requests.detach()
	var reported endError
	if err != nil && errors.As(context.Cause(ctx), &reported) {
		err = reported.error // the cause, not the error of the call that it interrupted
	}
	return report, err
}

// An endError is the reason for which a run cancels its context.
type endError struct{ error }

// run executes the phases. end cancels the work in progress.
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
	defer func() { r.stream.heart.End(ctx) }()
	if err := r.prepare.run(ctx); err != nil {
		return nil, err
	}
	r.o.Restart, r.o.Truncate = false, nil // done: a later attempt must not restart again
	leave()
	if err := r.o.merge.ready(ctx); err != nil {
		return nil, err
	}
	if r.handOver.past() {
		err = r.handOver.complete(ctx)
	} else {
		err = r.transfer(ctx, fail)
	}
	if err != nil {
		return nil, err
	}
	return r.report(), nil
}

// transfer runs the phases after prepare. Verify and hand over run while changes are followed, if they are.
func (r *run) transfer(ctx context.Context, fail func(error)) error {
	j, m, snapshot := r.job, r.monitor, r.prepare.snapshot
	r.rows = &rowsPhase{job: j, snapshot: snapshot}
	r.verify = &verifyPhase{job: j, monitor: m, snapshot: snapshot}
	r.follow = &followPhase{job: j, monitor: m, snapshot: snapshot, rows: r.rows, stream: r.stream, verify: r.verify, handOver: r.handOver}
	finish := &finishPhase{job: j, objects: r.objects, handOver: r.handOver}
	m.copies(r.rows)
	if err := r.stream.whileKept(ctx, fail, r.rows.run); err != nil {
		return err
	}
	if r.o.Follow {
		if err := r.follow.run(ctx); err != nil {
			return err
		}
	}
	if r.o.Swap != nil { // the targets have other names now
		return nil
	}
	if err := finish.run(ctx); err != nil {
		return err
	}
	if r.o.Verify && !r.o.Follow {
		if err := r.verify.once(ctx); err != nil {
			return err
		}
	}
	return r.objects.unchanged(ctx)
}

// A run is one attempt at a copy. It drives the phases.
type run struct {
	*job
	monitor *monitor
	control *controlled

	describe *describer
	objects  *schemaObjects
	stream   *changeStream

	prepare  *preparePhase
	rows     *rowsPhase // nil before prepare is over, as are verify and follow
	verify   *verifyPhase
	follow   *followPhase
	handOver *handOverPhase
}

func newRun(o *Options, pacer *throttle.Pacer, requests *controlled) *run {
	j := newJob(o)
	j.pacer = pacer
	m := &monitor{job: j, control: requests, started: time.Now(), phase: telemetry.RunPreparing}
	r := &run{job: j, monitor: m, control: requests, describe: &describer{j, m}, objects: &schemaObjects{job: j}, stream: &changeStream{job: j}}
	r.handOver = &handOverPhase{job: j, monitor: m, stream: r.stream}
	r.prepare = &preparePhase{job: j, objects: r.objects, stream: r.stream, handOver: r.handOver}
	return r
}

func (r *run) close() {
	if r.rows != nil && r.rows.log != nil {
		r.rows.log.Leave()
	}
	r.handOver.close()
	r.prepare.close()
	r.job.close()
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
