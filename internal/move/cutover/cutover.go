package cutover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Copy is the copy whose clients are switched.
type Copy struct {
	Source binlog.Follower
	Target mysqlconn.Config
	To     *mysqlconn.Client // reads the state at the target
	State  *state.Following
	Specs  []tabledef.Spec
	Tables []*tabledef.Table
	Writer func() *state.Writer // returns a new writer to the target

	Follow, Restart bool

	follow.Shared // also of the reverse stream

	// NewHeartbeat returns the heart of a stream, or nil if heartbeats are off.
	NewHeartbeat func(source binlog.Follower, copy string, tables []*tabledef.Table) *follow.Heartbeat

	Unequal func() int                                     // returns the number of rows known to differ
	Watch   func(f *follow.Follower, p telemetry.RunPhase) // called when a stream starts
}

// A Cutover executes the steps that its machine decides on. It switches the clients of a gateway
// from the source to the target and then writes the target's changes back to the source.
type Cutover struct {
	copy       Copy
	o          *Options
	m          *machine
	state      record
	gateway    *gatewayclient.Client
	names      routeNames          // the gateway's names of both sides
	namedRoute gatewayclient.Route // the route that names belongs to
	notes      *state.Writer

	back     *binlog.Direct    // the target as a source; nil without a reverse stream
	reversed []*tabledef.Table // the tables in reverse direction; nil until they are described

	f      *follow.Follower // follows the source
	target binlog.Position
	source binlog.Position
	since  time.Duration // between the switch and the start of this run

	// Of the current try.
	token  string
	began  time.Time
	limit  time.Time
	frozen bool

	pinned time.Time // when sessions that cannot be switched were first seen; zero: never
	report Report
}

// A Report is the result of a cutover so far.
type Report struct {
	Phase          string         `json:"phase"`  // as recorded: cutting, cut, reversing, done or handed over; empty: clients are on the source
	Tries          int            `json:"tries"`  // in this run
	Moved          int            `json:"moved"`  // sessions, by this run
	Closed         int            `json:"closed"` // sessions that could not be switched, with ClosePinned
	PauseSeconds   float64        `json:"pause_seconds"`
	SourcePosition string         `json:"source_position,omitempty"` // everything before it was in the target at the switch
	TargetPosition string         `json:"target_position,omitempty"` // the clients' writes to the target come after it
	Reverse        *follow.Report `json:"reverse,omitempty"`         // from the target back to the source
}

// Polling intervals.
const (
	routeInterval = time.Second           // of the gateway's route while a stream runs
	pollInterval  = 50 * time.Millisecond // of an unknown route, and of the lag
)

// Open loads the state of the cutover of a copy and returns an error if that state does not permit the run. It returns nil if no
// gateway is to switch clients; o may be nil.
func Open(ctx context.Context, o *Options, c Copy) (*Cutover, error) {
	records := record{c.State}
	noted, others, err := records.load(ctx, c.To)
	if err != nil {
		return nil, err
	}
	byGateway := o != nil && o.Gateway.URL != ""
	byHand := fmt.Sprintf("; if it is certain that they are not, DELETE FROM %s in the target", records.Cutovers())
	switch {
	case len(others) > 0 && (c.Follow || c.Restart):
		return nil, fmt.Errorf("a cutover started with other tables includes %s: clients may be on the target already; repeat its command%s", strings.Join(others, ", "), byHand)
	case noted.phase != phaseNone && !byGateway && (c.Follow || c.Restart):
		return nil, fmt.Errorf("a cutover of these tables is recorded as %s: clients may be on the target already, whose rows would be overwritten; "+
			"repeat its command, with option cutover and its other options%s", noted.phase, byHand)
	case !byGateway:
		return nil, nil
	}
	return &Cutover{
		copy: c, o: o, state: records, gateway: gatewayclient.New(&o.Gateway), target: noted.target, since: noted.since,
		m: newMachine(noted.phase, o.Tries, o.Window > 0), notes: c.Writer(),
	}, nil
}

// Start queries the gateway for the side that clients are on, and checks that the target's changes could be written back to the
// source. It runs before anything is written to the target tables.
func (c *Cutover) Start(ctx context.Context) (err error) {
	if err := c.check(ctx); err != nil {
		return err
	}
	for c.m.step != stepWait && c.m.step != stepReverse && c.m.step != stepEnd {
		if c.m.step == stepCheck {
			err = c.known(ctx)
		} else {
			err = c.do(ctx)
		}
		if err != nil {
			return err
		}
	}
	if c.m.step == stepWait && c.m.err == nil {
		return c.gateway.MaySwitch(ctx)
	}
	return c.m.err
}

// check returns an error for a restart while clients may be on the target, and for tables whose changes could not be written back
// to the source.
func (c *Cutover) check(ctx context.Context) (err error) {
	if c.copy.Restart && c.m.phase != phaseNone {
		c.m = newMachine(phaseCutting, c.o.Tries, false) // the restart ignores the recorded phase: only the gateway's route decides
		if err := c.known(ctx); err != nil {
			return err
		}
		if c.m.step == stepCommit {
			return errors.New("option restart would empty the tables that the gateway's clients write to: they are at the target; switch them back first")
		}
		c.m.reverse = c.o.Window > 0
	}
	if c.o.Window > 0 && c.m.phase != phaseDone {
		if err := c.mayReverse(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mayReverse returns an error at the start if the target's changes could not be written back to the source.
func (c *Cutover) mayReverse(ctx context.Context) error {
	const without = "; or do without the way back: option reverse-window 0"
	for _, t := range c.copy.Tables {
		switch {
		case t.Spec.Where != "" || t.Spec.ShardColumn != "" || len(t.Spec.Columns) > 0:
			return fmt.Errorf("only a part of %s is copied, so changes to the target cannot be written back: copy whole tables%s", t.Spec.Source(), without)
		case t.ReverseRefusal(c.copy.Tables) != "":
			return fmt.Errorf("%s, so changes to the target cannot be written back%s", t.ReverseRefusal(c.copy.Tables), without)
		case len(t.Source.Triggers) > 0:
			return fmt.Errorf("the source's %s has triggers (%s), which would run again for rows written back from the target: drop them%s",
				t.Spec.Source(), strings.Join(t.Source.Triggers, ", "), without)
		}
	}
	var err error
	if c.back, err = binlog.OpenDirect(ctx, c.copy.Target); err != nil {
		return fmt.Errorf("connect to the target: %w", err)
	}
	now, err := c.back.CurrentPosition(ctx)
	if err == nil {
		err = c.back.CheckFollow(ctx, nil, now)
	}
	if err != nil {
		return fmt.Errorf("the target's changes could not go back to the source: %w%s", err, without)
	}
	return nil
}

// Check returns the errors that Start would return, and changes nothing.
func (c *Cutover) Check(ctx context.Context) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	if c.m.step == stepCheck {
		if err := c.known(ctx); err != nil {
			return err
		}
	}
	return c.m.err
}

// known polls the gateway until the side that clients are on is known, and passes it to the machine. It gives up when the patience is
// used up, and immediately if the gateway refuses the request.
func (c *Cutover) known(ctx context.Context) error {
	step := c.m.step
	for began := time.Now(); ; {
		a, err := c.gateway.Route(ctx)
		if err == nil {
			if err := c.findNames(ctx, &a); err != nil {
				return err
			}
			c.m.route(clientsAt(&a, c.names))
			if c.m.step != step {
				return nil
			}
			err = errors.New("the sessions are paused by another client")
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var refused gatewayclient.RefusedError
		if time.Since(began) > c.copy.Patience || errors.As(err, &refused) {
			return fmt.Errorf("the position of the gateway's clients is unknown: %w; run the same command again to resume from here", err)
		}
		if !telemetry.Sleep(ctx, pollInterval) {
			return context.Cause(ctx)
		}
	}
}

// Report returns the result so far.
func (c *Cutover) Report() *Report {
	c.report.Phase = string(c.m.phase)
	return &c.report
}

// Past reports whether the source is no longer followed.
func (c *Cutover) Past() bool { return c != nil && !c.m.followable() }

// Close closes the connections.
func (c *Cutover) Close() {
	if c == nil {
		return
	}
	c.notes.Close()
	c.gateway.Close()
	if c.back != nil {
		_ = c.back.Close()
	}
}

// notify reports an event of the cutover.
func (c *Cutover) notify(format string, a ...any) {
	c.copy.Observe(telemetry.Event{Kind: telemetry.EventCutover, Text: fmt.Sprintf(format, a...)})
}

// Follow calls run, which runs f, until clients are on the target. It then executes the remaining steps, as Finish does.
func (c *Cutover) Follow(ctx context.Context, f *follow.Follower, run func(context.Context) error) error {
	c.f = f
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var cutting sync.WaitGroup
	var failed error
	cutting.Go(func() {
		failed = c.cut(following)
		if failed != nil && !c.Past() && !errors.Is(failed, follow.ErrEnded) && !errors.Is(failed, errUnequal) {
			cancel(failed)
		}
		f.End()
	})
	err := run(following)
	cancel(follow.ErrEnded) // cut may still wait for the target
	cutting.Wait()
	switch {
	case c.Past() && failed != nil:
		return failed
	case c.Past():
		return c.Finish(ctx)
	case failed == nil, errors.Is(failed, follow.ErrEnded): // the follower finished before the switch
		return err
	case errors.Is(failed, errUnequal) && err == nil: // the report lists them
		c.notify("%v", failed)
		return nil
	}
	return failed
}

// errUnequal prevents the switch.
var errUnequal = errors.New("clients are not switched: rows differ between the two sides; use option restart")

// cut tries to switch until clients are on the target or no try is left.
func (c *Cutover) cut(ctx context.Context) error {
	defer c.seal()
	for c.m.step != stepReverse && c.m.step != stepFinish && c.m.step != stepEnd {
		if err := c.do(ctx); err != nil {
			return err
		}
		if c.m.followable() && c.m.step != stepNote {
			c.thaw()
		}
	}
	return c.m.err
}

// do executes the next step and passes its result to the machine. It returns only the errors of known, which the machine does not see.
func (c *Cutover) do(ctx context.Context) error {
	defer c.copy.Waits.Begin("the cutover: "+c.m.step.String(), "", c.limitOf(c.m.step))()
	var err error
	whole := context.WithoutCancel(ctx) // a request that was sent is completed, so that its result is known
	switch c.m.step {
	case stepCheck:
		return c.known(ctx)
	case stepAsk:
		return c.known(whole)
	case stepWait:
		err = c.wait(ctx)
	case stepHold:
		err = c.pauseClients(ctx)
	case stepReach:
		held, cancel := context.WithDeadline(ctx, c.limit)
		defer cancel()
		err = c.reach(held)
	case stepNote:
		held, cancel := context.WithDeadline(ctx, c.limit)
		defer cancel()
		err = c.notes.Retry(held, func() error { return c.state.recordCutting(held, c.notes.Conn, c.source, c.target) })
	case stepSwitch:
		err = c.change(whole)
	case stepRelease:
		err = c.gateway.Release(whole, c.token)
	case stepForget:
		err = c.notes.Retry(whole, func() error { return c.state.forget(whole, c.notes.Conn) })
	case stepPause:
		if !telemetry.Sleep(ctx, c.m.pause()) {
			err = context.Cause(ctx)
		}
	case stepCommit:
		if c.report.PauseSeconds == 0 {
			c.notify("the gateway says that its clients are at the target")
		}
		err = c.notes.Retry(whole, func() error { return c.state.recordPhase(whole, c.notes.Conn, phaseCut) })
	case stepFinish:
		err = c.notes.Retry(whole, func() error { return c.state.recordPhase(whole, c.notes.Conn, phaseDone) })
	case stepReverse, stepEnd:
		panic("BUG: a cutover was to do " + c.m.step.String())
	}
	if err == nil {
		c.m.ok()
		return nil
	}
	step, tried := c.m.step, c.m.tried
	c.m.failed(err)
	if c.m.tried > tried {
		c.report.Tries = c.m.tried
		c.notify("try %d of %d, %s: %v", c.m.tried, c.m.tries, step, err)
	}
	return nil
}

// limitOf returns how long a step may take; 0: unlimited.
func (c *Cutover) limitOf(s step) time.Duration {
	switch s {
	case stepHold, stepReach, stepNote:
		return c.o.MaxPause
	case stepWait:
		return 0
	}
	return c.copy.Patience
}

// wait blocks until the target has caught up and its lag is at most that of the options. If rows are compared, it also blocks until all
// of them were, and returns errUnequal if any differ.
func (c *Cutover) wait(ctx context.Context) error {
	if err := c.f.WaitCaughtUp(ctx); err != nil {
		return err
	}
	if err := c.patiently(ctx, func() error { return c.describeReversed(ctx) }); err != nil {
		return err
	}
	asked := time.Now()
	for {
		status := c.f.Status()
		if c.copy.Unequal() > 0 {
			return errUnequal
		}
		if c.f.MayEnd() && status.LagSeconds != nil && *status.LagSeconds <= c.o.Lag.Seconds() {
			if err := c.notes.Connect(ctx); err != nil {
				return err
			}
			if !c.waitsForPinned(ctx) {
				return c.raiseCounters(ctx, c.copy.Patience) // before the pause, which is left with little to do
			}
		}
		if time.Since(asked) > routeInterval {
			asked = time.Now()
			if a, err := c.gateway.Route(ctx); err == nil && clientsAt(&a, c.names) == routeTarget {
				return errElsewhere
			}
		}
		if !telemetry.Sleep(ctx, pollInterval) {
			return context.Cause(ctx)
		}
		if err := c.f.Err(); err != nil {
			return err
		}
	}
}

// waitsForPinned reports whether sessions that cannot be switched have time left to become switchable. They get it before the pause,
// because their commands are blocked during it.
func (c *Cutover) waitsForPinned(ctx context.Context) bool {
	if c.o.ClosePinned == 0 {
		return false
	}
	a, err := c.gateway.Route(ctx)
	if err != nil || len(a.Pinned) == 0 {
		return false // the pause returns the error, if any
	}
	if c.pinned.IsZero() {
		c.pinned = time.Now()
		p := a.Pinned[0]
		c.notify("%d sessions cannot be switched, and are closed in %v unless they let go: connection %d of user %q: %s", len(a.Pinned), c.o.ClosePinned, p.Connection, p.User, p.Reason)
	}
	return time.Since(c.pinned) < c.o.ClosePinned
}

// pauseClients pauses all commands at the gateway.
func (c *Cutover) pauseClients(ctx context.Context) (err error) {
	c.notify("the gateway holds all commands, for at most %v", c.o.MaxPause)
	c.began = time.Now()
	c.limit = c.began.Add(c.o.MaxPause)
	c.token, err = c.gateway.Pause(ctx, c.o.MaxPause)
	return err
}

// reach blocks until the target has everything that the source has, and suspends following. Commands are paused and none is executing,
// so the source's current position is its last one.
func (c *Cutover) reach(ctx context.Context) (err error) {
	if err := c.nonePrepared(ctx); err != nil {
		return err
	}
	if c.source, err = c.copy.Source.CurrentPosition(ctx); err != nil {
		return err
	}
	if err := mayWrite(ctx, c.notes); err != nil {
		return err
	}
	defer c.f.SuspendThrottle()() // clients are paused: apply without throttling
	if err := c.f.CatchUp(ctx, c.source); err != nil {
		return c.late(ctx, err, "the target had not reached the source's position")
	}
	boundary, err := c.f.Freeze(ctx)
	if err != nil {
		return c.late(ctx, err, "changes were still being applied")
	}
	c.frozen = true
	if !boundary {
		return errors.New("a transaction is written to the source past the gateway: have all writers go through it")
	}
	if err := c.raiseCounters(ctx, time.Until(c.limit)); err != nil {
		return c.late(ctx, err, "counters were still being set")
	}
	c.target = binlog.Position{}
	if c.back != nil {
		c.target, err = c.back.CurrentPosition(ctx)
	}
	return err
}

// errReadOnly means that the switched clients could not write.
var errReadOnly = errors.New("the target is read-only: SET GLOBAL read_only = 0 there")

// mayWrite returns errReadOnly if a target refuses the writes of accounts without special privileges, which the copy's account may have.
func mayWrite(ctx context.Context, target *state.Writer) error {
	v := ""
	err := target.Retry(ctx, func() (err error) {
		v, err = session.QueryValue(ctx, target.Conn, "SELECT @@GLOBAL.read_only + 0")
		return err
	})
	if err == nil && v != "0" {
		err = errReadOnly
	}
	return err
}

// errXADenied is MySQL's error for XA RECOVER without XA_RECOVER_ADMIN.
const errXADenied = 1401

// nonePrepared returns errPrepared if an XA transaction is prepared at the source, where its clients could not commit it after the switch. If the
// account may not see them, the copy's snapshot has reported that.
func (c *Cutover) nonePrepared(ctx context.Context) error {
	source, ok := c.copy.Source.(session.Querier)
	if !ok {
		return nil
	}
	err := seesPrepared(func(each func(mysqlwire.TextRow) error) error { return source.Query(ctx, listPrepared, each) })
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) && (session.Denied(refused.Number) || refused.Number == errXADenied) {
		return nil
	}
	return err
}

// raiseCounters raises the target's AUTO_INCREMENT counters to those of the source.
func (c *Cutover) raiseCounters(ctx context.Context, limit time.Duration) error {
	return state.RaiseCounters(ctx, c.copy.Source, c.copy.Tables, c.notes, limit)
}

// late returns an error with what, the unfinished part, if the time of the pause is over, and err otherwise.
func (c *Cutover) late(ctx context.Context, err error, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s when the %v of option cutover-hold were over", what, c.o.MaxPause)
	}
	return err
}

// change switches the clients at the gateway and reports the length of the pause.
func (c *Cutover) change(ctx context.Context) error {
	done, err := c.gateway.Switch(ctx, c.token, c.names.side, c.o.ClosePinned > 0)
	if err != nil {
		return err
	}
	pause := time.Since(c.began)
	c.report.Moved, c.report.Closed, c.report.PauseSeconds = done.Moved, done.Closed, pause.Seconds()
	closed := ""
	if done.Closed > 0 {
		closed = fmt.Sprintf(", %d were closed since they could not be switched", done.Closed)
	}
	c.notify("%d sessions are at the target%s; commands waited for at most %v; it has all of the source before %s", done.Moved, closed, pause.Round(100*time.Microsecond), c.source)
	return nil
}

// seal permanently stops following the source if clients may be on the target, and resumes it otherwise.
func (c *Cutover) seal() {
	if c.frozen && c.Past() {
		c.f.Seal()
		c.frozen = false
	}
	c.thaw()
}

func (c *Cutover) thaw() {
	if c.frozen {
		c.f.Thaw()
		c.frozen = false
	}
}

// Finish executes the steps after the switch, also in a run that starts after it.
func (c *Cutover) Finish(ctx context.Context) error {
	c.report.SourcePosition, c.report.TargetPosition = c.source.String(), c.target.String()
	for c.m.step != stepEnd {
		if c.m.step != stepReverse {
			if err := c.do(ctx); err != nil {
				return err
			}
			continue
		}
		if err := c.reverse(ctx); err != nil {
			c.m.failed(err)
		} else {
			c.m.ok()
		}
	}
	return c.m.err
}

// A backSide is the source as a target: the connection and the state of the reverse stream.
type backSide struct {
	c     *mysqlconn.Client
	state *state.Following
}

// openBack connects to the source for writing, acquires the lease there and creates the state.
func (c *Cutover) openBack(ctx context.Context) (*backSide, error) {
	specs := c.backSpecs()
	conn, err := session.Connect(ctx, c.o.Back)
	if err != nil {
		return nil, fmt.Errorf("connect to the source: %w", err)
	}
	s := state.State{Schema: c.state.Schema}
	tables := make([]*tabledef.Spec, len(specs))
	for i := range specs {
		tables[i] = &specs[i]
	}
	if s.Lease, err = state.AcquireLease(ctx, conn, s, tables, c.copy.Patience); err == nil {
		err = s.CreateFollow(ctx, conn)
	}
	if err != nil {
		state.CloseLease(conn)
		return nil, fmt.Errorf("keep at the source how far the target's changes have come back: %w", err)
	}
	return &backSide{c: conn, state: s.FollowedBack(c.copy.Target.Addr, specs)}, nil
}
