package gateway

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A session is one client connection on a dedicated backend connection. One goroutine serves it: it waits for
// a command, forwards it, relays the response, and records the statement. Only that goroutine uses the
// fields, except those of control.
type session struct {
	executor
	control // fields that other goroutines use

	lane     uint32 // the gate's value while this session's commands may pass
	identity        // cold: written at logins
	moving          // cold: fields for moving to another server

	hold *killHold // of the last KILL QUERY; nil: there was none

	held    int64 // bytes of this session in Server.held
	weighed int   // buffersOf at the last update of held
}

// An identity is the result of a login.
type identity struct {
	number uint64 // in this process, from 1

	offered mysqlwire.Capability // to the client

	charset   uint8  // collation of the client's login
	maxPacket uint32 // bytes; announced by the client
	salt      []byte // the challenge of the last login
	entered   bool   // counted in Server.users
	newcomer  bool   // counted in Server.newcomers
	pre41     bool   // the client speaks the protocol from before MySQL 4.1
}

// A control is the part of a session that its loop, the sweeper, switches and Shutdown use too.
type control struct {
	shown  shown
	served atomic.Pointer[netloop.Task] // nil until the login is over
}

// shown is a session as the API presents it.
type shown struct {
	connection atomic.Uint32 // the backend's id; 0 before the login
	greeted    atomic.Uint32 // the id in the client's greeting: connection, unless the session has moved
	side       atomic.Uint32 // of the session's server
	user       atomic.Pointer[string]
}

// show updates shown; the user only if sessions can be switched.
func (s *session) show() {
	s.shown.connection.Store(s.connID)
	if s.srv.opts.Standby == nil {
		return
	}
	user := s.modes.user
	s.shown.user.Store(&user)
}

func newSession(srv *Server, nc net.Conn) *session {
	s := &session{}
	s.relayer.srv, s.query, s.counters = srv, newQuery(srv), srv.metrics.stripe()
	s.modes.planner = srv.opts.Planner
	s.number = srv.numbers.Add(1)
	s.link.open(nc, srv.buffers)
	return s
}

// logIn takes the session up to its first command, and hands it to a loop. It reports whether serve runs the
// session from then on.
func (s *session) logIn(ctx context.Context) (served bool) {
	s.chargeHeap(sessionBytes() + clientBuffer + backendBuffer)
	l := login{session: s}
	if err := l.run(ctx); err != nil {
		s.srv.loginFailed(s, err)
		return false
	}
	s.counters.logins.Add(1)
	if s.pre41 {
		s.quitPre41()
		return false
	}
	s.show()
	s.client.DropWriteBuffer() // most sessions append no packets after the login
	s.backend.DropWriteBuffer()
	s.srv.loggedIn(s)
	if err := s.srv.loops.Go(s.serve, s.hungUp, onLoop(s.client), onLoop(s.backend)); err != nil {
		s.srv.opts.Diag.Error("session cannot be served", "error", err)
		return false
	}
	return true
}

// serve is the session's task: it serves commands until the session ends.
func (s *session) serve(t *netloop.Task) {
	defer s.srv.removeSession(s)
	defer s.srv.recovered(s)
	defer s.close()
	s.joinLoop(t)
	s.served.Store(t)
	s.wake(s.occurred()) // an interruption during the move to the loop
	for {
		err := s.turn()
		if err == nil {
			continue
		}
		if !errors.Is(err, errQuit) {
			t.Block(func() { s.srv.sessionEnded(s, err) }) // it logs
		}
		return
	}
}

// joinLoop makes the session use the memory of its loop: see link.join.
func (s *session) joinLoop(t *netloop.Task) {
	s.join(t, s.srv.readers)
	if loop, ok := t.Loop(); ok {
		s.counters = &s.srv.metrics.stripes[loop]
		s.writer = uint64(loop) + 1
	}
}

func (s *session) close() {
	s.releaseBuffers()
	s.discardNext()
	s.dropQuery()
	s.link.close()
	if s.entered {
		s.srv.users.release(s.modes.user)
	}
	s.chargeHeap(0)
}

// turn serves one command.
func (s *session) turn() error {
	if err := s.awaitCommand(); err != nil {
		return err
	}
	s.commands.Add(1)
	s.phase.Store(phaseBusy)
	if s.srv.gate.Load() != s.lane {
		if err := s.gated(); err != nil {
			return err
		}
	}
	err := s.command()
	s.consume()
	s.dropViews()
	s.returnBuffers()
	return err
}

// idle marks the session as waiting for a command. It is the last step of a command.
func (s *session) idle() {
	s.weigh()
	s.query.weigh(s.srv)
	if s.srv.opts.IdleTimeout > 0 {
		s.idleSince.Store(int64(time.Since(s.srv.started)))
	}
	if s.transaction.continues(s.modes.status) {
		s.phase.Store(phaseOpen)
		return
	}
	s.phase.Store(phaseIdle)
}

// isTimeout reports whether a read or write ended by its deadline.
func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
