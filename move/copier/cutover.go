package copier

import (
	"context"

	"github.com/taredb/tare/move/copier/cutover"
	"github.com/taredb/tare/move/copier/telemetry"
	"github.com/taredb/tare/move/internal/follow"
)

// prepareCutover determines the progress of an earlier cutover before anything is written to the target
// tables. It returns an error if the copy would overwrite rows that clients have written.
func (r *run) prepareCutover(ctx context.Context) error {
	if err := r.state.CreateCutover(ctx, r.to); err != nil {
		return err
	}
	if err := r.openCutover(ctx); err != nil || r.cut == nil {
		return err
	}
	return r.cut.Start(ctx)
}

// openCutover loads the state of the cutover and returns an error if that state does not permit the run.
func (r *run) openCutover(ctx context.Context) error {
	sources, err := r.sources(ctx)
	if err != nil {
		return err
	}
	if r.o.handover != nil {
		return cutover.OpenHandoverPart(ctx, r.to, r.state.Followed(r.source, r.o.Tables), sources, r.state.Lease == nil)
	}
	r.cut, err = cutover.Open(ctx, r.o.Cutover, cutover.Copy{
		Source: r.from, Sources: sources, Target: r.o.To, To: r.to, State: r.state.Followed(r.source, r.o.Tables),
		Specs: r.o.Tables, Tables: r.tables, Writer: r.newWriter, Follow: r.o.Follow, Restart: r.o.Restart,
		Patience: r.o.Patience, Workers: r.o.Workers, Ignore: r.o.IgnoreStatements, Count: r.o.Metrics.applied, Heap: r.o.Metrics.changeBytes(),
		NewHeartbeat: r.newHeart, Waits: r.o.waits, Observe: r.o.Observe, Unequal: r.monitor.unequal, Watch: func(f *follow.Follower, phase telemetry.RunPhase) { r.monitor.watch(f, phase) },
	})
	return err
}

// checkCutover runs the checks of prepareCutover and changes nothing.
func (r *run) checkCutover(ctx context.Context) error {
	if err := r.openCutover(ctx); err != nil || r.cut == nil {
		return err
	}
	return r.cut.Check(ctx)
}

// handedOver reports whether the tables of all parts of a Split are handed over.
func (r *run) handedOver() bool {
	if r.o.handover == nil {
		return false
	}
	_, made := r.o.handover.Made()
	return made
}

// followAndCut follows the source, and switches a gateway's clients if the copy has a cutover.
func (r *run) followAndCut(ctx context.Context, f *follow.Follower) error {
	if r.o.Swap != nil {
		return r.followAndSwap(ctx, f)
	}
	if r.o.handover != nil {
		part := &cutover.HandoverPart{Source: r.from, State: r.follow, Tables: r.tables, Writer: r.newWriter, Unequal: r.monitor.unequal, Check: r.checkLookups}
		return r.o.handover.Follow(ctx, r.o.number, part, f, func(ctx context.Context) error { return r.followVerified(ctx, f) })
	}
	if r.cut == nil {
		return r.followVerified(ctx, f)
	}
	return r.cut.Follow(ctx, f, func(ctx context.Context) error { return r.followVerified(ctx, f) })
}
