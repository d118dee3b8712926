package gateway

import (
	"fmt"
	"time"

	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A turnstile is the server's gate as one session sees it.
type turnstile struct {
	lane uint32    // the gate's value while the session's commands may pass
	hold *killHold // of the last KILL QUERY; nil: there was none
}

// passes reports whether the session's commands may pass a gate.
func (t *turnstile) passes(gate uint32) bool { return gate == t.lane }

// enter makes the session one of a lane.
func (t *turnstile) enter(lane uint32) { t.lane = lane }

// laneHeld is the lane of a session whose next command has to wait for a KILL QUERY of its current one.
const laneHeld = ^uint32(0)

// A killHold keeps a session's next command from being killed in place of the current one.
type killHold struct {
	lane uint32        // to return to
	done chan struct{} // closed after the KILL QUERY
}

func (h *killHold) over() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// isHeld reports whether a KILL QUERY is under way.
func (t *turnstile) isHeld() bool { return t.hold != nil && !t.hold.over() }

// holdNext has the next command wait for a KILL QUERY of the current one.
func (t *turnstile) holdNext() *killHold {
	h := &killHold{lane: t.lane, done: make(chan struct{})}
	if t.hold != nil {
		h.lane = t.hold.lane
	}
	t.hold, t.lane = h, laneHeld
	return h
}

// endHold waits until the KILL QUERY of the previous command is over.
func (t *turnstile) endHold(task *netloop.Task) {
	h := t.hold
	if h == nil {
		return
	}
	task.Block(func() { <-h.done })
	t.hold = nil
	if t.lane == laneHeld {
		t.lane = h.lane
	}
}

// gated handles a gate that differs from the session's lane: there is a pause, or the other side is active.
// It returns when the current command, if any, may proceed.
func (s *session) gated() error {
	s.turnstile.endHold(s.task)
	for {
		g := s.srv.gate.Load()
		switch {
		case s.turnstile.passes(g):
			return nil
		case g&gatePaused == 0:
			if err := s.moveAlone(sideOf(g)); err != nil {
				return err
			}
		case s.transaction.continues(s.modes.status) || s.msg.cmd == mysqlwire.ComQuit:
			return nil // it started before the pause, which waits for it
		default:
			s.enter(phasePaused)
			err := s.waitPaused(s.srv.pause.Load())
			s.enter(phaseBusy)
			if err != nil {
				return err
			}
		}
	}
}

// waitPaused blocks until the gate is open; meanwhile it opens the session's connection to the other side on
// request, and handles hang-ups.
func (s *session) waitPaused(h *pause) error {
	poke := s.pokes()
	defer s.noPokes()
	moving := h.moving
	for {
		if err := s.interruptedPaused(); err != nil {
			s.discardNext()
			return err
		}
		over, move := false, false
		s.task.Block(func() {
			select {
			case <-h.done:
				over = true
			case <-moving:
				move = true
			case <-poke:
			}
		})
		switch {
		case over && h.switched:
			return s.switchConn(h.to)
		case over:
			s.discardNext()
			return nil
		case move:
			moving = nil
			s.acknowledge(causeMove)
			failure := s.connectNext(h)
			if err := s.interruptedPaused(); err != nil {
				s.discardNext()
				return err // a disconnected client does not keep others from moving
			}
			h.reportSession(s, failure)
		}
	}
}

// interruptedPaused ends a paused session whose client or backend hung up, or that has to end.
func (s *session) interruptedPaused() error {
	switch causes := s.occurred(); {
	case causes&causeClientGone != 0:
		return fmt.Errorf("%w: during a pause", errClientDisconnected)
	case causes&causeKilled != 0:
		return s.endPaused(s.killedError(), errKilled)
	case causes&causeDrainLimit != 0:
		return s.endPaused(&clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress: the session was paused"}, errDrained)
	case causes&causeBackendGone != 0 && s.continuesWithout():
		s.discardShared()
	case causes&causeBackendGone != 0 && s.next == nil:
		return fmt.Errorf("%w: during a pause", errBackendIdle) // without a packet: see backendGone
	}
	return nil
}

// endPaused sends the client the reason why its session ends: as the response to the paused command, or between
// commands.
func (s *session) endPaused(e *clientError, end error) error {
	seq := uint8(0)
	if s.msg.size > 0 {
		seq = s.msg.seq + 1
	}
	_ = s.sendError(seq, e, true)
	if s.msg.size > 0 && !s.msg.whole {
		s.drainClient()
	}
	return fmt.Errorf("%w: %w", end, e)
}

// joinPause handles the wake-up of a session that waits for its client, to move with the others.
func (s *session) joinPause() error {
	s.acknowledge(causeMove)
	phase := s.phase.Load()
	err := s.gated()
	s.enter(phase)
	if err != nil {
		return err
	}
	if err := s.clearDeadlines(causeClientGone); err != nil || s.lease.kept != keptByDiagnostics {
		return err
	}
	err = s.client.SetReadDeadline(time.Now().Add(diagnosticsFor))
	s.wake(s.occurred() &^ causeClientGone)
	return err
}

// waitLogin blocks a new client for the duration of a pause, and chooses the server for it.
func (s *session) waitLogin() error {
	for {
		g := s.srv.gate.Load()
		if g&gatePaused == 0 {
			s.turnstile.enter(g)
			s.aim(s.srv.targets[sideOf(g)])
			return nil
		}
		poke := s.pokes()
		if s.occurred()&(causeDrain|causeDrainLimit) == 0 {
			select {
			case <-s.srv.pause.Load().done:
			case <-poke:
			}
		}
		s.noPokes()
		if s.occurred()&(causeDrain|causeDrainLimit) != 0 {
			return errDrained
		}
	}
}
