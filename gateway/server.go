package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
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
	lenders   lenders       // of shared connections; empty if there are none
	learned   *pool.Learned // their accounts besides those of the options; nil: none are learned
	buffers   *bufferPool
	readers   []readBuffers // by loop

	readerBytes atomic.Int64 // bytes of readers, in use or free
	queryBytes  atomic.Int64 // bytes of all queries, in use or free
	metrics     *metrics
	users       userLimit
	newcomers   unauthenticated

	maxByFiles int // maximum sessions
	ids        connIDs
	loginLog   logLimit

	deniedControl sync.Once
	transactions  atomic.Uint64 // the last transaction number used
	serials       atomic.Uint64 // the last number of a prepared statement on shared connections
	schemaDDL     atomic.Uint64 // CREATE, ALTER and DROP DATABASE of sessions that share connections
	numbers       atomic.Uint64 // the last session number used
	held          atomic.Int64  // heap bytes of all sessions, without borrowed buffers

	ctx    context.Context // canceled to end waits for anything besides sockets
	cancel context.CancelFunc

	listener net.Listener   // guarded by registry.mu
	running  sync.WaitGroup // sessions
	sweeping sync.WaitGroup
}

// New returns a Server; Serve starts it.
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
		metrics:   newMetrics(max(o.Loops, 0)),
		users:     userLimit{max: o.MaxUserConnections, count: make(map[string]int)},
		newcomers: unauthenticated{max: o.MaxUnauthenticated, maxPer: o.MaxUnauthenticatedPer},
		registry:  registry{sessions: make(map[*session]struct{})},
	}
	s.switcher.registry, s.addrs[switchover.Backend] = &s.registry, o.Backend.Addr
	s.ids.moving = o.Standby != nil || o.Pool != nil
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
	for i := range s.readers {
		s.readers[i].bytes = &s.readerBytes
	}
	s.boundByFiles()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if o.Pool != nil {
		if o.Pool.Learn {
			s.learned = &pool.Learned{Life: cmp.Or(o.Pool.Lifetime, defaultLearnedLife), InUse: func(user string) bool { return s.lenders[0].placed.has(user) }}
		}
		if s.lenders, err = s.startLenders(); err != nil {
			s.loops.Close()
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	return s, nil
}

// Serve accepts clients until Shutdown. It returns nil after Shutdown, and an error if the listener fails.
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
		s.opts.Diag.Error("accept of a client failed; retrying", "error", err, "after", wait)
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return nil
		}
	}
}

// isTemporary reports whether a later accept may succeed, as when descriptors run out.
func isTemporary(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Temporary() //nolint:staticcheck // still the one way to ask for EMFILE and its kin
}

// DoubtLearned has no password that was learned (PoolOptions.Learn) admit clients until the backend has accepted it again. Sessions
// are not affected.
func (s *Server) DoubtLearned() {
	if s.learned != nil {
		s.learned.DoubtAll()
	}
}

// accept starts a session, or sends the client the reason for refusing it.
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
			"Too many connections: Tare serves at most %d (option max-connections)", limit)}
	}
	if len(s.registry.sessions) >= s.maxByFiles {
		s.metrics.refusedFiles.Add(1)
		return &clientError{errno: mysqlwire.ErrnoTooManyConnections, msg: fmt.Sprintf(
			"Too many connections: Tare has file descriptors for %d", s.maxByFiles)}
	}
	if e := s.newcomers.acquire(ses.remote.Addr(), s.metrics); e != nil {
		return e
	}
	ses.newcomer = true
	s.registry.sessions[ses] = struct{}{}
	s.running.Add(1)
	go s.startSession(ses)
	return nil
}

// startSession logs a client in. A loop then serves the session.
func (s *Server) startSession(ses *session) {
	served := false
	unlessServed := func(f func()) {
		if !served {
			f()
		}
	}
	defer unlessServed(func() { s.removeSession(ses) })
	defer s.recovered(ses)
	defer unlessServed(ses.close)
	served = ses.logIn(s.ctx)
}

// removeSession removes a finished session.
func (s *Server) removeSession(ses *session) {
	defer s.running.Done()
	if ses.newcomer {
		s.newcomers.release(ses.remote.Addr())
	}
	s.ids.remove(ses.connID, &ses.shown)
	s.registry.mu.Lock()
	delete(s.registry.sessions, ses)
	s.registry.mu.Unlock()
	if h := s.pause.Load(); h != nil {
		h.reportSession(ses, nil)
	}
}

// recovered keeps a panic in one session from ending the process: it closes the session's connections, and
// logs and counts the panic.
func (s *Server) recovered(ses *session) {
	p := recover()
	if p == nil {
		return
	}
	s.metrics.panics.Add(1)
	e := panics.Recovered(p)
	if within, ok := p.(*netloop.Panic); ok { // in a function run by Task.Block
		e = panicIn(within)
	}
	s.opts.Diag.Error("panic in a session; its connections were closed",
		"client", ses.remote, "connection", ses.connID, "panic", fmt.Sprint(e.Value), "stack", string(e.Stack))
}

// panicIn returns the panic of a function run by Task.Block.
func panicIn(p *netloop.Panic) *panics.Error {
	if e, ok := p.Value.(*panics.Error); ok {
		return e
	}
	return &panics.Error{Value: p.Value, Stack: p.Stack}
}

// taskPanicked logs a panic outside of all sessions: in a loop, or at the end of a session.
func (s *Server) taskPanicked(v any, stack []byte) {
	s.metrics.panics.Add(1)
	s.opts.Diag.Error("panic in an event loop", "panic", fmt.Sprint(v), "stack", string(stack))
}

// loggedIn is called by a session after its login.
func (s *Server) loggedIn(ses *session) {
	ses.newcomer = false
	s.newcomers.release(ses.remote.Addr())
}

// publish shows the session's connection id, before the client receives the OK of its login.
func (s *Server) publish(ses *session) {
	ses.shown.connect(ses.connID, ses.to.side)
}

// Shutdown stops the server: it accepts no new clients and closes sessions that are idle and outside
// transactions. After the drain timeout, or when ctx is done, it closes the remaining sessions with an error.
// It returns when all sessions are closed, with the number closed by force.
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
	s.lenders.close()
	s.learned.Clear()
	s.loops.Close()
	return ended
}

// sweepEvery is the interval between checks for idle sessions.
const sweepEvery = time.Second

// sweep closes sessions whose client has sent nothing for the idle timeout: between commands, in an open
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

// loginFailed logs the end of a session that did not reach its first command.
func (s *Server) loginFailed(ses *session, err error) {
	s.metrics.loginFailures.Add(1)
	if errors.Is(err, errClientDisconnected) {
		s.opts.Diag.Debug("client disconnected before its login", "client", ses.remote, "error", err)
		return
	}
	s.loginLog.log(s.opts.Diag, "login failed", "client", ses.remote, "user", ses.modes.user, "error", err)
}

// sessionEnded logs the end of a session, unless its client closed it.
func (s *Server) sessionEnded(ses *session, err error) {
	switch {
	case errors.Is(err, errQuit):
		return
	case errors.Is(err, errClientDisconnected):
		s.metrics.clientsLeft.Add(1)
		s.opts.Diag.Debug("client disconnected without COM_QUIT", "client", ses.remote, "connection", ses.connID, "error", err)
		return
	case errors.Is(err, errBackendIdle):
		s.metrics.backendsGoneIdle.Add(1)
		ses.to.health.lost()
	case errors.Is(err, errBackendGone):
		s.metrics.backendsGone.Add(1)
		ses.to.health.lost()
	case errors.Is(err, errProtocol):
		s.metrics.violations.Add(1)
	}
	s.opts.Diag.Info("session ended", "client", ses.remote, "user", ses.modes.user, "connection", ses.connID, "error", err)
}

// Live returns metrics of the last 10 seconds.
func (s *Server) Live() Live {
	l := s.metrics.live(time.Since(s.started))
	l.Connections = s.Sessions()
	return l
}

// Sessions returns the number of connected clients.
func (s *Server) Sessions() int { return s.registry.count() }

// BufferBytes returns the bytes of idle relay buffers and of those lent to sessions.
func (s *Server) BufferBytes() (kept, lent int64) { return s.buffers.bytes() }

// keyPair is the RSA key that clients encrypt passwords with if only the backend connection uses TLS.
// Generating it takes a while, so it is generated at first use.
type keyPair struct {
	once sync.Once
	key  *mysqlconn.KeyPair
	err  error
}

func (k *keyPair) get() (*mysqlconn.KeyPair, error) {
	k.once.Do(func() { k.key, k.err = mysqlconn.NewKeyPair() })
	return k.key, k.err
}
