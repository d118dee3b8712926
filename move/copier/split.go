package copier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
)

// A Split copies parts of the same tables of one source to several targets as one operation. Each part is a copy with a
// separate state, lease, heartbeats and position, and is consistent in itself. The rows are read once for all of them. If one part fails, the
// others stop, and all of them resume together. With UntilCaughtUp no part ends before all may.
//
// Split does not check that the parts divide the rows: see tabledef.AddSplit.
type Split struct {
	parts   []*splitPart
	control string
	observe func(telemetry.Event)
	merges  bool                    // the parts have several sources and one target: see NewMerge
	meeting *meeting                // of the parts before their rows; nil: each reads its rows independently
	cancel  context.CancelCauseFunc // set by Run

	handover *cutover.Handover // nil: a command or UntilCaughtUp ends the parts

	mu  sync.Mutex
	end bool // all parts may end
}

// A splitPart is the copy to one target, or of a merge from one source.
type splitPart struct {
	split    *Split
	number   int // from 0
	o        Options
	from     string // address of the source of a merge; empty: the parts have one source
	socket   *control.Socket
	caughtUp bool             // has caught up at least once; under Split.mu
	mayEnd   bool             // under Split.mu
	ended    bool             // under Split.mu
	last     telemetry.Status // of a part that has ended; under Split.mu
}

// NewSplit returns a Split. The parts must follow their source, switch no clients, and have no control socket. control is the path of
// one for all of them; empty: none. The options Observe of the parts are replaced by observe; events of one part have Event.To.
func NewSplit(parts []Options, socket string, observe func(telemetry.Event)) (*Split, error) {
	s := &Split{control: socket, observe: observe}
	if s.observe == nil {
		s.observe = func(telemetry.Event) {}
	}
	for i := range parts {
		p := &splitPart{split: s, number: i, o: parts[i]}
		if o := &p.o; !o.Follow || o.Cutover != nil || o.Swap != nil || o.Control != "" {
			return nil, errors.New("a part of a split follows its source, without a cutover, a swap and a control socket")
		}
		p.last = telemetry.IdleStatus()
		p.last.To = p.o.To.Addr
		p.socket = control.NewSocket(control.Controlled{
			Status: func() telemetry.Status { return s.lastStatus(p) }, Change: func(throttle.LimitChange) error { return control.ErrNoCopy },
			Finish: func() error { return control.ErrNoCopy }, Abort: func() {}, Observe: func(telemetry.Event) {},
		})
		p.o.part = p
		p.o.Observe = func(e telemetry.Event) { s.partObserve(p, e) }
		s.parts = append(s.parts, p)
	}
	s.meeting = newMeeting(len(parts))
	return s, nil
}

// Run copies all parts. Nothing is written if two of them have the same table of one server, unless it is a merge. It returns their reports in
// the order of the parts, or the error of the part that failed first.
func (s *Split) Run(ctx context.Context) (_ []*Report, err error) {
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	if s.control != "" {
		end, err := control.Serve(s.control, control.Controlled{
			Status: s.Status, Change: s.change, Finish: s.finish, Observe: s.observe,
			Abort: func() { s.cancel(control.ErrAborted) },
		})
		if err != nil {
			return nil, err
		}
		defer func() { end(resultOf(ctx, err)) }()
	}
	options := make([]Options, len(s.parts))
	for i, p := range s.parts {
		options[i] = p.o
	}
	done, err := s.begin(ctx, options)
	if err != nil && errors.Is(context.Cause(ctx), control.ErrAborted) {
		err = control.ErrAborted
	}
	if err != nil {
		return nil, err
	}
	reports := make([]*Report, len(s.parts))
	if done {
		return s.handedOver(reports), nil
	}
	var failed splitFailure
	var running, cutting sync.WaitGroup
	handing, stop := context.WithCancel(ctx)
	defer stop()
	if s.handover != nil {
		cutting.Go(func() {
			if err := s.handover.Run(handing); err != nil && handing.Err() == nil {
				failed.add(err)
				s.cancel(err)
			}
		})
	}
	for i, p := range s.parts {
		running.Go(func() {
			report, err := Run(ctx, p.o)
			if err == nil {
				reports[i] = report
				s.partEnded(p, report)
				return
			}
			err = fmt.Errorf("copy %s: %w", s.name(p), err)
			failed.add(err)
			s.cancel(fmt.Errorf("stopped, because another part has failed: %w", err))
		})
	}
	running.Wait()
	stop()
	cutting.Wait()
	if failed.err != nil && errors.Is(context.Cause(ctx), control.ErrAborted) {
		return nil, control.ErrAborted
	}
	if failed.err != nil {
		return nil, failed.err
	}
	return s.handedOver(reports), nil
}

// A splitFailure is the first error of the parts, that of the part which has caused it if there is one.
type splitFailure struct {
	mu  sync.Mutex
	err error
}

func (f *splitFailure) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stopped := new(stoppedError); f.err == nil || errors.As(f.err, &stopped) && !errors.As(err, &stopped) {
		f.err = err
	}
}

// suffix distinguishes the heartbeats of the parts. It is empty if p is nil: the copy is no part.
func (p *splitPart) suffix() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("-%d", p.number+1)
}

// rows returns where the parts meet to have their rows read once; nil if they are not, or the copy is no part.
func (p *splitPart) rows() *meeting {
	if p == nil {
		return nil
	}
	return p.split.meeting
}

// handover returns the handover of all parts; nil if there is none, or the copy is no part.
func (p *splitPart) handover() *cutover.Handover {
	if p == nil {
		return nil
	}
	return p.split.handover
}

// endTogether lets a part end only once all parts may.
func (p *splitPart) endTogether(f *follow.Follower) {
	if p != nil {
		may := f.MayEnd
		f.MayEnd = func() bool { return p.split.partMayEnd(p, may()) }
	}
}

// partObserve passes on an event, and reports once that all targets have caught up.
func (s *Split) partObserve(p *splitPart, e telemetry.Event) {
	if e.From = p.from; !s.merges {
		e.To = p.o.To.Addr
	}
	s.observe(e)
	if e.Kind != telemetry.EventCaughtUp {
		return
	}
	s.mu.Lock()
	before := p.caughtUp
	p.caughtUp = true
	all := !before
	for _, other := range s.parts {
		all = all && other.caughtUp
	}
	s.mu.Unlock()
	if all {
		text := fmt.Sprintf("all %d targets have caught up with the source", len(s.parts))
		if s.merges {
			text = fmt.Sprintf("the target has caught up with all %d sources", len(s.parts))
		}
		s.observe(telemetry.Event{Kind: telemetry.EventCaughtUp, Text: text})
	}
}

// partMayEnd records whether a part may end, and reports whether all may.
func (s *Split) partMayEnd(p *splitPart, may bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.mayEnd = may
	all := true
	for _, other := range s.parts {
		all = all && other.mayEnd
	}
	s.end = s.end || all
	return s.end && may
}

// partEnded records the last status of a part.
func (s *Split) partEnded(p *splitPart, r *Report) {
	last := telemetry.IdleStatus()
	last.From, last.To, last.Phase = p.from, p.o.To.Addr, telemetry.RunFollowing
	for i := range r.Tables {
		t := &r.Tables[i]
		last.Tables = append(last.Tables, telemetry.TableStatus{
			Source: t.Source, Target: t.Target, Phase: "finished", Rows: t.Rows, RowsEstimate: t.Rows, Chunks: t.Chunks, ChunksCopied: t.Chunks,
		})
	}
	if r.Follow != nil {
		last.Follow = &telemetry.FollowStatus{Position: r.Follow.Position, Lag: "finished", CaughtUp: r.Follow.CaughtUp}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.last, p.ended = last, true
}

// name returns the name of a part for messages.
func (s *Split) name(p *splitPart) string {
	if s.merges {
		return "from " + p.from
	}
	return "to " + p.o.To.Addr
}

func (s *Split) lastStatus(p *splitPart) telemetry.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.last
}

// active returns the parts that have not ended.
func (s *Split) active() (all []*splitPart) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if !p.ended {
			all = append(all, p)
		}
	}
	return all
}

// change changes the limits of all parts.
func (s *Split) change(c throttle.LimitChange) error {
	var errs []error
	for _, p := range s.active() {
		if err := p.socket.Current().Change(c); err != nil {
			errs = append(errs, fmt.Errorf("copy %s: %w", s.name(p), err))
		}
	}
	return errors.Join(errs...)
}

// finish makes each part end once it has caught up. Unless all of them follow, none is changed.
func (s *Split) finish() error {
	active := s.active()
	for _, p := range active {
		if now := p.socket.Current().Status(); now.Phase != telemetry.RunFollowing || now.Follow == nil {
			return fmt.Errorf("copy %s: %w", s.name(p), control.ErrNotYet)
		}
	}
	var errs []error
	for _, p := range active {
		if err := p.socket.Current().Finish(); err != nil {
			errs = append(errs, fmt.Errorf("copy %s: %w; run finish again", s.name(p), err))
		}
	}
	return errors.Join(errs...)
}

// phases is the order of the phases of parts.
var phases = map[telemetry.RunPhase]int{telemetry.RunPreparing: 0, telemetry.RunCopying: 1, telemetry.RunVerifying: 2, telemetry.RunFollowing: 3, telemetry.RunReversing: 4}

// Status returns the status of all parts together: the earliest phase, the sums of rows, and of following the part with
// the largest lag, where an unknown lag is the largest. It has caught up if all parts have. Status.Parts has each part.
func (s *Split) Status() telemetry.Status {
	parts := make([]telemetry.Status, len(s.parts))
	for i, p := range s.parts {
		parts[i] = p.socket.Current().Status()
		if parts[i].Version == 0 { // before its first run
			parts[i] = s.lastStatus(p)
		}
	}
	return mergeStatus(parts, s.merges)
}

// mergeStatus returns the status of all parts together: see Split.Status. ofSources: the parts have several sources and
// one target, not one source and several targets.
func mergeStatus(parts []telemetry.Status, ofSources bool) telemetry.Status {
	all := parts[0]
	all.Parts, all.Tables, all.Waits = parts, mergeTables(parts, ofSources), []telemetry.WaitStatus{}
	all.Progress, all.Verify, all.Follow = mergeProgress(parts), mergeVerify(parts), mergeFollow(parts)
	from, to := make([]string, len(parts)), make([]string, len(parts))
	all.Servers = nil
	for i := range parts {
		p := &parts[i]
		for _, server := range p.Servers {
			if !slices.Contains(all.Servers, server) {
				all.Servers = append(all.Servers, server)
			}
		}
		from[i], to[i] = p.From, p.To
		all.From = cmp.Or(all.From, p.From)
		if all.Started.IsZero() || !p.Started.IsZero() && p.Started.Before(all.Started) {
			all.Started = p.Started
		}
		if phases[p.Phase] < phases[all.Phase] {
			all.Phase = p.Phase
		}
		if p.Throttle.Share < all.Throttle.Share || p.Throttle.Stopped {
			all.Throttle = p.Throttle
		}
		all.Waits = append(all.Waits, p.Waits...)
	}
	if ofSources {
		all.From = strings.Join(from, ",")
	} else {
		all.To = strings.Join(to, ",")
	}
	return all
}

// mergeTables returns the tables of all parts, with the address of the part before the name of its source or target.
func mergeTables(parts []telemetry.Status, ofSources bool) []telemetry.TableStatus {
	all := []telemetry.TableStatus{}
	for i := range parts {
		p := &parts[i]
		for _, t := range p.Tables {
			if ofSources {
				t.Source = p.From + " " + t.Source
			} else {
				t.Target = p.To + " " + t.Target
			}
			all = append(all, t)
		}
	}
	return all
}

// mergeVerify returns the sums over the parts that are compared, or nil if there are none.
func mergeVerify(parts []telemetry.Status) *telemetry.VerifyStatus {
	var sum *telemetry.VerifyStatus
	for i := range parts {
		v := parts[i].Verify
		if v == nil {
			continue
		}
		if sum == nil {
			sum = &telemetry.VerifyStatus{}
		}
		sum.Chunks, sum.Compared = sum.Chunks+v.Chunks, sum.Compared+v.Compared
		sum.Waiting, sum.Mismatches = sum.Waiting+v.Waiting, sum.Mismatches+v.Mismatches
	}
	return sum
}

// mergeProgress returns the sums over the parts and the mean of their percentages, or nil if the progress of a part is unknown.
func mergeProgress(parts []telemetry.Status) *telemetry.CopyProgress {
	sum := &telemetry.CopyProgress{RowsDeviation: new(int64)}
	for i := range parts {
		if parts[i].Progress == nil {
			return nil
		}
		addProgress(sum, parts[i].Progress)
	}
	sum.Percent /= float64(len(parts))
	return sum
}

// mergeFollow returns the status of the part with the largest lag, or nil unless all parts follow.
func mergeFollow(parts []telemetry.Status) *telemetry.FollowStatus {
	slowest, caughtUp := parts[0].Follow, true
	for i := range parts {
		f := parts[i].Follow
		if f == nil {
			return nil
		}
		if laterLag(f, slowest) {
			slowest = f
		}
		caughtUp = caughtUp && f.CaughtUp
	}
	all := *slowest
	all.CaughtUp = caughtUp
	return &all
}

// addProgress adds the progress of a part; the percentages are summed.
func addProgress(sum, p *telemetry.CopyProgress) {
	sum.Percent += p.Percent
	sum.Rows, sum.RowsEstimate = sum.Rows+p.Rows, sum.RowsEstimate+p.RowsEstimate
	sum.RowsPerSecond, sum.BytesPerSecond = sum.RowsPerSecond+p.RowsPerSecond, sum.BytesPerSecond+p.BytesPerSecond
	if p.RowsDeviation == nil || sum.RowsDeviation == nil {
		sum.RowsDeviation = nil
	} else {
		*sum.RowsDeviation += *p.RowsDeviation
	}
	if p.ETASeconds != nil && (sum.ETASeconds == nil || *p.ETASeconds > *sum.ETASeconds) {
		sum.ETASeconds = p.ETASeconds
	}
}

// laterLag reports whether the lag of a is larger than that of b. One that has ended has none.
func laterLag(a, b *telemetry.FollowStatus) bool {
	lag := func(f *telemetry.FollowStatus) float64 {
		switch {
		case f.LagSeconds != nil:
			return *f.LagSeconds
		case f.Lag == "finished":
			return -1
		}
		return 1e18
	}
	return lag(a) > lag(b)
}

// HandOver makes Run end with a handover: once all targets have caught up, and are compared if the parts verify, the source becomes
// read-only and all targets have everything that it has. Tables, Patience and Observe of o are set.
func (s *Split) HandOver(o cutover.HandoverOptions) (err error) {
	if s.merges {
		return errors.New("a merge has no handover: it would stop the writes to one of its sources")
	}
	for _, p := range s.parts {
		if p.o.UntilCaughtUp || p.o.Heartbeat.Off || p.o.Heartbeat.OnReplica {
			return errors.New("the handover of a split needs parts that follow until then, and heartbeats on a source that is no replica")
		}
	}
	first := s.parts[0].o // a copy
	if err := first.validate(); err != nil {
		return err
	}
	o.Tables, o.Patience, o.Observe = slices.Clone(first.Tables), first.Patience, s.observe
	for i := range first.Tables {
		if l := first.Tables[i].Lookup; l != nil && !slices.ContainsFunc(o.Tables, func(t tabledef.Spec) bool { return strings.EqualFold(t.Source(), l.Source()) }) {
			o.Tables = append(o.Tables, tabledef.Spec{Schema: l.Schema, Name: l.Table})
		}
	}
	s.handover, err = cutover.NewHandover(o, len(s.parts))
	return err
}

// CheckHandover returns an error if the source's account may not stop the writes. It changes nothing.
func (s *Split) CheckHandover(ctx context.Context) error { return s.handover.Check(ctx) }

// begin runs the checks that precede all parts. It reports done if an earlier run has handed the tables over.
func (s *Split) begin(ctx context.Context, parts []Options) (done bool, err error) {
	if !s.merges {
		err = refuseSharedServers(ctx, parts)
	}
	if err != nil || s.handover == nil {
		return false, err
	}
	targets := make([]cutover.HandoverTarget, len(parts))
	for i := range parts {
		o := parts[i] // a copy
		if err := o.validate(); err != nil {
			return false, err
		}
		targets[i] = cutover.HandoverTarget{Config: o.To, Schema: o.StateSchema, Tables: o.Tables}
	}
	return s.handover.Begin(ctx, targets, parts[0].Restart)
}

// handedOver adds the result of the handover to the reports, and creates those that are missing.
func (s *Split) handedOver(reports []*Report) []*Report {
	if s.handover == nil {
		return reports
	}
	result, _ := s.handover.Made()
	for i := range reports {
		if reports[i] == nil {
			reports[i] = &Report{Tables: []TableReport{}, NotCopied: []telemetry.NotCopied{}}
		}
		reports[i].Cutover = result
	}
	return reports
}
