package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/cutover"
	"github.com/taredb/tare/copier/follow"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/copier/verify"
	"github.com/taredb/tare/tick"
)

// startTables sets where each table's changes begin: after all that is in the target by the
// state of any copy that has followed it, and after the snapshot that its rows were first read
// by. A table of which nothing is copied gets none.
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
		if t.Start, err = state.Latest(append(followed[t.Spec.Target()], copied)...); err != nil {
			return fmt.Errorf("follow the changes of %s: %w", t.Spec.Source(), err)
		}
	}
	return nil
}

// oldest is the position from which the log is read: the first of the tables' starts. A table that
// this run has begun to copy starts at its snapshot.
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

// prepareFollow refuses, before any row moves, what cannot be followed.
func (r *run) prepareFollow(ctx context.Context) (err error) {
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
		if d := t.Redefined; d != nil && d.Anew {
			if err := r.state.Define(ctx, r.to, t.Spec, d.Definition); err != nil {
				return err
			}
		}
	}
	return r.prepareHeart(ctx)
}

// checkFollow sets where following starts, and refuses what cannot be followed from there. It changes nothing.
func (r *run) checkFollow(ctx context.Context) (err error) {
	r.follow = r.state.Followed(r.source, r.o.Tables)
	if _, err = r.follow.Position(ctx, r.to); err != nil { // waits for a transaction that is being committed
		return err
	}
	if err := r.startTables(ctx); err != nil {
		return err
	}
	if r.goOn, err = r.oldest(); err != nil {
		return err
	}
	r.startCascades()
	return r.from.CheckFollow(ctx, r.present(), r.goOn)
}

// newHeart returns the heart of a stream of changes from a server; nil when heartbeats are off.
func (r *run) newHeart(source binlog.Follower, copy string, tables []*tabledef.Table) *follow.Heart {
	if r.o.Heartbeat.Off || len(tables) == 0 {
		return nil
	}
	return follow.NewHeart(follow.HeartOptions{
		Source: source, Copy: copy, Tables: tables, OnReplica: r.o.Heartbeat.OnReplica,
		Patience: r.o.Patience, Waits: r.o.waits, Observe: r.o.Observe,
	})
}

// prepareHeart writes the first heartbeat and reads it in the log, unless heartbeats are off.
func (r *run) prepareHeart(ctx context.Context) (err error) {
	r.heart = r.newHeart(r.from, r.follow.ID, r.tables)
	if r.heart == nil || len(r.present()) == 0 { // it stops at the change of their definition
		return nil
	}
	if r.mark, err = r.heart.First(ctx, r.present()); err != nil {
		return fmt.Errorf("prove that the changes of the source arrive: %w", err)
	}
	return nil
}

// marked is the text of a position of the snapshot, with the heartbeat before it.
func (r *run) marked(position string) (string, error) {
	p, err := binlog.ParsePosition(position)
	if err != nil || p.IsZero() || r.mark == "" {
		return position, err
	}
	p.Beat = r.mark
	return p.String(), nil
}

// followChanges follows the source once all rows are copied.
func (r *run) followChanges(ctx context.Context) error {
	_ = r.snapshot.Close() // of one view, whose transactions read only and hold up the source's cleaning
	var err error
	if r.goOn, err = r.oldest(); err != nil {
		return err
	}
	pace := r.pacer.Stream(tick.Process())
	defer pace.Close()
	f, err := follow.New(follow.Options{
		Source: r.from, Tables: r.tables, From: r.goOn, State: r.follow, Writer: r.newWriter, Workers: r.o.Workers,
		Ignore: r.o.IgnoreStatements, Patience: r.o.Patience, UntilCaughtUp: r.o.UntilCaughtUp, Heart: r.heart, Pace: pace,
		Waits: r.o.waits, Observe: r.o.Observe, Count: r.o.Metrics.applied,
	})
	if err != nil {
		return err
	}
	r.o.Observe(telemetry.Event{Kind: telemetry.EventFollow, Text: r.goOn.Place()})
	r.mu.Lock()
	r.follower = f
	r.mu.Unlock()
	r.watch(f, telemetry.RunFollowing)
	if r.o.Cutover != nil && r.cut == nil {
		var steps sync.WaitGroup
		defer steps.Wait()
		steps.Go(func() { cutover.Steps(ctx, f, r.from.Addr(), r.o.To.Addr, r.o.Observe) })
	}
	if slices.ContainsFunc(r.tables, (*tabledef.Table).Past) { // it ends at the change before anything else could be done
		return f.Run(ctx)
	}
	return r.followWithKeys(ctx, f)
}

// followVerified follows, and compares meanwhile.
func (r *run) followVerified(ctx context.Context, f *follow.Follower) error {
	if !r.o.Verify {
		return f.Run(ctx)
	}
	v := verify.NewFollowing(r.verifyOptions(), f)
	may := f.MayEnd
	f.MayEnd = func() bool { return may() && v.Passed() }
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
	var told endError
	if err != nil && errors.As(context.Cause(following), &told) {
		err = told.error
	}
	r.verified = v.Result()
	return err
}

// verifyOptions say what is compared of the run.
func (r *run) verifyOptions() verify.Options {
	return verify.Options{
		Source: r.from, View: r.snapshot, Tables: r.tables, To: r.to, State: r.state, Writer: r.newWriter,
		Workers: r.o.Workers, ChunkBytes: r.o.ChunkBytes, MaxViewAge: r.o.MaxViewAge, Patience: r.o.Patience,
		Pacer: r.pacer, Observe: r.o.Observe,
		Started: func(progress func() *telemetry.VerifyStatus) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.verifying = progress
		},
	}
}

// retentionPause is how often it is looked, while rows are copied, whether the source still has
// the log from where following will begin.
const retentionPause = time.Minute

// copyKept is copy, which fails as soon as what comes after it would not be possible.
func (r *run) copyKept(ctx context.Context, fail func(error)) error {
	if !r.o.Follow {
		return r.copy(ctx)
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
	return r.copy(ctx)
}
