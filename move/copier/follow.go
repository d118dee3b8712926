package copier

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/rowstream"
)

// The followPhase applies the source's changes once the rows are copied. Meanwhile the phases verify and hand over run.
type followPhase struct {
	*job
	monitor  *monitor
	snapshot rowstream.View
	rows     *rowsPhase
	stream   *changeStream
	verify   *verifyPhase
	handOver *handOverPhase

	follower *follow.Follower // nil before it starts
}

// run follows the changes until following ends.
func (p *followPhase) run(ctx context.Context) error {
	if err := p.follow(ctx); err != nil {
		return (&redefiner{p.job}).stopped(ctx, err)
	}
	if p.handOver.made() { // the lookups were checked under the locks
		return nil
	}
	return p.checkLookups(ctx)
}

// follow follows the source once all rows are copied.
func (p *followPhase) follow(ctx context.Context) error {
	_ = p.snapshot.Close() // its transactions are read-only, and delay the purge of the source's undo log
	from, err := p.stream.oldest()
	if err != nil {
		return err
	}
	pace := p.pacer.Stream(tick.Process())
	defer pace.Close()
	source := p.from
	if m := p.rows.log; m != nil {
		source = m
		p.stream.heart.Use(m)
	}
	f, err := follow.New(follow.Options{
		Source: source, Tables: p.tables, From: from, State: p.stream.record, Writer: p.newWriter,
		UntilCaughtUp: p.o.UntilCaughtUp, Heartbeat: p.stream.heart, Pace: pace, Turn: p.o.merge.applying(), Shared: p.streams(),
	})
	if err != nil {
		return err
	}
	p.o.Observe(telemetry.Event{Kind: telemetry.EventFollow, Text: from.Place()})
	p.follower = f
	phase := telemetry.RunFollowing
	if s := p.o.Swap; s != nil {
		phase = s.Phase()
	}
	p.monitor.watch(f, phase)
	if p.o.Cutover != nil && p.handOver.cut == nil {
		var steps sync.WaitGroup
		defer steps.Wait()
		steps.Go(func() { cutover.Steps(ctx, f, p.from.Addr(), p.o.To.Addr, p.o.Observe) })
	}
	if slices.ContainsFunc(p.tables, func(t *tabledef.Table) bool { return t.Spec.Lookup != nil }) {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel(nil)
		watching.Go(func() { p.watchLookups(ctx, func(err error) { cancel(endError{err}) }) })
	}
	if slices.ContainsFunc(p.tables, (*tabledef.Table).Past) { // following ends at the change of a definition before anything else can be done
		return f.Run(ctx)
	}
	return p.withKeys(ctx, f)
}

// withKeys follows the source and creates the foreign keys when the target has caught up for the first
// time. A cutover and the end of following wait for that.
func (p *followPhase) withKeys(ctx context.Context, f *follow.Follower) error {
	if !slices.ContainsFunc(p.tables, func(t *tabledef.Table) bool { return len(t.State.Keys) > 0 }) {
		return p.handOver.follow(ctx, f, p.verify)
	}
	var added atomic.Bool
	f.MayEnd = added.Load
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var adding sync.WaitGroup
	var failed error
	adding.Go(func() {
		if failed = p.addKeys(ctx, f); failed != nil {
			cancel(endError{failed})
		}
		added.Store(failed == nil)
	})
	err := p.handOver.follow(following, f, p.verify)
	adding.Wait()
	if failed != nil && ctx.Err() == nil {
		return failed
	}
	return err
}

// addKeys creates the foreign keys once the target has caught up, between two transactions of the
// source, while no change is applied. If following ends before that, the caller creates them.
func (p *followPhase) addKeys(ctx context.Context, f *follow.Follower) error {
	err := f.WaitCaughtUp(ctx)
	var failed error
	if err == nil {
		err = f.BetweenTransactions(ctx, func() error {
			failed = (&foreignKeys{p.job}).add(ctx)
			return nil
		})
	}
	if errors.Is(err, follow.ErrEnded) || f.Err() != nil { // following reports the error, if any
		err = nil
	}
	return errors.Join(failed, err)
}
