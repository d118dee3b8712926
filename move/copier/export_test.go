package copier

import (
	"context"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// Hooks of the external tests.

// RefuseSharedServers refuses parts of a split whose targets are one server.
func RefuseSharedServers(ctx context.Context, parts []Options) error {
	return refuseSharedServers(ctx, parts)
}

// Show makes m show a status, as of a time.
func (m *Metrics) Show(now time.Time, status func() telemetry.Status) {
	m.from(status)
	m.now = func() time.Time { return now }
}

// Finish ends a split or merge that follows.
func (s *Split) Finish() error { return s.finish() }

// SliceBytes is the size of a batch with a limit.
const SliceBytes = sliceBytes

// A RowTarget is a rowTarget of the first table of a copy.
type RowTarget struct{ t rowTarget }

// Cut calls cut.
func (r RowTarget) Cut(ctx context.Context, c rowstream.Chunk) error { return r.t.cut(ctx, 0, c) }

// Copy calls copy.
func (r RowTarget) Copy(ctx context.Context, c rowstream.Chunk, read func(write func(*rowstream.Batch) error, settle func() error) error) error {
	return r.t.copy(ctx, 0, c, read)
}

// Finish calls finish.
func (r RowTarget) Finish(ctx context.Context) error { return r.t.finish(ctx, 0) }

// SourceError returns an error of the source.
func SourceError(err error) error { return state.SourceError{Err: err} }

// PrepareTarget prepares copies, and returns the target that a worker of them has.
func PrepareTarget(ctx context.Context, parts []Options) (t RowTarget, end func(), err error) {
	var runs []*run
	var phases []*rowsPhase
	for i := range parts {
		o := &parts[i]
		if err := o.validate(); err != nil {
			return t, nil, err
		}
		o.waits = &telemetry.Waits{Observe: o.Observe}
		r := newRun(o, o.newPacer(), &controlled{})
		if err := inOrder(ctx, r.describe.run, r.prepare.run); err != nil {
			return t, nil, err
		}
		runs, phases = append(runs, r), append(phases, &rowsPhase{job: r.job, snapshot: r.prepare.snapshot})
	}
	reads := newReading(phases...)
	for _, p := range phases {
		p.resume(ctx, reads)
	}
	w := newWorker(reads, 0)
	t.t = w.target
	return t, func() {
		w.close()
		for _, r := range runs {
			r.stream.heart.End(ctx)
			r.close()
		}
	}, nil
}

// PrepareFiles prepares a dump, and returns the target that a worker of it has, the number of chunks of its first table that an earlier run has
// written, and a function that ends the run with its progress saved.
func PrepareFiles(ctx context.Context, o Options, to dump.Destination) (t RowTarget, before int, end func() error, err error) {
	if err := o.validateDump(); err != nil {
		return t, 0, nil, err
	}
	r := newDumpRun(&o)
	if err := r.prepare(ctx, to); err != nil {
		r.close()
		return t, 0, nil, err
	}
	p := &rowsPhase{job: r.job, snapshot: r.snapshot, files: r.writer}
	reads := newReading(p)
	p.resume(ctx, reads)
	w := newWorker(reads, 0)
	t.t = w.target
	return t, r.writer.Before(0), func() error {
		w.close()
		defer r.close()
		return r.writer.Save(ctx)
	}, nil
}

// A SwapFunc is a Swap without an ALTER TABLE, which accepts no requests.
type SwapFunc func(context.Context, *Swapping) error

// Run calls f.
func (f SwapFunc) Run(ctx context.Context, s *Swapping) error { return f(ctx, s) }

// Phase returns the phase of a copy.
func (SwapFunc) Phase() telemetry.RunPhase { return telemetry.RunFollowing }

// Status returns nil.
func (SwapFunc) Status() *telemetry.AlterStatus { return nil }

// Proceed returns an error.
func (SwapFunc) Proceed() error { return control.ErrNothingWaits }

// Revert returns an error.
func (SwapFunc) Revert(bool) error { return control.ErrNotSwapped }

// Finish returns an error.
func (SwapFunc) Finish() error { return control.ErrSwaps }
