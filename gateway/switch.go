package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/gateway/switchover"
	"github.com/taredb/tare/internal/panics"
)

// gateHeld is the bit of switcher.gate that stops new commands; the bits above it name the side
// that is active. A session compares the gate with the lane that it is in, its own side and
// no hold, once for each command: one load and one branch, which is all that holding costs
// while there is none.
const gateHeld = 1

func laneOf(side switchover.Side) uint32 { return uint32(side) << 1 }

func sideOf(lane uint32) switchover.Side { return switchover.Side(lane >> 1) }

// A switcher pauses the sessions of a server, and moves all of them to the other of two servers.
type switcher struct {
	registry *registry
	addrs    [2]string // by Side; the second is empty without a standby
	save     func(addr string) error
	diag     *slog.Logger
	panics   *atomic.Uint64

	gate atomic.Uint32

	mu      sync.Mutex
	machine switchover.Machine
	hold    atomic.Pointer[hold] // the last one
	watches sync.WaitGroup       // goroutines of holds

	// Counters of the metrics.
	moved, closed       atomic.Uint64
	switched, abandoned atomic.Uint64
	pauses              pauses
}

// A hold is one stop of all commands, from the gate's closing to its opening.
type hold struct {
	began  time.Time
	limit  time.Time
	quiet  chan struct{} // closed when nothing is under way any more
	moving chan struct{} // closed when sessions are to connect to side to
	done   chan struct{} // closed when the gate is open again
	slots  chan struct{} // bounds how many sessions connect at a time

	// Written before moving is closed.
	to          switchover.Side
	closePinned bool

	closing atomic.Int64 // sessions that are closed because they are pinned

	// Written before done is closed.
	switched bool
	why      error           // of a hold that did not end in a switch
	inside   []InsideSession // within a statement or transaction at that moment

	mu      sync.Mutex
	waiting map[*session]struct{} // have not said how they fared
	ready   chan error            // nil when all of waiting are ready; else the first failure
}

// How a hold is run.
const (
	lookEvery      = time.Millisecond // how often sessions are looked at until nothing is under way
	connectsAtOnce = 64
	tokenBytes     = 16

	// MaxHold is the longest that a hold may last.
	MaxHold = 30 * time.Second
)

// ErrNoStandby says that there is no second server to switch to.
var ErrNoStandby = errors.New("the gateway has no standby: start it with --standby and --standby-accounts")

// Hold stops new commands and waits until no session is within a statement or a transaction.
// Within d of the call everything is released again, unless a switch was done by then. The
// token is for Switch and Release. When ctx ends first, everything is released.
func (w *switcher) Hold(ctx context.Context, d time.Duration) (token string, waited time.Duration, err error) {
	if !w.enabled() {
		return "", 0, ErrNoStandby
	}
	if d <= 0 || d > MaxHold {
		return "", 0, fmt.Errorf("a hold of %v: want more than 0 and at most %v", d, MaxHold)
	}
	var random [tokenBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", 0, fmt.Errorf("make a token: %w", err)
	}
	token = hex.EncodeToString(random[:])
	h, err := w.beginHold(token, d)
	if err != nil {
		return "", 0, err
	}
	select {
	case <-h.quiet:
		return token, time.Since(h.began), nil
	case <-h.done:
	case <-ctx.Done():
		w.event(func(m *switchover.Machine) []switchover.Act { return m.Abandon(errors.New("its holder hung up")) })
		<-h.done
	}
	if len(h.inside) > 0 && errors.Is(h.why, switchover.ErrHoldLimit) {
		return "", time.Since(h.began), &InsideError{For: d, Sessions: h.inside}
	}
	return "", time.Since(h.began), fmt.Errorf("the hold was released without effect: %w", h.why)
}

// An InsideError says which sessions did not come to an end within a hold.
type InsideError struct {
	For      time.Duration
	Sessions []InsideSession
}

func (e *InsideError) Error() string {
	s := e.Sessions[0]
	return fmt.Sprintf("the hold was released without effect: after %v, %d sessions were still within a statement or transaction, "+
		"among them connection %d of user %q (%s)", e.For, len(e.Sessions), s.Connection, s.User, s.Doing)
}

// enabled reports whether there is a standby.
func (w *switcher) enabled() bool { return w.addrs[switchover.Standby] != "" }

func (w *switcher) beginHold(token string, d time.Duration) (*hold, error) {
	if w.registry.isDraining() {
		return nil, switchover.ErrDraining
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	acts, err := w.machine.Hold(now, token, d)
	if err != nil {
		return nil, err
	}
	h := &hold{
		began: now, limit: now.Add(d),
		quiet: make(chan struct{}), moving: make(chan struct{}), done: make(chan struct{}),
		slots: make(chan struct{}, connectsAtOnce),
		ready: make(chan error, 1),
	}
	w.hold.Store(h)
	w.perform(acts)
	w.watches.Go(func() {
		if p := panics.Of(panics.Guard(func() error { w.watchHold(h); return nil })); p != nil {
			w.abandonHold(h, p)
		}
	})
	return h, nil
}

// abandonHold lets clients continue after a panic: no goroutine is left that would end the hold in time.
func (w *switcher) abandonHold(h *hold, p *panics.Error) {
	w.panics.Add(1)
	w.diag.Error("panic in a hold; clients continue where they were", "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	err := panics.Guard(func() error {
		w.event(func(m *switchover.Machine) []switchover.Act { return m.Abandon(errHoldPanicked) })
		return nil
	})
	if err == nil {
		return
	}
	w.mu.Lock() // the machine itself panicked
	defer w.mu.Unlock()
	select {
	case <-h.done:
	default:
		w.open(h)
	}
}

var errHoldPanicked = errors.New("internal error: see the gateway's log")

// watchHold looks at the sessions until nothing is under way, and ends the hold in time.
func (w *switcher) watchHold(h *hold) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	limit := time.NewTimer(time.Until(h.limit))
	defer limit.Stop()
	quiet := h.quiet
	for {
		if quiet != nil {
			w.event(func(m *switchover.Machine) []switchover.Act { return m.Look(time.Now(), w.registry.inside()) })
		}
		select {
		case <-quiet:
			quiet = nil
			look.Stop()
		case <-h.done:
			return
		case <-look.C:
		case <-limit.C:
			w.event(func(m *switchover.Machine) []switchover.Act { return m.Tick(time.Now()) })
			limit.Reset(lookEvery) // a timer may be early by a little
		}
	}
}

// event passes an event to the machine and performs the acts that follow.
func (w *switcher) event(e func(*switchover.Machine) []switchover.Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.perform(e(&w.machine))
}

// perform is called with w.mu held.
func (w *switcher) perform(acts []switchover.Act) {
	h := w.hold.Load()
	for _, a := range acts {
		switch a {
		case switchover.ActClose:
			w.gate.Store(laneOf(w.machine.Active) | gateHeld)
		case switchover.ActHeld:
			close(h.quiet)
		case switchover.ActMove:
			h.to = w.machine.To
			close(h.moving)
		case switchover.ActSave: // Switch does it, without the lock
		case switchover.ActCommit:
			w.switched.Add(1)
			h.switched = true
			w.open(h)
		case switchover.ActRelease:
			h.why = w.machine.Why
			h.inside = w.registry.insideList()
			w.abandoned.Add(1)
			w.open(h)
		}
	}
}

// open lets commands pass again.
func (w *switcher) open(h *hold) {
	w.gate.Store(laneOf(w.machine.Active))
	w.pauses.add(time.Since(h.began))
	close(h.done)
}

// Switch moves all sessions to the other side and ends the hold. Either all are moved or
// none: when a session cannot be, the hold is over, everything stays where it was, and the
// error says why. Sessions that are pinned are a reason to refuse, after which the hold goes
// on, unless closePinned asks for them to be closed.
func (w *switcher) Switch(ctx context.Context, token string, to switchover.Side, closePinned bool) (moved, closed int, err error) {
	if !w.enabled() {
		return 0, 0, ErrNoStandby
	}
	w.mu.Lock()
	h := w.hold.Load()
	if err := w.machine.Authorize(token); err != nil {
		w.mu.Unlock()
		return 0, 0, err
	}
	if pins := w.registry.pinned(); len(pins) > 0 && !closePinned {
		w.mu.Unlock()
		return 0, 0, &PinnedError{pins}
	}
	all := w.registry.participants()
	moved = len(all)
	h.closePinned = closePinned
	h.mu.Lock()
	h.waiting = all
	h.mu.Unlock()
	acts, err := w.machine.Change(time.Now(), token, to)
	w.perform(acts)
	w.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	w.wakeAll(h)
	select {
	case err = <-h.ready:
	case <-h.done:
		return 0, 0, fmt.Errorf("nothing was switched: %w", h.why)
	case <-ctx.Done():
		w.event(func(m *switchover.Machine) []switchover.Act { return m.Abandon(errors.New("its holder hung up")) })
		<-h.done
		return 0, 0, fmt.Errorf("nothing was switched: %w", h.why)
	}
	if err = w.decide(h, err); err != nil {
		return 0, 0, fmt.Errorf("nothing was switched: %w", err)
	}
	closed = int(h.closing.Load())
	moved -= closed
	pipes := w.registry.closePipes()
	w.closed.Add(uint64(pipes))
	closed += pipes
	w.diag.Info("sessions were switched", "to", w.addrs[to], "side", to.String(), "sessions", moved, "closed", closed, "pause", time.Since(h.began))
	return moved, closed, nil
}

// decide ends the switch once it is known how the sessions fared.
func (w *switcher) decide(h *hold, failure error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold.Load() == h { // and not a later one, when the time was over meanwhile
		acts := w.machine.Connected(time.Now(), failure)
		w.perform(acts)
		if slices.Contains(acts, switchover.ActSave) {
			to, stays := w.machine.To, w.machine.Active
			w.mu.Unlock() // the write waits for the disk; stageSaving refuses every other event
			err := w.saveRoute(to, stays)
			w.mu.Lock()
			w.perform(w.machine.Saved(err))
		}
	}
	if h.switched {
		return nil
	}
	return h.why
}

// Release ends a hold with everything where it was.
func (w *switcher) Release(token string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	acts, err := w.machine.Release(token)
	w.perform(acts)
	return err
}

// saveRoute writes down which side is active, before anything goes there. When that fails it may have
// been done all the same, so that a restart would go to a server that nobody was switched to: the
// side that stays is written over it.
func (w *switcher) saveRoute(to, active switchover.Side) error {
	if w.save == nil {
		return nil
	}
	err := w.save(w.addrs[to])
	if err == nil {
		return nil
	}
	stays := w.addrs[active]
	if again := w.save(stays); again != nil {
		w.diag.Error("the route is not surely written down: sessions stay, and a restart may go to the other server; mend the data directory and switch again before that",
			"stays", stays, "other", w.addrs[to], "error", again)
		return fmt.Errorf("write the route down: %w; nor could it be written that %s stays: mend the data directory and switch again before the gateway is restarted", err, stays)
	}
	return fmt.Errorf("write the route down: %w", err)
}

// wakeAll has the sessions of h look at it.
func (w *switcher) wakeAll(h *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ses := range h.waiting {
		ses.interrupt(causeMove)
	}
	if len(h.waiting) == 0 {
		h.report(nil)
	}
}

// tell says that a session has its new connection, that it ended, or why it cannot move.
func (h *hold) tell(ses *session, failure error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.waiting[ses]; !ok {
		return
	}
	delete(h.waiting, ses)
	if failure != nil || len(h.waiting) == 0 {
		h.report(failure)
	}
}

// report hands the first word to Switch.
func (h *hold) report(failure error) {
	select {
	case h.ready <- failure:
	default:
	}
}

// Active returns the server that new sessions go to.
func (w *switcher) Active() (side switchover.Side, addr string) {
	side = sideOf(w.gate.Load() &^ gateHeld)
	return side, w.addrs[side]
}

// Pinned returns the sessions that cannot be switched, as far as that is known beforehand.
func (w *switcher) Pinned() []PinnedSession { return w.registry.pinned() }
