package gateway

import (
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// gated handles a gate that differs from the session's lane: there is a pause, or the other side is active.
// It returns when the current command, if any, may proceed.
func (s *session) gated() error {
	s.endHold()
	for {
		g := s.srv.gate.Load()
		switch {
		case g == s.lane:
			return nil
		case g&gatePaused == 0:
			if err := s.moveAlone(sideOf(g)); err != nil {
				return err
			}
		case s.transaction.continues(s.modes.status) || s.msg.cmd == mysqlwire.ComQuit:
			return nil // it started before the pause, which waits for it
		default:
			s.phase.Store(phasePaused)
			err := s.waitPaused(s.srv.pause.Load())
			s.phase.Store(phaseBusy)
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
	s.phase.Store(phase)
	if err != nil {
		return err
	}
	return s.clearDeadlines(causeClientGone)
}

// waitLogin blocks a new client for the duration of a pause, and returns the side for it.
func (s *session) waitLogin() (*target, error) {
	for {
		g := s.srv.gate.Load()
		if g&gatePaused == 0 {
			s.lane = g
			return s.srv.targets[sideOf(g)], nil
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
			return nil, errDrained
		}
	}
}
