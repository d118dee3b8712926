package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/move/copier/cutover"
	"github.com/taredb/tare/move/copier/state"
	"github.com/taredb/tare/move/copier/tabledef"
	"github.com/taredb/tare/move/copier/telemetry"
	"github.com/taredb/tare/move/copier/verify"
	"github.com/taredb/tare/move/internal/follow"
	"github.com/taredb/tare/mysql/binlog"
)

// startTables sets the position from which each table's changes are applied: after everything that the state
// of any following copy has recorded, and after the snapshot its rows were first read from. A table without
// copied rows gets none.
func (r *run) startTables(ctx context.Context) error {
	sources, err := r.sources(ctx)
	if err != nil {
		return err
	}
	followed, err := r.state.FollowedTables(ctx, r.to, sources)
	if err != nil {
		return err
	}
	for _, t := range r.tables {
		if t.State == nil {
			continue
		}
		copied, err := t.CopiedAt()
		if err != nil {
			return err
		}
		if t.Start, err = state.Latest(append(followed[t.Spec.StateTarget()], copied)...); err != nil {
			return fmt.Errorf("follow the changes of %s: %w", t.Spec.Source(), err)
		}
	}
	return nil
}

// oldest returns the position from which the log is read: the first of the tables' starts. A table that this
// run has started to copy starts at its snapshot.
func (r *run) oldest() (oldest binlog.Position, err error) {
	for _, t := range r.tables {
		if t.State == nil {
			continue
		}
		if t.Start.IsZero() {
			if t.Start, err = t.CopiedAt(); err != nil {
				return oldest, err
			}
		}
		if oldest.IsZero() {
			oldest = t.Start
			continue
		}
		before, known := t.Start.Before(oldest)
		if !known {
			return oldest, fmt.Errorf("follow the changes of %s: its rows are as of %s, those of another table as of %s, and neither is before the other: "+
				"they come from servers that had different transactions; copy the tables again with --restart", t.Spec.Source(), t.Start, oldest)
		}
		if before {
			oldest = t.Start
		}
	}
	return oldest, nil
}

// prepareFollow returns an error, before any row is copied, if the source cannot be followed.
func (r *run) prepareFollow(ctx context.Context) (err error) {
	if !r.o.Follow {
		return nil
	}
	if err := r.state.CreateFollow(ctx, r.to); err != nil {
		return err
	}
	r.follow = r.state.Followed(r.source, r.o.Tables)
	if r.o.Restart {
		if err := r.follow.Forget(ctx, r.to); err != nil {
			return err
		}
	}
	if err := r.checkFollow(ctx); err != nil {
		return err
	}
	for _, t := range r.tables {
		if d := t.Redefined; d != nil && d.Persist {
			if err := r.state.Define(ctx, r.to, t.Spec, d.Definition); err != nil {
				return err
			}
		}
	}
	return r.prepareHeart(ctx)
}

// checkFollow sets the position from which changes are followed, and returns an error if that is impossible.
// It changes nothing.
func (r *run) checkFollow(ctx context.Context) (err error) {
	r.follow = r.state.Followed(r.source, r.o.Tables)
	if _, err = r.follow.Position(ctx, r.to); err != nil { // waits for a transaction that is being committed
		return err
	}
	if err := r.startTables(ctx); err != nil {
		return err
	}
	if r.followFrom, err = r.oldest(); err != nil {
		return err
	}
	startCascades(r.tables)
	return r.from.CheckFollow(ctx, r.present(), r.followFrom)
}

// prepareHeart writes the first heartbeat and reads it from the log, unless heartbeats are off.
func (r *run) prepareHeart(ctx context.Context) (err error) {
	r.heart = r.newHeart(r.from, r.follow.ID+r.o.part, r.tables)
	if r.heart == nil || len(r.present()) == 0 { // following stops at the change of their definition
		return nil
	}
	if r.mark, err = r.heart.First(ctx, r.present()); err != nil {
		return fmt.Errorf("prove that the changes of the source arrive: %w", err)
	}
	return nil
}

// marked returns the text of the snapshot's position with the heartbeat before it.
func (r *run) marked(position string) (string, error) {
	p, err := binlog.ParsePosition(position)
	if err != nil || p.IsZero() || r.mark == "" {
		return position, err
	}
	p.Heartbeat = r.mark
	return p.String(), nil
}

// followChanges follows the source once all rows are copied.
func (r *run) followChanges(ctx context.Context) error {
	_ = r.snapshot.Close() // its transactions are read-only, and delay the purge of the source's undo log
	var err error
	if r.followFrom, err = r.oldest(); err != nil {
		return err
	}
	pace := r.pacer.Stream(tick.Process())
	defer pace.Close()
	f, err := follow.New(follow.Options{
		Source: r.from, Tables: r.tables, From: r.followFrom, State: r.follow, Writer: r.newWriter, Workers: r.o.Workers,
		Ignore: r.o.IgnoreStatements, Patience: r.o.Patience, UntilCaughtUp: r.o.UntilCaughtUp, Heartbeat: r.heart, Pace: pace,
		Turn: r.o.merge.applying(), Waits: r.o.waits, Observe: r.o.Observe, Count: r.o.Metrics.applied, Heap: r.o.Metrics.changeBytes(),
	})
	if err != nil {
		return err
	}
	r.o.Observe(telemetry.Event{Kind: telemetry.EventFollow, Text: r.followFrom.Place()})
	r.follower = f
	phase := telemetry.RunFollowing
	if r.o.Revert != nil {
		phase = telemetry.RunReversing
	}
	r.monitor.watch(f, phase)
	if r.o.Cutover != nil && r.cut == nil {
		var steps sync.WaitGroup
		defer steps.Wait()
		steps.Go(func() { cutover.Steps(ctx, f, r.from.Addr(), r.o.To.Addr, r.o.Observe) })
	}
	if slices.ContainsFunc(r.tables, func(t *tabledef.Table) bool { return t.Spec.Lookup != nil }) {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel(nil)
		watching.Go(func() { r.watchLookups(ctx, func(err error) { cancel(endError{err}) }) })
	}
	if slices.ContainsFunc(r.tables, (*tabledef.Table).Past) { // following ends at the change of a definition before anything else can be done
		return f.Run(ctx)
	}
	return r.followWithKeys(ctx, f)
}

// followVerified follows the source and compares rows concurrently if the copy verifies.
func (r *run) followVerified(ctx context.Context, f *follow.Follower) error {
	if !r.o.Verify {
		r.endTogether(f)
		return f.Run(ctx)
	}
	v := verify.NewFollowing(r.verifyOptions(), f)
	may := f.MayEnd
	f.MayEnd = func() bool { return may() && v.Passed() }
	r.endTogether(f)
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var comparing sync.WaitGroup
	verifying, stop := context.WithCancel(following)
	comparing.Go(func() {
		if err := v.Run(verifying); err != nil {
			cancel(endError{fmt.Errorf("verify while following: %w", err)})
		}
	})
	err := f.Run(following)
	stop()
	comparing.Wait()
	var reported endError
	if err != nil && errors.As(context.Cause(following), &reported) {
		err = reported.error
	}
	r.verified = v.Result()
	return err
}

// endTogether lets a part of a Split end only once all parts may.
func (r *run) endTogether(f *follow.Follower) {
	if r.o.mayEnd != nil {
		may := f.MayEnd
		f.MayEnd = func() bool { return r.o.mayEnd(may()) }
	}
}

// verifyOptions returns the options of a verification of the run.
func (r *run) verifyOptions() verify.Options {
	return verify.Options{
		Source: r.from, View: r.snapshot, Tables: r.tables, To: r.to, State: r.state, Writer: r.newWriter,
		Workers: r.o.Workers, ChunkBytes: r.o.ChunkBytes, MaxViewAge: r.o.MaxViewAge, Patience: r.o.Patience,
		Pacer: r.pacer, Observe: r.o.Observe,
		Started: r.monitor.compares,
	}
}

// retentionPause is the interval of the check, while rows are copied, that the source still has the log from
// the position where following starts.
const retentionPause = time.Minute

// copyKept copies the rows, and fails as soon as the changes to follow have been purged from the log.
func (r *run) copyKept(ctx context.Context, fail func(error)) error {
	if !r.o.Follow {
		return r.rows.run(ctx)
	}
	from, err := r.oldest()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() {
		ticker := time.NewTicker(retentionPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := r.from.CheckFollow(ctx, r.present(), from)
			if stopped := new(binlog.StopError); errors.As(err, &stopped) {
				fail(err)
				return
			}
		}
	})
	return r.rows.run(ctx)
}
