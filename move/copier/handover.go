package copier

import (
	"context"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/telemetry"
)

// The handOverPhase moves clients, or the name of a table, from the source to the target once it has everything: a gateway's clients by a
// cutover, those of all parts of a Split by a handover, and a table that is altered by a swap.
type handOverPhase struct {
	*job
	monitor *monitor
	stream  *changeStream
	cut     *cutover.Cutover // nil unless a gateway's clients are to be switched
}

// past reports whether an earlier run has switched the clients.
func (p *handOverPhase) past() bool { return p.cut.Past() }

// complete does what an earlier run has left to do after the clients were switched.
func (p *handOverPhase) complete(ctx context.Context) error { return p.cut.Finish(ctx) }

// close closes the connections of the cutover.
func (p *handOverPhase) close() { p.cut.Close() }

// prepare determines the progress of an earlier cutover before anything is written to the target
// tables. It returns an error if the copy would overwrite rows that clients have written.
func (p *handOverPhase) prepare(ctx context.Context) error {
	if err := p.state.CreateCutover(ctx, p.to); err != nil {
		return err
	}
	if err := p.open(ctx); err != nil || p.cut == nil {
		return err
	}
	return p.cut.Start(ctx)
}

// open loads the state of the cutover and returns an error if that state does not permit the run.
func (p *handOverPhase) open(ctx context.Context) (err error) {
	if p.o.part.handover() != nil {
		return cutover.OpenHandoverPart(ctx, p.to, p.state.Followed(p.source, p.o.Tables), p.state.Lease == nil)
	}
	p.cut, err = cutover.Open(ctx, p.o.Cutover, cutover.Copy{
		Source: p.from, Target: p.o.To, To: p.to, State: p.state.Followed(p.source, p.o.Tables),
		Specs: p.o.Tables, Tables: p.tables, Writer: p.newWriter, Follow: p.o.Follow, Restart: p.o.Restart,
		Shared: p.streams(), NewHeartbeat: p.newHeart, Unequal: p.monitor.unequal,
		Watch: func(f *follow.Follower, phase telemetry.RunPhase) { p.monitor.watch(f, phase) },
	})
	return err
}

// check runs the checks of prepare and changes nothing.
func (p *handOverPhase) check(ctx context.Context) error {
	if err := p.open(ctx); err != nil || p.cut == nil {
		return err
	}
	return p.cut.Check(ctx)
}

// made reports whether the tables of all parts of a Split are handed over.
func (p *handOverPhase) made() bool {
	h := p.o.part.handover()
	if h == nil {
		return false
	}
	_, made := h.Made()
	return made
}

// follow follows the source, and switches a gateway's clients if the copy has a cutover.
func (p *handOverPhase) follow(ctx context.Context, f *follow.Follower, verify *verifyPhase) error {
	if p.o.Swap != nil {
		return p.swap(ctx, f, verify)
	}
	if h := p.o.part.handover(); h != nil {
		part := &cutover.HandoverPart{Source: p.from, State: p.stream.record, Tables: p.tables, Writer: p.newWriter, Unequal: p.monitor.unequal, Check: p.checkLookups}
		return h.Follow(ctx, p.o.part.number, part, f, func(ctx context.Context) error { return verify.follow(ctx, f) })
	}
	if p.cut == nil {
		return verify.follow(ctx, f)
	}
	return p.cut.Follow(ctx, f, func(ctx context.Context) error { return verify.follow(ctx, f) })
}
