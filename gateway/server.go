package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/gateway/switchover"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/netloop"
)

// A Server accepts clients and serves a session for each.
type Server struct {
	switcher // of the sessions in registry
	registry registry

	opts      Options
	started   time.Time
	clientTLS atomic.Pointer[tls.Config]
	targets   [2]*target // by side; the second is nil without a standby
	keys      keyPair
	loops     *netloop.Group
	buffers   *bufferPool
	readers   []readBuffers // by loop

	readerBytes atomic.Int64 // of readers, in use or free
	metrics     *metrics
	live        *live
	users       userLimit
	newcomers   unauthenticated
	maxByFiles  int // sessions
	early       earlyAddresses
	ids         connIDs
	loginLog    logLimit

	deniedControl sync.Once
	transactions  atomic.Uint64 // the last number given to one
	held          atomic.Int64  // heap bytes of all sessions, without borrowed buffers

	ctx    context.Context // ends what sessions wait for besides their sockets
	cancel context.CancelFunc

	listener net.Listener   // guarded by registry.mu
	running  sync.WaitGroup // sessions
	sweeping sync.WaitGroup
}

// New makes a Server; Serve sets it to work.
func New(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if o.Certificate == nil {
		cert, err := mysqlconn.SelfSignedCertificate()
		if err != nil {
			return nil, fmt.Errorf("gateway: make a certificate: %w", err)
		}
		o.Certificate = &cert
	}
	s := &Server{
		opts:      o,
		started:   time.Now(),
		buffers:   newBufferPool(o.BufferBytes),
		metrics:   newMetrics(),
		users:     userLimit{max: o.MaxUserConnections, count: make(map[string]int)},
		newcomers: unauthenticated{max: o.MaxUnauthenticated, maxPer: o.MaxUnauthenticatedPer},
		registry:  registry{sessions: make(map[*session]struct{})},
	}
	s.switcher.registry, s.addrs[switchover.Backend] = &s.registry, o.Backend.Addr
	s.save, s.diag, s.switcher.panics = o.SaveRoute, o.Diag, &s.metrics.panics
	s.clientTLS.Store(o.ClientTLS.config(o.Certificate, o.ClientCAs))
	s.targets[switchover.Backend] = newTarget(o.Backend, switchover.Backend)
	if o.Standby != nil {
		s.targets[switchover.Standby] = newTarget(*o.Standby, switchover.Standby)
		s.addrs[switchover.Standby] = o.Standby.Addr
		s.machine.Active = o.Route
		s.gate.Store(laneOf(o.Route))
	}
	var err error
	if s.loops, err = netloop.New(netloop.Options{Loops: max(o.Loops, 0), Panic: s.taskPanicked}); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	s.readers = make([]readBuffers, s.loops.Loops())
	s.boundByFiles()
	s.live = newLive(s.started)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Serve accepts clients until Shutdown; it returns nil then,
// and an error when the listener fails.
func (s *Server) Serve(l net.Listener) error {
	s.registry.mu.Lock()
	if s.registry.draining {
		s.registry.mu.Unlock()
		return l.Close()
	}
	s.listener = l
	if s.opts.IdleTimeout > 0 {
		s.sweeping.Go(s.sweep)
	}
	s.registry.mu.Unlock()
	for wait := time.Duration(0); ; {
		nc, err := l.Accept()
		if err == nil {
			wait = 0
			s.accept(nc)
			continue
		}
		if s.ctx.Err() != nil || s.registry.isDraining() {
			return nil
		}
		if !isTemporary(err) {
			return fmt.Errorf("accept clients on %s: %w", l.Addr(), err)
		}
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		s.opts.Diag.Error("a client cannot be accepted; trying again", "error", err, "after", wait)
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return nil
		}
	}
}

// isTemporary reports whether accepting may succeed later, as when descriptors run out.
func isTemporary(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Temporary() //nolint:staticcheck // still the one way to ask for EMFILE and its kin
}

// accept starts a session, or tells the client why there is none.
func (s *Server) accept(nc net.Conn) {
	s.metrics.accepted.Add(1)
	ses := newSession(s, nc)
	e := s.enroll(ses)
	if e == nil {
		return
	}
	_ = ses.client.SetDeadline(time.Now().Add(100 * time.Millisecond))
	_ = ses.sendError(0, e, false)
	nc.Close()
}

func (s *Server) enroll(ses *session) *clientError {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	if s.registry.draining {
		s.metrics.refusedShutdown.Add(1)
		return &clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress: Tare takes no new connections"}
	}
	if limit := s.opts.MaxConnections; limit > 0 && len(s.registry.sessions) >= limit {
		s.metrics.refusedLimit.Add(1)
		return &clientError{errno: mysqlwire.ErrnoTooManyConnections, msg: fmt.Sprintf(
			"Too many connections: Tare serves at most %d (--max-connections)", limit)}
	}
	if len(s.registry.sessions) >= s.maxByFiles {
		s.metrics.refusedFiles.Add(1)
		return &clientError{errno: mysqlwire.ErrnoTooManyConnections, msg: fmt.Sprintf(
			"Too many connections: Tare has file descriptors for %d", s.maxByFiles)}
	}
	if e := s.newcomers.enter(ses.remote.Addr(), s.metrics); e != nil {
		return e
	}
	ses.newcomer = true
	s.registry.sessions[ses] = struct{}{}
	s.running.Add(1)
	go s.begin(ses)
	return nil
}

// begin logs a client in. Its session is then served by a loop.
func (s *Server) begin(ses *session) {
	served := false
	unlessServed := func(f func()) {
		if !served {
			f()
		}
	}
	defer unlessServed(func() { s.dismiss(ses) })
	defer s.recovered(ses)
	defer unlessServed(ses.close)
	served = ses.logIn(s.ctx)
}

// dismiss removes a finished session.
func (s *Server) dismiss(ses *session) {
	defer s.running.Done()
	if ses.newcomer {
		s.newcomers.leave(ses.remote.Addr())
	}
	if ses.greetedID != 0 {
		s.ids.remove(ses.greetedID)
	}
	s.registry.mu.Lock()
	delete(s.registry.sessions, ses)
	s.registry.mu.Unlock()
	if h := s.hold.Load(); h != nil {
		h.tell(ses, nil)
	}
}

// recovered keeps a panic in one session from ending the process: the session's connections
// are closed, and the panic is logged and counted.
func (s *Server) recovered(ses *session) {
	p := recover()
	if p == nil {
		return
	}
	s.metrics.panics.Add(1)
	e := panics.Recovered(p)
	if within, ok := p.(*netloop.Panic); ok { // in a function that the session waited for
		e = panicIn(within)
	}
	s.opts.Diag.Error("panic in a session; its connections were closed",
		"client", ses.remote, "connection", ses.connID, "panic", fmt.Sprint(e.Value), "stack", string(e.Stack))
}

// panicIn is the panic of a function that a task waited for.
func panicIn(p *netloop.Panic) *panics.Error {
	if e, ok := p.Value.(*panics.Error); ok {
		return e
	}
	return &panics.Error{Value: p.Value, Stack: p.Stack}
}

// taskPanicked logs a panic outside of all sessions: of a loop, or of the end of a session.
func (s *Server) taskPanicked(v any, stack []byte) {
	s.metrics.panics.Add(1)
	s.opts.Diag.Error("panic in an event loop", "panic", fmt.Sprint(v), "stack", string(stack))
}

// loggedIn is called by a session that is logged in.
func (s *Server) loggedIn(ses *session) {
	ses.newcomer = false
	s.newcomers.leave(ses.remote.Addr())
}

// publish makes the session known by the number that its client was greeted with. It comes
// before the client knows that it is logged in.
func (s *Server) publish(ses *session) {
	ses.shown.connection.Store(ses.connID)
	ses.side.Store(uint32(ses.to.side))
	if ses.greetedID != 0 {
		s.ids.add(ses.greetedID, ses)
	}
}

// Shutdown ends the service: no new clients; sessions end when they are idle and in no
// transaction; after the drain timeout, or when ctx ends, what still runs is ended with an
// error. It returns when all sessions are over, with how many had to be ended so.
func (s *Server) Shutdown(ctx context.Context) (ended int) {
	s.registry.mu.Lock()
	already := s.registry.draining
	s.registry.draining = true
	l := s.listener
	s.registry.interruptAll(causeDrain)
	s.registry.mu.Unlock()
	if already {
		return 0
	}
	s.event(func(m *switchover.Machine) []switchover.Act { return m.Abandon(switchover.ErrDraining) })
	if l != nil {
		l.Close()
	}
	idle := make(chan struct{})
	go func() {
		s.running.Wait()
		close(idle)
	}()
	limit := time.NewTimer(s.opts.DrainTimeout)
	defer limit.Stop()
	select {
	case <-idle:
	case <-ctx.Done():
	case <-limit.C:
	}
	s.registry.mu.Lock()
	ended = len(s.registry.sessions)
	s.registry.interruptAll(causeDrainLimit)
	s.registry.mu.Unlock()
	s.cancel()
	<-idle
	s.sweeping.Wait()
	s.watches.Wait()
	for _, t := range s.targets {
		if t != nil {
			t.spares.close()
		}
	}
	s.loops.Close()
	return ended
}

// sweepEvery is how often idle sessions are looked for.
const sweepEvery = time.Second

// sweep ends sessions whose client has sent nothing for too long: between commands, in an open
// transaction too, and within a command.
func (s *Server) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		overdue := int64(time.Since(s.started) - s.opts.IdleTimeout)
		s.registry.mu.Lock()
		for ses := range s.registry.sessions {
			phase := ses.phase.Load()
			if waits := phase == phaseIdle || phase == phaseOpen || ses.reading.Load(); waits && ses.idleSince.Load() < overdue {
				ses.interrupt(causeIdle)
			}
		}
		s.registry.mu.Unlock()
	}
}

// loginFailed logs the end of a session that did not come to its first command.
func (s *Server) loginFailed(ses *session, err error) {
	s.metrics.loginFailures.Add(1)
	if errors.Is(err, errClientLeft) {
		s.opts.Diag.Debug("client left before its login", "client", ses.remote, "error", err)
		return
	}
	s.loginLog.log(s.opts.Diag, "login failed", "client", ses.remote, "user", string(ses.user), "error", err)
}

// sessionEnded logs the end of a session, unless its client wanted it.
func (s *Server) sessionEnded(ses *session, err error) {
	switch {
	case errors.Is(err, errQuit):
		return
	case errors.Is(err, errClientLeft):
		s.metrics.clientsLeft.Add(1)
		s.opts.Diag.Debug("client left without saying so", "client", ses.remote, "connection", ses.connID, "error", err)
		return
	case errors.Is(err, errBackendIdle):
		s.metrics.backendsGoneIdle.Add(1)
	case errors.Is(err, errBackendGone):
		s.metrics.backendsGone.Add(1)
	case errors.Is(err, errProtocol):
		s.metrics.violations.Add(1)
	}
	s.opts.Diag.Info("session ended", "client", ses.remote, "user", string(ses.user), "connection", ses.connID, "error", err)
}

// Live is what the last 10 seconds were like.
func (s *Server) Live() Live {
	l := s.live.read(time.Now())
	l.Connections = s.Sessions()
	return l
}

// Sessions returns the number of connected clients.
func (s *Server) Sessions() int { return s.registry.count() }

// BufferBytes reports the bytes of relay buffers that are kept for use and that sessions
// hold at the moment.
func (s *Server) BufferBytes() (kept, lent int64) { return s.buffers.bytes() }

// keyPair is the RSA key that passwords are received with where only the backend's leg has
// TLS; making it takes a while, so that happens when it is first needed.
type keyPair struct {
	once sync.Once
	key  *mysqlconn.KeyPair
	err  error
}

func (k *keyPair) get() (*mysqlconn.KeyPair, error) {
	k.once.Do(func() { k.key, k.err = mysqlconn.NewKeyPair() })
	return k.key, k.err
}
