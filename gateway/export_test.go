package gateway

import (
	"net"
	"time"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Hooks of the external tests.

// A SessionState is the state of a session that waits for a command.
type SessionState struct {
	Greeted    uint32 // number in the greeting to the client
	Connection uint32 // the server's number
	LoggedIn   bool
	Waiting    bool // for a command
	Open       bool // Waiting in a transaction or the like
	Paused     bool // for the end of a pause
}

// SessionStates returns the states of all sessions.
func (s *Server) SessionStates() (all []SessionState) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for ses := range s.registry.sessions {
		phase := ses.phase.Load()
		all = append(all, SessionState{
			Greeted: ses.shown.greeted.Load(), Connection: ses.shown.connection.Load(), LoggedIn: phase != phaseLogin,
			Waiting: phase == phaseIdle || phase == phaseOpen, Open: phase == phaseOpen, Paused: phase == phasePaused,
		})
	}
	return all
}

// Modes returns the default schema and the mode of a waiting session.
func (s *Server) Modes(greeted uint32) (schema string, mode sqldigest.Mode) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for ses := range s.registry.sessions {
		if ses.shown.greeted.Load() == greeted {
			return ses.modes.schema, ses.modes.mode
		}
	}
	return "", 0
}

// Accept serves a client's connection.
func (s *Server) Accept(nc net.Conn) { s.accept(nc) }

// Loops returns the event loops.
func (s *Server) Loops() *netloop.Group { return s.loops }

// Paused reports whether commands wait for the end of a pause.
func (s *Server) Paused() bool { return s.gate.Load()&gatePaused != 0 }

// ExpirePause lets the limit of a pause pass.
func (s *Server) ExpirePause() {
	s.event(func(m *switchover.Machine) []switchover.Act { return m.Tick(time.Now().Add(MaxPause)) })
}

// BreakRegistry makes a reading of the sessions panic until repair is called.
func (s *Server) BreakRegistry() (repair func()) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.registry.sessions[nil] = struct{}{}
	return func() {
		s.registry.mu.Lock()
		defer s.registry.mu.Unlock()
		delete(s.registry.sessions, nil)
	}
}

// ForgetServers closes the spare connections to the backend and forgets which accounts it blocks.
func (s *Server) ForgetServers() {
	target := s.targets[switchover.Backend]
	target.spares.flush()
	target.blocked.mu.Lock()
	defer target.blocked.mu.Unlock()
	clear(target.blocked.until)
}

// HeldBytes returns the bytes accounted for sessions, and those of queries and read buffers that loops share.
func (s *Server) HeldBytes() (sessions, loops int64) {
	return s.held.Load(), s.readerBytes.Load() + s.queryBytes.Load()
}

// NewSessionBytes returns the bytes accounted for a new session.
func NewSessionBytes() int64 { return sessionBytes() + clientBuffer + backendBuffer }

// EmptyResponse and FinishLogin end a login without its password as the gateway does.
var (
	EmptyResponse = emptyResponse
	FinishLogin   = finishLogin
)

// WaitBehind has statements wait behind others that have taken up to d. No session shares connections yet.
func (s *Server) WaitBehind(d time.Duration) {
	for _, l := range s.lenders {
		l.slowAfter = d
	}
}
