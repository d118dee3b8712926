package gateway

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
)

const (
	clientBuffer  = 2 << 10 // bytes; holds most statements
	backendBuffer = 4 << 10 // bytes; holds most responses
)

// A session is one client connection on one backend connection of its own. One goroutine
// serves it: it waits for a command, passes it on, passes the response back, and records
// what it saw. The fields are that goroutine's, but for those marked as shared.
type session struct {
	srv    *Server
	remote netip.AddrPort
	local  bool // the client came by a Unix socket

	client       *mysqlconn.Conn
	backend      *mysqlconn.Conn
	clientWatch  watch // for hang-ups
	backendWatch watch
	to           *target // the server that backend is connected to
	maria        bool    // it is MariaDB, whose status reports ANSI_QUOTES
	lane         uint32  // what Server.gate shows while commands of this session may pass

	// Agreed on at login.
	offered mysqlwire.Capability // to the client
	caps    mysqlwire.Capability // with the client, and so with the backend
	connID  uint32               // the backend's own: what its KILL takes

	greetedID uint32 // what the client takes for its connection's number; 0: connID

	charset   uint8  // collation that the client logged in with
	maxPacket uint32 // bytes; what the client announced
	salt      []byte // the challenge of the last login
	user      []byte
	entered   bool // counted in Server.users
	newcomer  bool // counted in Server.newcomers

	userName, schemaName string // user and schema, for records

	// What statements do to the session.
	schema      []byte
	status      mysqlwire.Status // of the last OK or EOF
	mode        sqldigest.Mode
	scope       sqlplan.Scope
	unsure      bool // the modes that the text is read by are not known: ask before the next
	statements  prepared
	transaction uint64 // the open transaction's number; 0 outside one
	rules       uint64 // the epoch of the rules that scope was computed under

	// What has to be known to go to another server.
	sets     settings // SET statements
	longOpen bool     // a value was sent in pieces, and not executed with yet
	nextOnly bool     // SET TRANSACTION was said of the next transaction alone
	wasReset bool     // by COM_RESET_CONNECTION
	multi    uint16   // the last COM_SET_OPTION's option, plus 1; 0 when there was none
	moved    bool     // from where it logged in to
	next     *next    // the connection to go over to
	remoteID uint32   // the server's number of the statement that is being prepared

	// The command at hand.
	msg      message
	resp     mysqlwire.Response
	digester sqldigest.Digester
	rec      querylog.Record
	borrowed bool // a buffer of the client side comes from the pool
	relaying bool // a buffer of the backend side comes from the pool
	ownRead  [2][]byte
	long     [2]bool // a buffer was borrowed once: more was read at a time than fits an own one

	plan       *sqlplan.Plan
	sent       time.Time    // the statement was passed on
	firstByte  time.Time    // of the response
	lastByte   time.Time    // the response's last read
	failed     *clientError // what the gateway itself answered
	sqlState   string
	divergent  bool // the text may be read in two ways: sqldigest.Digester.Divergent
	unreadable bool // the statement was read in a mode that is unknown: it is logged without text
	tagText    []byte
	tagEnds    []int
	tagList    []querylog.Tag
	values     []mysqlwire.BinaryValue
	names      [][]byte

	counters *stripe
	errBuf   []byte

	held    int64 // bytes that Server.held has for this session
	weighed int   // what buffersOf was when they were counted

	// Shared: written by the watcher, the sweeper and Shutdown.
	causes    atomic.Uint32
	peer      atomic.Pointer[mysqlconn.Conn] // backend, once there is one
	phase     atomic.Uint32
	side      atomic.Uint32       // of to
	pin       atomic.Pointer[pin] // why it cannot go to another server; written by the session
	shown     shown
	poke      atomic.Pointer[chan struct{}] // wakes a session that is held
	reading   atomic.Bool                   // waits for the rest of a command
	idleSince atomic.Int64                  // when the session began to wait for a command, in nanoseconds since the server's start
}

// shown is what others may know of a session.
type shown struct {
	connection atomic.Uint32
	user       atomic.Pointer[string]
}

// show writes down who the session is, where there is somebody to look.
func (s *session) show() {
	s.shown.connection.Store(s.connID)
	if s.srv.opts.Standby == nil {
		return
	}
	user := string(s.user)
	s.shown.user.Store(&user)
}

// The phases of a session.
const (
	phaseLogin uint32 = iota
	phaseIdle
	phaseBusy
	phaseOpen // waits for a command that belongs to what has begun: see isOpen
	phaseHeld // waits for the gate to open
	phasePipe // passes a stream on, without looking
)

func newSession(srv *Server, nc net.Conn) *session {
	s := &session{srv: srv}
	s.client = mysqlconn.NewBuffer(nc, make([]byte, clientBuffer))
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		s.remote = a.AddrPort()
		s.remote = netip.AddrPortFrom(s.remote.Addr().Unmap(), s.remote.Port())
	}
	_, s.local = nc.(*net.UnixConn)
	s.counters = srv.metrics.stripe()
	return s
}

// run serves the session from login to its end.
func (s *session) run(ctx context.Context) {
	defer s.close()
	s.holds(sessionBytes() + clientBuffer + backendBuffer)
	l := login{session: s}
	if err := l.run(ctx); err != nil {
		s.srv.loginFailed(s, err)
		return
	}
	s.counters.logins.Add(1)
	s.show()
	s.srv.loggedIn(s)
	if err := s.watch(); err != nil {
		s.srv.opts.Diag.Error("session cannot be watched", "error", err)
		return
	}
	for {
		if err := s.turn(); err != nil {
			s.srv.sessionEnded(s, err)
			return
		}
	}
}

func (s *session) watch() (err error) {
	if s.clientWatch, err = s.srv.watcher.add(s, clientSide, s.client.Socket()); err != nil {
		return err
	}
	s.backendWatch, err = s.srv.watcher.add(s, backendSide, s.backend.Socket())
	return err
}

func (s *session) close() {
	s.srv.watcher.remove(s.clientWatch)
	s.srv.watcher.remove(s.backendWatch)
	s.client.Discard(len(s.client.Buffered()))
	if s.backend != nil {
		s.backend.Discard(len(s.backend.Buffered()))
	}
	s.returnBuffers()
	s.dropNext()
	s.client.Close()
	if s.backend != nil {
		s.backend.Close()
	}
	if s.entered {
		s.srv.users.leave(string(s.user))
	}
	s.holds(0)
}

// turn serves one command.
func (s *session) turn() error {
	if err := s.awaitCommand(); err != nil {
		return err
	}
	s.phase.Store(phaseBusy)
	if s.srv.gate.Load() != s.lane {
		if err := s.gated(); err != nil {
			return err
		}
	}
	err := s.command()
	s.consume()
	s.forget()
	s.returnBuffers()
	return err
}

// idle marks the session as waiting for a command. It comes after everything about the
// last one is done.
func (s *session) idle() {
	s.weigh()
	if s.srv.opts.IdleTimeout > 0 {
		s.idleSince.Store(int64(time.Since(s.srv.started)))
	}
	if s.isOpen() {
		s.phase.Store(phaseOpen)
		return
	}
	s.phase.Store(phaseIdle)
}

// sawStatus keeps the server status, which tells modes that change how SQL is read.
func (s *session) sawStatus(st mysqlwire.Status) {
	s.status = st
	mode := s.mode &^ sqldigest.NoBackslashEscapes
	if st.Has(mysqlwire.StatusNoBackslashEscapes) {
		mode |= sqldigest.NoBackslashEscapes
	}
	if st.Has(mysqlwire.StatusMariaANSIQuotes) {
		mode |= sqldigest.ANSIQuotes
	} else if s.maria {
		mode &^= sqldigest.ANSIQuotes
	}
	if mode != s.mode {
		s.mode = mode
		s.rescope()
	}
}

// rescope computes anew what besides the text decides a plan.
func (s *session) rescope() {
	s.userName, s.schemaName = string(s.user), string(s.schema)
	s.scope = s.srv.opts.Planner.ScopeOf(s.schema, s.user, s.mode)
}

func (s *session) setSchema(name []byte) {
	s.schema = append(s.schema[:0], name...)
	s.rescope()
}

// borrowClient gives the client side a buffer of at least n bytes from the pool.
func (s *session) borrowClient(n int) {
	s.long[clientSide] = true
	old := s.client.SwapBuffer(s.srv.buffers.take(n))
	if s.borrowed {
		s.srv.buffers.give(old)
	} else {
		s.ownRead[clientSide], s.borrowed = old, true
	}
}

// borrowBackend gives the backend side a buffer for a long response.
func (s *session) borrowBackend() {
	if !s.relaying {
		s.ownRead[backendSide] = s.backend.SwapBuffer(s.srv.buffers.take(relayBuffer))
		s.relaying, s.long[backendSide] = true, true
	}
}

// returnBuffers gives borrowed buffers back, as far as what the client already sent on
// fits its own.
func (s *session) returnBuffers() {
	if s.relaying && len(s.backend.Buffered()) <= backendBuffer {
		s.srv.buffers.give(s.backend.SwapBuffer(s.ownRead[backendSide]))
		s.relaying = false
	}
	if s.borrowed && len(s.client.Buffered()) <= clientBuffer {
		s.srv.buffers.give(s.client.SwapBuffer(s.ownRead[clientSide]))
		s.borrowed = false
	}
}

// isTimeout reports whether a read or write ended by its deadline.
func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
