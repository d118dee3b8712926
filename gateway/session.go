package gateway

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/taredb/tare/internal/netloop"
)

// A session is one client connection on a dedicated backend connection. One goroutine serves it: it waits for
// a command, forwards it, relays the response, and records the statement. Only that goroutine uses the
// fields, except for those of which a part says that others do.
//
// It is composed of parts, each of which changes its own fields only:
//
//	session        logs in, reads commands, moves to another server   session.go, command.go, login.go, switch_*.go
//	  executor     identifies, judges, executes, records statements   executor.go, refusal.go, statementtext.go
//	    relayer    forwards commands and relays responses             relayer.go, forward.go
//	      link     both connections, their buffers and deadlines      link.go, buffers.go
//	      query    the current command, lent by the loop              query.go
//	      modes    how texts are read and judged                      modes.go
//	    prepared, transaction, carried: the state that commands leave prepared.go, carried.go
//	    lease: the shared connection                                pooled.go, pooledlogin.go, pooledprepared.go, pooledstate.go
//	  identity, shown, turnstile, account                             login.go, connids.go, switch_wait.go, memory.go
//
// A part calls those below it. What has to be done above it, it returns: see errPauseBegun.
type session struct {
	executor
	identity
	shown     shown
	turnstile turnstile
	account   account
	served    atomic.Pointer[netloop.Task] // nil until the login is over; other goroutines read it
	newcomer  bool                         // counted in Server.newcomers; changed by the Server
	moved     bool                         // away from the server it logged in to
	next      *next                        // the connection to move to
}

func newSession(srv *Server, nc net.Conn) *session {
	s := &session{}
	s.number = srv.numbers.Add(1)
	s.open(srv, nc)
	return s
}

// logIn takes the session up to its first command, and hands it to a loop. It reports whether serve runs the
// session from then on.
func (s *session) logIn(ctx context.Context) (served bool) {
	s.account.charge(&s.srv.held, sessionBytes()+clientBuffer+backendBuffer)
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
	s.showUser()
	s.client.DropWriteBuffer() // most sessions append no packets after the login
	s.srv.loggedIn(s)
	var err error
	if s.pooled {
		number := s.srv.lenders.place(s.modes.user)
		if err = s.srv.loops.GoAmong(number, 1, s.serve, s.hungUp, onLoop(s.client)); err != nil {
			s.srv.lenders[number].placed.left(s.modes.user, number)
		}
	} else {
		s.backend.DropWriteBuffer()
		err = s.srv.loops.Go(s.serve, s.hungUp, onLoop(s.client), onLoop(s.backend))
	}
	if err != nil {
		s.srv.opts.Diag.Error("session cannot be served", "error", err)
		return false
	}
	return true
}

// showUser shows the user of a login, which a switch reports.
func (s *session) showUser() {
	if s.srv.opts.Standby != nil || s.srv.opts.Pool != nil {
		s.shown.logIn(s.modes.user)
	}
}

// serve is the session's task: it serves commands until the session ends.
func (s *session) serve(t *netloop.Task) {
	defer s.srv.removeSession(s)
	defer s.srv.recovered(s)
	defer s.close()
	if s.pooled {
		s.joinPool(t)
	}
	s.join(t)
	s.served.Store(t)
	s.wake(s.occurred()) // an interruption during the move to the loop
	if s.pooled {
		if err := s.completeLogin(); err != nil {
			t.Block(func() { s.srv.sessionEnded(s, err) })
			return
		}
	}
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

func (s *session) close() {
	if s.lease.pool != nil {
		s.quitWaiting() // after a panic
		s.discardShared()
		s.lease.pool.lender.placed.left(s.lease.pool.user, s.lease.loop)
		s.setBackend(nil)
	}
	s.releaseBuffers()
	s.discardNext()
	s.dropQuery()
	s.link.close()
	if s.entered {
		s.srv.users.release(s.modes.user)
	}
	s.account.charge(&s.srv.held, 0)
}

// turn serves one command: it is read, waits while there is a pause, is executed, and leaves its query and its buffers behind.
func (s *session) turn() error {
	if err := s.awaitCommand(); err != nil {
		return err
	}
	s.busy()
	if !s.turnstile.passes(s.srv.gate.Load()) {
		if err := s.gated(); err != nil {
			return err
		}
	}
	err := s.command()
	why := keptNot
	if s.pooled && err == nil {
		if why, err = s.settle(); s.lease.reads {
			s.noteRead(why)
		}
	}
	s.consume()
	s.dropViews()
	s.returnBuffers()
	if s.pooled && err == nil {
		err = s.keep(why)
	}
	return err
}

// isTimeout reports whether a read or write ended by its deadline.
func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
