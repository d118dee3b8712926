package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/panics"
)

// gateHeld is the bit of Server.gate that stops new commands; the bits above it name the side
// that is active. A session compares the gate with the lane that it is in, its own side and
// no hold, once for each command: one load and one branch, which is all that holding costs
// while there is none.
const gateHeld = 1

func laneOf(side Side) uint32 { return uint32(side) << 1 }

func sideOf(lane uint32) Side { return Side(lane >> 1) }

// A route is what a Server knows of holding and switching.
type route struct {
	mu      sync.Mutex
	routing routing
	hold    atomic.Pointer[hold] // the last one there was
	running sync.WaitGroup

	// Counted, for the metrics.
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
	to          Side
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
func (s *Server) Hold(ctx context.Context, d time.Duration) (token string, waited time.Duration, err error) {
	if s.opts.Standby == nil {
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
	h, err := s.beginHold(token, d)
	if err != nil {
		return "", 0, err
	}
	select {
	case <-h.quiet:
		return token, time.Since(h.began), nil
	case <-h.done:
	case <-ctx.Done():
		s.event(func(r *routing) []act { return r.abandon(errors.New("its holder hung up")) })
		<-h.done
	}
	if len(h.inside) > 0 && errors.Is(h.why, ErrHoldLimit) {
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

func (s *Server) beginHold(token string, d time.Duration) (*hold, error) {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	if draining {
		return nil, ErrDraining
	}
	s.route.mu.Lock()
	defer s.route.mu.Unlock()
	now := time.Now()
	acts, err := s.route.routing.hold(now, token, d)
	if err != nil {
		return nil, err
	}
	h := &hold{
		began: now, limit: now.Add(d),
		quiet: make(chan struct{}), moving: make(chan struct{}), done: make(chan struct{}),
		slots: make(chan struct{}, connectsAtOnce),
		ready: make(chan error, 1),
	}
	s.route.hold.Store(h)
	s.perform(acts)
	s.route.running.Go(func() {
		if p := panics.Of(panics.Guard(func() error { s.watchHold(h); return nil })); p != nil {
			s.abandonHold(h, p)
		}
	})
	return h, nil
}

// abandonHold lets clients continue after a panic: no goroutine is left that would end the hold in time.
func (s *Server) abandonHold(h *hold, p *panics.Error) {
	s.metrics.panics.Add(1)
	s.opts.Diag.Error("panic in a hold; clients continue where they were", "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	err := panics.Guard(func() error {
		s.event(func(r *routing) []act { return r.abandon(errHoldPanicked) })
		return nil
	})
	if err == nil {
		return
	}
	s.route.mu.Lock() // the routing itself is broken
	defer s.route.mu.Unlock()
	select {
	case <-h.done:
	default:
		s.open(h)
	}
}

var errHoldPanicked = errors.New("internal error: see the gateway's log")

// watchHold looks at the sessions until nothing is under way, and ends the hold in time.
func (s *Server) watchHold(h *hold) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	limit := time.NewTimer(time.Until(h.limit))
	defer limit.Stop()
	quiet := h.quiet
	for {
		if quiet != nil {
			s.event(func(r *routing) []act { return r.look(time.Now(), s.inside()) })
		}
		select {
		case <-quiet:
			quiet = nil
			look.Stop()
		case <-h.done:
			return
		case <-look.C:
		case <-limit.C:
			s.event(func(r *routing) []act { return r.tick(time.Now()) })
			limit.Reset(lookEvery) // a timer may be early by a little
		}
	}
}

// inside is how many sessions are within a statement or a transaction.
func (s *Server) inside() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ses := range s.sessions {
		if p := ses.phase.Load(); p == phaseBusy || p == phaseOpen {
			n++
		}
	}
	return n
}

// event gives the routing an event and does what follows from it.
func (s *Server) event(e func(*routing) []act) {
	s.route.mu.Lock()
	defer s.route.mu.Unlock()
	s.perform(e(&s.route.routing))
}

// perform is called with s.route.mu held.
func (s *Server) perform(acts []act) {
	r := &s.route
	h := r.hold.Load()
	for _, a := range acts {
		switch a {
		case actClose:
			s.gate.Store(laneOf(r.routing.active) | gateHeld)
		case actHeld:
			close(h.quiet)
		case actMove:
			h.to = r.routing.to
			close(h.moving)
		case actSave: // Switch does it, without the lock
		case actCommit:
			r.switched.Add(1)
			h.switched = true
			s.open(h)
		case actRelease:
			h.why = r.routing.why
			h.inside = s.insideList()
			r.abandoned.Add(1)
			s.open(h)
		}
	}
}

// open lets commands pass again.
func (s *Server) open(h *hold) {
	s.gate.Store(laneOf(s.route.routing.active))
	s.route.pauses.add(time.Since(h.began))
	close(h.done)
}

// Switch moves all sessions to the other side and ends the hold. Either all are moved or
// none: when a session cannot be, the hold is over, everything stays where it was, and the
// error says why. Sessions that are pinned are a reason to refuse, after which the hold goes
// on, unless closePinned asks for them to be closed.
func (s *Server) Switch(ctx context.Context, token string, to Side, closePinned bool) (moved, closed int, err error) {
	if s.opts.Standby == nil {
		return 0, 0, ErrNoStandby
	}
	r := &s.route
	r.mu.Lock()
	h := r.hold.Load()
	if err := r.routing.mayHolder(token); err != nil {
		r.mu.Unlock()
		return 0, 0, err
	}
	if pins := s.Pinned(); len(pins) > 0 && !closePinned {
		r.mu.Unlock()
		return 0, 0, &PinnedError{pins}
	}
	all := s.participants()
	moved = len(all)
	h.closePinned = closePinned
	h.mu.Lock()
	h.waiting = all
	h.mu.Unlock()
	acts, err := r.routing.change(time.Now(), token, to)
	s.perform(acts)
	r.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	s.wakeAll(h)
	select {
	case err = <-h.ready:
	case <-h.done:
		return 0, 0, fmt.Errorf("nothing was switched: %w", h.why)
	case <-ctx.Done():
		s.event(func(r *routing) []act { return r.abandon(errors.New("its holder hung up")) })
		<-h.done
		return 0, 0, fmt.Errorf("nothing was switched: %w", h.why)
	}
	if err = s.decide(h, err); err != nil {
		return 0, 0, fmt.Errorf("nothing was switched: %w", err)
	}
	closed = int(h.closing.Load())
	moved -= closed
	closed += s.closePipes()
	s.opts.Diag.Info("sessions were switched", "to", s.targets[to].Addr, "side", to.String(), "sessions", moved, "closed", closed, "pause", time.Since(h.began))
	return moved, closed, nil
}

// decide ends the switch once it is known how the sessions fared.
func (s *Server) decide(h *hold, failure error) error {
	r := &s.route
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold.Load() == h { // and not a later one, when the time was over meanwhile
		acts := r.routing.connected(time.Now(), failure)
		s.perform(acts)
		if slices.Contains(acts, actSave) {
			to, stays := r.routing.to, r.routing.active
			r.mu.Unlock() // the write waits for the disk; stageSaving refuses every other event
			err := s.saveRoute(to, stays)
			r.mu.Lock()
			s.perform(r.routing.saved(err))
		}
	}
	if h.switched {
		return nil
	}
	return h.why
}

// Release ends a hold with everything where it was.
func (s *Server) Release(token string) error {
	s.route.mu.Lock()
	defer s.route.mu.Unlock()
	acts, err := s.route.routing.release(token)
	s.perform(acts)
	return err
}

// saveRoute writes down which side is active, before anything goes there. When that fails it may have
// been done all the same, so that a restart would go to a server that nobody was switched to: the
// side that stays is written over it.
func (s *Server) saveRoute(to, active Side) error {
	if s.opts.SaveRoute == nil {
		return nil
	}
	err := s.opts.SaveRoute(s.targets[to].Addr)
	if err == nil {
		return nil
	}
	stays := s.targets[active].Addr
	if again := s.opts.SaveRoute(stays); again != nil {
		s.opts.Diag.Error("the route is not surely written down: sessions stay, and a restart may go to the other server; mend the data directory and switch again before that",
			"stays", stays, "other", s.targets[to].Addr, "error", again)
		return fmt.Errorf("write the route down: %w; nor could it be written that %s stays: mend the data directory and switch again before the gateway is restarted", err, stays)
	}
	return fmt.Errorf("write the route down: %w", err)
}

// participants are the sessions that have to connect to the other side. One that is still
// logging in finds the new route by itself, before its first command.
func (s *Server) participants() map[*session]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[*session]struct{}, len(s.sessions))
	for ses := range s.sessions {
		switch ses.phase.Load() {
		case phaseLogin, phasePipe:
		default:
			all[ses] = struct{}{}
		}
	}
	return all
}

// wakeAll has the sessions of h look at it.
func (s *Server) wakeAll(h *hold) {
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

// closePipes ends the sessions that no route can move, those that read a binary log, and answers
// how many there were.
func (s *Server) closePipes() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ses := range s.sessions {
		if ses.phase.Load() == phasePipe {
			ses.interrupt(causeDrainLimit)
			s.route.closed.Add(1)
			n++
		}
	}
	return n
}

// Active is the server that new sessions go to.
func (s *Server) Active() (side Side, addr string) {
	side = sideOf(s.gate.Load() &^ gateHeld)
	return side, s.targets[side].Addr
}
