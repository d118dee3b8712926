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

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/panics"
)

// gatePaused is the bit of switcher.gate that pauses new commands; the bits above it are the active side. A
// session compares the gate with its lane (its side and no pause) once for each command: one load and one
// branch, the whole cost while there is no pause.
const gatePaused = 1

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
	pause   atomic.Pointer[pause] // the most recent one
	watches sync.WaitGroup        // goroutines that watch pauses

	// Counters of the metrics.
	moved, closed       atomic.Uint64
	switched, abandoned atomic.Uint64
	pauses              pauses
}

// A pause stops all commands from the closing of the gate to its opening.
type pause struct {
	began  time.Time
	limit  time.Time
	quiet  chan struct{} // closed when no statement or transaction is in progress
	moving chan struct{} // closed to have the sessions connect to side to
	done   chan struct{} // closed when the gate is open again
	slots  chan struct{} // bounds the concurrent connects
	checks sharedChecks

	// Written before moving is closed.
	to          switchover.Side
	closePinned bool

	closing atomic.Int64 // number of pinned sessions that are being closed

	// Written before done is closed.
	switched bool
	why      error           // reason for ending without a switch
	inside   []InsideSession // sessions within a statement or transaction when it ended

	mu      sync.Mutex
	waiting map[*session]struct{} // sessions that have not reported yet
	ready   chan error            // nil when all of waiting are ready; else the first failure
}

// Parameters of a pause.
const (
	pollInterval   = time.Millisecond // interval between checks whether work is in progress
	connectsAtOnce = 64
	tokenBytes     = 16

	// MaxPause is the longest duration of a pause.
	MaxPause = 30 * time.Second
)

// ErrNoStandby reports that there is no second server to switch to.
var ErrNoStandby = errors.New("the gateway has no standby: start it with the options standby and standby-accounts")

// Pause pauses all sessions: it stops new commands and waits until no session is within a statement or a
// transaction. The pause ends automatically d after the call, unless a switch was done by then. Switch, which
// requires a standby, and Release take the token. If ctx is done before Pause returns, the pause ends.
func (c *switcher) Pause(ctx context.Context, d time.Duration) (token string, waited time.Duration, err error) {
	if d <= 0 || d > MaxPause {
		return "", 0, fmt.Errorf("a hold of %v: want more than 0 and at most %v", d, MaxPause)
	}
	var random [tokenBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", 0, fmt.Errorf("make a token: %w", err)
	}
	token = hex.EncodeToString(random[:])
	h, err := c.beginPause(token, d)
	if err != nil {
		return "", 0, err
	}
	select {
	case <-h.quiet:
		return token, time.Since(h.began), nil
	case <-h.done:
	case <-ctx.Done():
		c.event(func(m *switchover.Machine) []switchover.Act { return m.Abandon(errors.New("its holder hung up")) })
		<-h.done
	}
	if len(h.inside) > 0 && errors.Is(h.why, switchover.ErrPauseLimit) {
		return "", time.Since(h.began), &InsideError{For: d, Sessions: h.inside}
	}
	return "", time.Since(h.began), fmt.Errorf("the hold was released without effect: %w", h.why)
}

// An InsideError lists the sessions that did not finish their work within a pause.
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
func (c *switcher) enabled() bool { return c.addrs[switchover.Standby] != "" }

func (c *switcher) beginPause(token string, d time.Duration) (*pause, error) {
	if c.registry.isDraining() {
		return nil, switchover.ErrDraining
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	acts, err := c.machine.Pause(now, token, d)
	if err != nil {
		return nil, err
	}
	h := &pause{
		began: now, limit: now.Add(d),
		quiet: make(chan struct{}), moving: make(chan struct{}), done: make(chan struct{}),
		slots: make(chan struct{}, connectsAtOnce),
		ready: make(chan error, 1),
	}
	c.pause.Store(h)
	c.perform(acts)
	c.watches.Go(func() {
		if p := panics.Of(panics.Guard(func() error { c.watchPause(h); return nil })); p != nil {
			c.abandonPause(h, p)
		}
	})
	return h, nil
}

// abandonPause ends the pause after a panic of the goroutine that would have ended it.
func (c *switcher) abandonPause(h *pause, p *panics.Error) {
	c.panics.Add(1)
	c.diag.Error("panic in a hold; clients continue where they were", "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	err := panics.Guard(func() error {
		c.event(func(m *switchover.Machine) []switchover.Act { return m.Abandon(errHoldPanicked) })
		return nil
	})
	if err == nil {
		return
	}
	c.mu.Lock() // the state machine panicked
	defer c.mu.Unlock()
	select {
	case <-h.done:
	default:
		c.open(h)
	}
}

var errHoldPanicked = errors.New("internal error: see the gateway's log")

// watchPause polls the sessions until no work is in progress, and ends the pause at its limit.
func (c *switcher) watchPause(h *pause) {
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	limit := time.NewTimer(time.Until(h.limit))
	defer limit.Stop()
	quiet := h.quiet
	for {
		if quiet != nil {
			c.event(func(m *switchover.Machine) []switchover.Act { return m.Observe(time.Now(), c.registry.inside()) })
		}
		select {
		case <-quiet:
			quiet = nil
			look.Stop()
		case <-h.done:
			return
		case <-look.C:
		case <-limit.C:
			c.event(func(m *switchover.Machine) []switchover.Act { return m.Tick(time.Now()) })
			limit.Reset(pollInterval) // a timer may fire slightly early
		}
	}
}

// event passes an event to the state machine and performs the resulting acts.
func (c *switcher) event(e func(*switchover.Machine) []switchover.Act) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.perform(e(&c.machine))
}

// perform performs the acts. The caller holds w.mu.
func (c *switcher) perform(acts []switchover.Act) {
	h := c.pause.Load()
	for _, a := range acts {
		switch a {
		case switchover.ActClose:
			c.gate.Store(laneOf(c.machine.Active) | gatePaused)
		case switchover.ActPaused:
			close(h.quiet)
		case switchover.ActMove:
			h.to = c.machine.To
			close(h.moving)
		case switchover.ActSave: // done by Switch, without the lock
		case switchover.ActCommit:
			c.switched.Add(1)
			h.switched = true
			c.open(h)
		case switchover.ActRelease:
			h.why = c.machine.Why
			h.inside = c.registry.insideList()
			c.abandoned.Add(1)
			c.open(h)
		}
	}
}

// open ends the pause: commands pass again.
func (c *switcher) open(h *pause) {
	c.gate.Store(laneOf(c.machine.Active))
	c.pauses.add(time.Since(h.began))
	close(h.done)
}

// Switch moves all sessions to the other side and ends the pause. Either all sessions move or none: if a
// session cannot be moved, the pause ends, every session keeps its server, and the error has the reason.
// Pinned sessions are refused with an error and the pause continues, unless closePinned requests that they be
// closed.
func (c *switcher) Switch(ctx context.Context, token string, to switchover.Side, closePinned bool) (moved, closed int, err error) {
	if !c.enabled() {
		return 0, 0, ErrNoStandby
	}
	c.mu.Lock()
	h := c.pause.Load()
	if err := c.machine.Authorize(token); err != nil {
		c.mu.Unlock()
		return 0, 0, err
	}
	if pins := c.registry.pinned(); len(pins) > 0 && !closePinned {
		c.mu.Unlock()
		return 0, 0, &PinnedError{pins}
	}
	all := c.registry.participants()
	moved = len(all)
	h.closePinned = closePinned
	h.mu.Lock()
	h.waiting = all
	h.mu.Unlock()
	acts, err := c.machine.Switch(time.Now(), token, to)
	c.perform(acts)
	c.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	c.wakeAll(h)
	select {
	case err = <-h.ready:
	case <-h.done:
		return 0, 0, fmt.Errorf("nothing was switched: %w", h.why)
	case <-ctx.Done():
		c.event(func(m *switchover.Machine) []switchover.Act { return m.Abandon(errors.New("its holder hung up")) })
		<-h.done
		return 0, 0, fmt.Errorf("nothing was switched: %w", h.why)
	}
	if err = c.decide(h, err); err != nil {
		return 0, 0, fmt.Errorf("nothing was switched: %w", err)
	}
	closed = int(h.closing.Load())
	moved -= closed
	pipes := c.registry.closePipes()
	c.closed.Add(uint64(pipes))
	closed += pipes
	c.diag.Info("sessions were switched", "to", c.addrs[to], "side", to.String(), "sessions", moved, "closed", closed, "pause", time.Since(h.began))
	return moved, closed, nil
}

// decide completes the switch after all sessions have reported or one has failed.
func (c *switcher) decide(h *pause, failure error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pause.Load() == h { // and not a later pause, after this one reached its limit
		acts := c.machine.Connected(time.Now(), failure)
		c.perform(acts)
		if slices.Contains(acts, switchover.ActSave) {
			to, stays := c.machine.To, c.machine.Active
			c.mu.Unlock() // the write waits for the disk; stageSaving refuses every other event
			err := c.persistRoute(to, stays)
			c.mu.Lock()
			c.perform(c.machine.Saved(err))
		}
	}
	if h.switched {
		return nil
	}
	return h.why
}

// Release ends a pause without a switch.
func (c *switcher) Release(token string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	acts, err := c.machine.Release(token)
	c.perform(acts)
	return err
}

// persistRoute persists the active side before a session moves there. A failed write may still have taken
// effect, and a restart would use a server that the sessions were not switched to; so on failure the current
// side is written over it.
func (c *switcher) persistRoute(to, active switchover.Side) error {
	if c.save == nil {
		return nil
	}
	err := c.save(c.addrs[to])
	if err == nil {
		return nil
	}
	stays := c.addrs[active]
	if again := c.save(stays); again != nil {
		c.diag.Error("the route is not surely written down: sessions stay, and a restart may go to the other server; mend the data directory and switch again before that",
			"stays", stays, "other", c.addrs[to], "error", again)
		return fmt.Errorf("write the route down: %w; nor could it be written that %s stays: mend the data directory and switch again before the gateway is restarted", err, stays)
	}
	return fmt.Errorf("write the route down: %w", err)
}

// wakeAll wakes the waiting sessions to check h.
func (c *switcher) wakeAll(h *pause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ses := range h.waiting {
		ses.interrupt(causeMove)
	}
	if len(h.waiting) == 0 {
		h.reportFirst(nil)
	}
}

// reportSession records that a session has its new connection, that it ended, or the reason why it cannot move.
func (h *pause) reportSession(ses *session, failure error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.waiting[ses]; !ok {
		return
	}
	delete(h.waiting, ses)
	if failure != nil || len(h.waiting) == 0 {
		h.reportFirst(failure)
	}
}

// reportFirst passes the first report to Switch.
func (h *pause) reportFirst(failure error) {
	select {
	case h.ready <- failure:
	default:
	}
}

// Active returns the server for new sessions.
func (c *switcher) Active() (side switchover.Side, addr string) {
	side = sideOf(c.gate.Load() &^ gatePaused)
	return side, c.addrs[side]
}

// Pinned returns the sessions that are known to be pinned.
func (c *switcher) Pinned() []PinnedSession { return c.registry.pinned() }
