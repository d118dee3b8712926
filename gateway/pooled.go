package gateway

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A class is what the sessions on a connection must have in common.
type class struct {
	caps    mysqlwire.Capability
	charset uint8 // of the login
	tls     bool
	schema  bool // a default schema is selected, which no command undoes
	side    switchover.Side
}

// A sharedConn is a connection to the backend that sessions take turns on. The task of the session that it is lent to uses it, or
// the keeper's.
type sharedConn struct {
	conn  *mysqlconn.Conn
	id    uint32 // at the server
	to    *target
	maria bool
	login *loginState
	base  int64 // heap bytes without statements

	account *pool.Account // of the login, if it was learned
	heap    int64         // bytes charged to Server.held

	// The state of the server's session.
	sets     settings
	schema   string
	ddl      uint64 // Server.schemaDDL before the schema was selected
	wasReset bool   // there was a COM_RESET_CONNECTION after the login, by a client
	stale    bool   // the fields above are not the state: it has to be reset
	last     bool   // it is closed after its current use
	mode     sqldigest.Mode
	status   mysqlwire.Status
	insertID uint64 // LAST_INSERT_ID()
	inserted bool   // insertID is out of date
	unlike   bool   // it was not the session's, but 0, when that began

	statements pool.Statements
	pipe       pipe
}

// A loginState is the state that a login leaves, for connections that are reset in place of another login.
type loginState struct {
	restore string // the statement that brings a session that was reset into the state after its login; "": none is required
	resets  bool   // a reset and restore do that
	state   sessionState
}

// A loginKey identifies logins that leave the same state.
type loginKey struct {
	class  class  // without schema
	server string // its identity and settings: see serverQuery
}

// A userPool is the connections of a user that the sessions of a loop share.
type userPool struct {
	pool.Pool[class, *sharedConn]
	lender   *lender
	user     string
	learning sync.Mutex // guards logins; held while one is learned
	logins   map[loginKey]*loginState
}

// A lender has the pools of a loop. Its keeper is a task that owns idle connections, and closes those that are old.
type lender struct {
	srv    *Server
	keeper *netloop.Task
	part   pool.Limits // of a user's connections
	placed *placement
	none   *mysqlconn.Conn // the backend's connection of a session that has none
	served chan struct{}   // closed at the keeper's end
	stop   atomic.Bool

	unsent  []*sharedConn // see pipe.out
	reads   *shortReads   // nil at depth 1
	awaited []*relayer    // sessions that wait for a response to a command of the gateway's: see fillInternal

	slowAfter time.Duration // of statements that others may wait behind

	mu    sync.Mutex
	pools map[string]*userPool // of the users; the loop's tasks change it with mu locked
}

// lenders are those of a server's first loops, as many as a pool has connections at most: sessions on others would have none.
type lenders []*lender

const keepEvery = time.Second

// startLenders starts the keepers.
func (s *Server) startLenders() (lenders, error) {
	loops := min(s.loops.Loops(), s.opts.Pool.Max)
	if loops == 0 {
		return nil, errors.New("shared connections need event loops, which this platform does not have, or which were switched off")
	}
	all := make(lenders, loops)
	o, placed := s.opts.Pool, &placement{sessions: make(map[string][]int), all: make([]int, loops)}
	for i := range all {
		part := func(n int) int { return n/loops + min(1, max(n%loops-i, 0)) }
		limits := pool.Limits{Max: part(o.Max), Min: part(o.Min), Depth: o.Depth, Lifetime: o.Lifetime, IdleAge: o.IdleAge}
		l := &lender{srv: s, part: limits, placed: placed, slowAfter: slowAfter, none: mysqlconn.NewBuffer(netloop.NewConn(noConn{}), nil), served: make(chan struct{}), pools: make(map[string]*userPool)}
		all[i] = l
		if o.Depth > 1 {
			l.reads = new(shortReads)
			s.held.Add(shortReadsBytes)
		}
		started := make(chan struct{})
		if err := s.loops.GoAmong(i, 1, func(t *netloop.Task) { l.keeper = t; close(started); l.keep(t) }, func(*netloop.Conn) {}); err != nil {
			return nil, err
		}
		<-started
	}
	return all, nil
}

// close closes the connections. There are no sessions any more.
func (all lenders) close() {
	for _, l := range all {
		l.stop.Store(true)
		l.keeper.Wake()
		<-l.served
		if l.reads != nil {
			l.srv.held.Add(-shortReadsBytes)
		}
	}
}

// keep is the keeper's task.
func (l *lender) keep(t *netloop.Task) {
	defer close(l.served)
	for next := time.Now(); !l.stop.Load(); t.Pause(next) {
		l.send()
		now := time.Now()
		if now.Before(next) {
			continue
		}
		next = now.Add(keepEvery)
		l.endSilent(now)
		for _, p := range l.pools {
			p.Expire(now, func(c *sharedConn) bool { return !l.usable(c) }, l.closeConn)
		}
		l.expireLearned(now)
	}
	for _, p := range l.pools {
		p.Clear(l.closeConn)
	}
}

// usable reports whether an idle connection can be lent.
func (l *lender) usable(c *sharedConn) bool {
	if !onLoop(c.conn).Silent() {
		c.to.greeting.Store(nil) // the server may have been replaced
		return false
	}
	return !c.account.Forgotten() && c.to.side == sideOf(l.srv.gate.Load()&^gatePaused)
}

// expireLearned removes learned accounts past their life, and the pools of forgotten ones.
func (l *lender) expireLearned(now time.Time) {
	if l.srv.learned == nil {
		return
	}
	l.srv.learned.Expire(now)
	for user, p := range l.pools {
		if _, listed := l.srv.opts.Pool.listed(user); !listed && p.Open.Load() == 0 && l.srv.learned.Of(user) == nil && !l.placed.has(user) {
			l.mu.Lock()
			delete(l.pools, user)
			l.mu.Unlock()
		}
	}
}

// closeConn closes a connection of the current task.
func (l *lender) closeConn(c *sharedConn) {
	l.srv.held.Add(-c.heap)
	c.pipe.closed = true
	_ = c.conn.SetWriteDeadline(time.Now().Add(lastWrite))
	c.conn.Seq = 0
	_ = c.conn.WriteMessage([]byte{byte(mysqlwire.ComQuit)})
	c.conn.Close()
}

// of returns the pool of a user on the loop. number is the loop's.
func (all lenders) of(number int, user string) *userPool {
	l := all[number]
	if p := l.pools[user]; p != nil {
		return p
	}
	p := &userPool{lender: l, user: user, logins: make(map[loginKey]*loginState)}
	p.Limits = l.part
	p.Brisk = func(c *sharedConn) bool { return c.brisk(l.slowAfter) }
	l.mu.Lock()
	l.pools[user] = p
	l.mu.Unlock()
	return p
}

// A lease is a session's part in the sharing of connections.
type lease struct {
	pool  *userPool // nil: the session does not share connections
	loop  int
	login *loginState // of its last connection
	// schemaLater is the default schema of a login, until it is selected: a name that is not plain.
	schemaLater string
	shared      *pool.Conn[class, *sharedConn]
	waiter      pool.Waiter[class, *sharedConn]

	fresh    bool             // the last statement on the connection was not the session's: it was lent for the current command, or the gateway had one
	pinned   bool             // it was kept by a pin meanwhile
	tracks   bool             // the client has set session_track_state_change, which pins
	touched  bool             // the gateway had a statement on it after the session's last one
	rows     bool             // it has executed a SELECT for the session since then: FOUND_ROWS() is the session's
	kept     keptBy           // why it is kept after the last command
	unread   bool             // there may be warnings or an error of an earlier statement to read
	opened   bool             // a statement that failed may have opened a transaction: errors have no status
	saved    bool             // there may be a savepoint without a transaction
	found    bool             // FOUND_ROWS() of the last statement differs from the rows that it returned
	insertID uint64           // LAST_INSERT_ID() of the session, unless it has a connection on which it is newer
	changed  bool             // the server has reported changes of the session for the current command
	selected *string          // the default schema that it has reported for it; nil: none
	doubtful bool             // the server may not even say so later: triggers or functions may have done it before an error
	unsure   bool             // a statement may have changed the session without a report: see confirm
	digest   sqldigest.Digest // of that statement
	asks     bool             // a COM_PING is to follow the statement: see maySendPing
	asked    bool             // its response is next
	pinged   bool             // one has followed the session's last statement
	awaits   time.Time        // since when the session has been in lender.awaited
	executes bool             // the gateway's command may take as long as a statement
	silent   bool             // the backend did not respond there in time
	holds    atomic.Uint32    // kept, for other goroutines
	scratch  []byte           // commands and packets under construction

	planned bool          // the current statement's plan was made before there was a connection
	scope   sqlplan.Scope // of that plan

	statement *preparedStatement // executed by the current command

	reads bool // it is a read that depends on nothing but the session's state, and leaves nothing
	sent  bool // it was sent behind those of others
}

// keptBy is why a session keeps its connection between two commands.
type keptBy uint8

const (
	keptNot keptBy = iota
	keptByTransaction
	keptByPin // see carried.pin
	keptByPrepared
	keptByOption
	keptByModes
	keptByDiagnostics
)

var keptReasons = [...]string{
	keptNot: "", keptByTransaction: "a transaction", keptByPin: "a pin", keptByPrepared: "a prepared statement with an open cursor, a value sent in pieces, or other settings than now",
	keptByOption: "COM_SET_OPTION", keptByModes: "a default schema or modes that are not known", keptByDiagnostics: "warnings, an error or FOUND_ROWS() that can be read",
}

// diagnosticsFor is how long a client may take to read the warnings of its last statement outside of a transaction.
const diagnosticsFor = time.Second

// continuesWithout reports whether the session loses no more than warnings or an error with its connection.
func (s *session) continuesWithout() bool {
	return s.lease.kept == keptByDiagnostics && !s.lease.shared.Value.inserted && !s.modes.unknown && !s.lease.unsure
}

// Fits implements pool.Owner.
func (s *session) Fits(c *sharedConn) bool { return c.matches(s) }

// Granted implements pool.Owner.
func (s *session) Granted() { s.task.Resume() }

// matches reports whether the server's session is in the state of a client's.
func (c *sharedConn) matches(s *session) bool {
	return !c.stale && c.wasReset == s.carried.wasReset && c.schema == s.modes.schema && c.sets.equal(&s.carried.sets) &&
		(c.schema == "" || c.ddl == s.srv.schemaDDL.Load())
}

// class returns the class of the session's connections.
func (s *session) class() class { return s.classAt(s.to) }

func (s *session) classAt(to *target) class {
	const perLogin = mysqlwire.CapSSL | mysqlwire.CapConnectWithDB | mysqlwire.CapConnectAttrs | mysqlwire.CapPluginAuthLenenc |
		mysqlwire.CapPluginAuth | mysqlwire.CapSecureConnection | mysqlwire.CapLongPassword | mysqlwire.CapIgnoreSigpipe | mysqlwire.CapRememberOptions |
		mysqlwire.CapSSLVerifyServerCert | mysqlwire.CapExpiredPasswords | mysqlwire.CapMultiFactorAuth
	return class{
		caps: s.caps&^perLogin | mysqlwire.CapSessionTrack, charset: s.charset, schema: s.modes.schema != "",
		tls: to.TLS.Required() || to.TLS == mysqlconn.TLSPreferred && s.client.IsTLS(), side: to.side,
	}
}

// joinPool makes the session one that shares connections.
func (s *session) joinPool(t *netloop.Task) {
	s.lease.loop, _ = t.Loop()
	s.lease.pool = s.srv.lenders.of(s.lease.loop, s.modes.user)
	s.lease.waiter.Owner = s
	s.statements.moved = true
	s.setBackend(s.lease.pool.lender.none)
}

// maxLost is how many connections in a row the backend may close before a command of a client fails.
const maxLost = 3

// borrow gives the session a connection in its state. The error ends the session; refused does not.
func (s *session) borrow() (refused *clientError, err error) {
	if refused, err = s.obtain(); refused != nil || err != nil || s.lease.sent {
		return refused, err
	}
	p := s.lease.pool
	for lost := 1; ; lost++ {
		again, refused, err := s.bring()
		if !again && refused == nil && err == nil && s.carried.multi != 0 { // after COM_CHANGE_USER
			return s.bringOption()
		}
		if !again {
			return refused, err
		}
		if lost == maxLost && s.lease.silent {
			refused = s.poolError(errSilent)
		} else if lost == maxLost {
			refused = s.poolError(errLost)
		} else {
			refused = s.openShared() // in its place
		}
		if refused != nil {
			p.Failed()
			return s.endForgotten(refused)
		}
	}
}

// endForgotten closes the session if it has no connection because its password is no longer known.
func (s *session) endForgotten(refused *clientError) (*clientError, error) {
	if !errors.Is(refused.detail, errForgotten) {
		return refused, nil
	}
	_ = s.sendError(s.msg.seq+1, refused, true)
	return refused, refused.detail
}

// errLost reports that the backend does not keep connections open.
var errLost = fmt.Errorf("the backend closed %d connections in a row before a statement could be sent", maxLost)

// errSilent reports that the backend does not respond on its connections.
var errSilent = errors.New("the backend does not respond to the commands that a shared connection requires before a statement")

// obtain gives the session a connection of its class.
func (s *session) obtain() (refused *clientError, err error) {
	p, w := s.lease.pool, &s.lease.waiter
	for {
		w.Class = s.class()
		p.Ask(w)
		if w.Grant == pool.GrantNone || w.Grant == pool.GrantBehind {
			if refused, err := s.awaitGrant(); refused != nil || err != nil {
				return refused, err
			}
		}
		if !s.lease.sent {
			break
		}
		if answered, err := s.awaitResponse(); answered || err != nil {
			return nil, err
		}
	}
	c := w.Conn
	w.Conn = nil
	if c != nil {
		p.lender.keeper.Give(onLoop(c.Value.conn), s.task)
	}
	if w.Grant == pool.GrantUse {
		if p.lender.usable(c.Value) {
			s.hold(c)
			return nil, nil
		}
		p.Closed.Add(1) // another one is opened in its place
	}
	if c != nil {
		p.lender.closeConn(c.Value)
	}
	if refused = s.openShared(); refused != nil {
		p.Failed()
		return s.endForgotten(refused)
	}
	return nil, nil
}

// awaitGrant waits in the queue.
func (s *session) awaitGrant() (refused *clientError, err error) {
	p, w := s.lease.pool, &s.lease.waiter
	wait := s.srv.opts.Pool.Wait
	limit := time.Now().Add(wait)
	s.pausing.Store(true)
	defer s.acknowledge(causeQueryKilled)
	defer s.pausing.Store(false)
	for w.Grant == pool.GrantNone || w.Grant == pool.GrantBehind {
		switch causes := s.occurred(); {
		case causes&causeClientGone != 0 && s.endsHalf():
			err = fmt.Errorf("%w: while its command waited for a connection", errClientDisconnected)
		case causes&causeKilled != 0:
			err = errKilled
			refused = s.killedError()
		case causes&causeQueryKilled != 0:
			refused = &clientError{errno: mysqlwire.ErrnoQueryInterrupted, msg: "Query execution was interrupted"}
		case causes&causeDrainLimit != 0:
			err = errDrained
			refused = &clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress"}
		case w.Grant == pool.GrantBehind && !time.Now().Before(limit):
			p.Leave(w)
			p.Stats.Lost.Add(1)
			return nil, nil // it is sent again, alone
		case !time.Now().Before(limit):
			p.TimedOut.Add(1)
			refused = s.noneFree(wait)
		default:
			s.task.Pause(limit)
			continue
		}
		if w.Grant == pool.GrantBehind {
			p.Leave(w)
		}
		if w.Grant == pool.GrantLost || p.Cancel(w) {
			if err != nil && refused != nil {
				_ = s.sendError(s.msg.seq+1, refused, true)
			}
			return refused, err
		}
		break // granted at the same time
	}
	return nil, nil
}

// hold makes a connection the session's, until giveBack or discard.
func (s *session) hold(c *pool.Conn[class, *sharedConn]) {
	s.own(c)
	s.shareBackend()
}

func (s *session) own(c *pool.Conn[class, *sharedConn]) {
	s.lease.shared, s.lease.fresh, s.lease.rows, s.lease.unsure, s.lease.pinned = c, true, false, false, false
	s.lease.asks, s.lease.asked, s.lease.pinged, s.lease.opened, s.lease.saved, s.lease.doubtful = false, false, false, false, false, false
	conn := c.Value.conn
	s.lease.login = c.Value.login
	s.modes.follow(c.Value.maria, c.Value.mode)
	_ = conn.SetDeadline(time.Time{}) // a late interruption of the session before
	s.setBackend(conn)
	s.shown.connect(c.Value.id, c.Value.to.side)
	s.wake(s.occurred() &^ (causeDrain | causeIdle | causeMove))
}

// keep keeps the connection for a reason, or returns it.
func (s *session) keep(why keptBy) error {
	l := &s.lease
	if l.shared == nil {
		return nil
	}
	if l.shared.InLine() > 0 && why == keptByDiagnostics && !l.unsure && !s.modes.unknown {
		why = keptNot // those behind have replaced them
	}
	if why != keptNot || l.unsure {
		if err := s.goAlone(); err != nil {
			return err
		}
	}
	l.fresh, l.touched, l.kept = l.touched, false, why
	l.pinned = l.pinned || why == keptByPin
	l.holds.Store(uint32(why))
	switch why {
	case keptNot:
		if l.unsure {
			if pinned, err := s.confirm(); pinned || err != nil {
				l.fresh, l.kept = true, keptByPin
				l.holds.Store(uint32(l.kept))
				return err
			}
		}
		return s.giveBack()
	case keptByDiagnostics:
		return s.client.SetReadDeadline(time.Now().Add(diagnosticsFor))
	}
	return nil
}

// giveBack returns the connection to the pool.
func (s *session) giveBack() error {
	l := &s.lease
	c := l.shared.Value
	if c.inserted {
		if err := s.goAlone(); err != nil {
			return err
		}
		if err := s.takeInsertID(); err != nil {
			return err
		}
	}
	behind := l.shared.InLine() > 0
	if s.turnstile.hold != nil || s.ended || c.stale || c.last || c.account.Forgotten() || !behind && len(s.backend.Buffered()) > 0 {
		s.turnstile.endHold(s.task) // a KILL QUERY may not reach another session
		s.discardShared()
		return nil
	}
	if behind {
		s.handOver()
		return nil
	}
	c.stale = l.unread || l.pinned || l.doubtful // a reset removes the warnings and the state of this session
	shared := l.shared
	s.leave()
	if !c.sets.equal(&s.carried.sets) {
		c.sets.copy(&s.carried.sets)
	}
	c.schema, c.wasReset, c.mode, c.status = s.modes.schema, s.carried.wasReset, s.modes.mode, s.modes.status
	shared.Class.schema = c.schema != ""
	s.task.Give(onLoop(c.conn), l.pool.lender.keeper)
	if !l.pool.Put(shared, time.Now()) {
		l.pool.lender.keeper.Give(onLoop(c.conn), s.task)
		l.pool.lender.closeConn(c)
		l.pool.Drop(shared)
	}
	return nil
}

// leave takes the connection off the session.
func (s *session) leave() {
	s.unshareBuffer(backendSide)
	s.letGo()
}

func (s *session) letGo() {
	s.lease.shared, s.lease.kept = nil, keptNot
	s.lease.holds.Store(0)
	s.shown.connect(0, s.to.side)
	s.setBackend(s.lease.pool.lender.none)
	s.acknowledge(causeBackendGone)
	s.ended = false
}

// discardShared closes the session's connection, if it has one of a pool.
func (s *session) discardShared() {
	if s.lease.shared == nil {
		return
	}
	s.closeShared()
	s.lease.pool.Failed()
}

// closeShared closes the session's connection. Its room in the pool stays the session's: for another one, or for Failed.
func (s *session) closeShared() {
	shared := s.lease.shared
	s.lease.pool.Disband(shared)
	s.backend.Discard(len(s.backend.Buffered()))
	s.returnBuffers()
	s.leave()
	s.lease.pool.lender.closeConn(shared.Value)
	s.lease.pool.Closed.Add(1)
}

// noConn stands for the backend's connection of a session that has none.
type noConn struct{}

var errNoConn = errors.New("the session has no connection to its backend")

func (noConn) Read([]byte) (int, error)         { return 0, errNoConn }
func (noConn) Write([]byte) (int, error)        { return 0, errNoConn }
func (noConn) Close() error                     { return nil }
func (noConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (noConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (noConn) SetDeadline(time.Time) error      { return nil }
func (noConn) SetReadDeadline(time.Time) error  { return nil }
func (noConn) SetWriteDeadline(time.Time) error { return nil }
