package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/gateway/switchover"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/netloop"
)

// A target is one of the servers behind the gateway.
type target struct {
	Backend
	side switchover.Side
	tls  atomic.Pointer[tls.Config]

	// greeting is the server's last greeting: clients are greeted with its version and capabilities before a
	// connection to the server is opened for them.
	greeting atomic.Pointer[mysqlwire.Handshake]

	methods methods
	blocked blockedUsers
	spares  spares
	health  health
}

func newTarget(b Backend, side switchover.Side) *target {
	t := &target{Backend: b, side: side}
	t.tls.Store(b.tlsConfig(b.CAs))
	return t
}

// A greeted connection has received the server's greeting and sent nothing.
type greeted struct {
	conn  *mysqlconn.Conn
	hello mysqlwire.Handshake // owns its slices
	born  time.Time           // since then the server waits for a login
}

// A refusedError is an ERR packet in place of a greeting.
type refusedError struct{ mysqlwire.Err }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the server refused the connection: %d: %s", e.Number, e.Message)
}

// acquire returns a greeted connection to t: a spare one if there is one.
func (s *Server) acquire(ctx context.Context, t *target) (*greeted, error) {
	if g := t.spares.take(); g != nil {
		return g, nil
	}
	return s.openGreeted(ctx, t)
}

// openGreeted connects to t and reads its greeting. The outcome is reported to t.health.
func (s *Server) openGreeted(ctx context.Context, t *target) (*greeted, error) {
	g, err := s.dialGreeted(ctx, t)
	if err != nil {
		s.report(t, err)
		return nil, err
	}
	t.greeting.Store(&g.hello)
	return g, nil
}

func (s *Server) dialGreeted(ctx context.Context, t *target) (*greeted, error) {
	born := time.Now()
	nc, err := s.dial(ctx, t.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	g := &greeted{conn: mysqlconn.NewBuffer(netloop.NewConn(nc), make([]byte, backendBuffer)), born: born}
	if err = g.conn.SetDeadline(time.Now().Add(s.opts.HandshakeTimeout)); err == nil {
		err = g.read()
	}
	if err == nil {
		err = g.conn.SetDeadline(time.Time{})
	}
	switch {
	case isTimeout(err): // the server would count the connection
		s.sweeping.Go(func() { _ = panics.Guard(func() error { return s.dismissLate(g) }) })
	case err != nil:
		nc.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("read the greeting: %w", err)
	}
	return g, nil
}

// dismissLate dismisses a connection whose greeting is late.
func (s *Server) dismissLate(g *greeted) error {
	defer g.conn.Close()
	if err := g.conn.SetDeadline(time.Now().Add(dismissTimeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(s.ctx, func() { _ = g.conn.SetDeadline(past) })
	defer stop()
	if err := g.read(); err != nil {
		return err
	}
	return g.dismiss()
}

// dial opens a connection to a server.
func (s *Server) dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ConnectTimeout)
	defer cancel()
	if s.opts.Dial != nil {
		return s.opts.Dial(ctx, "tcp", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// read reads the greeting.
func (g *greeted) read() error {
	payload, err := g.conn.ReadMessage(maxLoginPacket)
	if err != nil {
		return err
	}
	if len(payload) > 0 && payload[0] == mysqlwire.MarkErr {
		refused := &refusedError{}
		if err := refused.Decode(payload); err != nil {
			return err
		}
		refused.Message = bytes.Clone(refused.Message)
		return refused
	}
	if err := g.hello.Decode(payload); err != nil {
		return err
	}
	if !g.hello.Capabilities.Has(mysqlwire.CapProtocol41) {
		return errors.New("the server speaks the protocol from before MySQL 4.1")
	}
	g.hello.ServerVersion = bytes.Clone(g.hello.ServerVersion)
	g.hello.AuthPlugin = bytes.Clone(g.hello.AuthPlugin)
	return nil
}

// dismissedUser is a prefix of user names without an account: see dismiss.
const dismissedUser = "tare-client-left-"

// dismiss closes a greeted connection. A server counts a peer that disconnects before its login against the
// peer's address, and eventually blocks the address, which is the gateway's. A denied login is not counted.
// The name belongs to no account, so no account is blocked, and differs each time, because servers delay
// names that failed before.
func (g *greeted) dismiss() error {
	defer g.conn.Close()
	if err := g.conn.SetDeadline(time.Now().Add(dismissTimeout)); err != nil {
		return err
	}
	out := mysqlwire.HandshakeResponse{
		Capabilities: g.hello.Capabilities & (mysqlwire.CapProtocol41 | mysqlwire.CapLongPassword |
			mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth),
		MaxPacket: 1 << 24, Charset: g.hello.Charset, User: strconv.AppendUint([]byte(dismissedUser), uint64(g.hello.ConnectionID), 36), AuthPlugin: g.hello.AuthPlugin,
	}
	if err := g.conn.WriteMessage(out.AppendTo(nil)); err != nil {
		return err
	}
	return finishLogin(g.conn, string(g.hello.AuthPlugin))
}

// dismissTimeout bounds closing a connection whose client has disconnected. A server that takes longer to
// decide the login counts a handshake error.
const dismissTimeout = 10 * time.Second

// finishLogin lets the server decide a login whose client has disconnected. It responds to each request with
// an empty password, because a server counts a disconnect as a handshake error against the peer's address.
// Parsec is the exception: there the server counts the empty password and not the disconnect, so finishLogin
// returns errUnfinished.
func finishLogin(c *mysqlconn.Conn, plugin string) error {
	for range maxAuthRounds {
		p, err := c.ReadMessage(maxLoginPacket)
		switch {
		case err != nil:
			return err
		case len(p) == 0:
			return mysqlwire.ErrShortPacket
		case p[0] == mysqlwire.MarkErr:
			return nil
		case p[0] == mysqlwire.MarkOK: // the account has no password
			c.Seq = 0
			return c.WriteMessage([]byte{byte(mysqlwire.ComQuit)})
		}
		if len(p) == 2 && p[0] == mysqlwire.MarkAuthMore && p[1] == mysqlwire.SHA2FastOK {
			continue
		}
		var sw mysqlwire.AuthSwitchRequest
		if p[0] == mysqlwire.MarkEOF && sw.Decode(p) == nil {
			plugin = string(sw.Plugin)
		}
		if plugin == pluginParsec {
			return errUnfinished
		}
		if err := c.WriteMessage(emptyResponse(plugin)); err != nil {
			return err
		}
	}
	return fmt.Errorf("no end of a login after %d packets", maxAuthRounds)
}

var errUnfinished = errors.New("the login is closed unfinished")

// emptyResponse returns a method's response for an empty password, of the length that the method requires.
func emptyResponse(plugin string) []byte {
	switch plugin {
	case mysqlconn.PluginNative, oldPassword:
		return nil
	case mysqlconn.PluginEd25519:
		return make([]byte, signatureLen)
	}
	return []byte{0}
}

// spares are greeted connections on which nothing was sent because the client disconnected. The next login
// takes one. A connection that is too old for another login is dismissed before the server's time-out, no
// matter how often it was taken and put back.
type spares struct {
	mu     sync.Mutex
	list   []*spare
	closed bool
}

type spare struct {
	greeted *greeted
	timer   *time.Timer
}

const (
	maxSpares = 64
	spareLife = 3 * time.Second // since the connection was made: servers wait 10 s for a login by default
)

// responseDeadline returns the deadline for the client's response while nothing has been sent on g.
func (g *greeted) responseDeadline() time.Time { return g.born.Add(spareLife + responseTimeout) }

// put keeps a greeted connection, or dismisses it.
func (p *spares) put(g *greeted) {
	rest := time.Until(g.born.Add(spareLife))
	p.mu.Lock()
	if p.closed || len(p.list) >= maxSpares || rest <= 0 {
		p.mu.Unlock()
		_ = g.dismiss()
		return
	}
	sp := &spare{greeted: g}
	sp.timer = time.AfterFunc(rest, func() {
		if p.remove(sp) {
			_ = g.dismiss()
		}
	})
	p.list = append(p.list, sp)
	p.mu.Unlock()
}

// take returns the newest connection, or nil if there is none.
func (p *spares) take() *greeted {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.list)
	if n == 0 {
		return nil
	}
	sp := p.list[n-1]
	p.list = slices.Delete(p.list, n-1, n)
	sp.timer.Stop()
	return sp.greeted
}

func (p *spares) remove(sp *spare) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.list, sp)
	if i < 0 {
		return false
	}
	p.list = slices.Delete(p.list, i, i+1)
	return true
}

// close dismisses all connections, and future ones passed to put.
func (p *spares) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.flush()
}

// flush dismisses all connections.
func (p *spares) flush() {
	p.mu.Lock()
	list := p.list
	p.list = nil
	p.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()
	for _, sp := range list {
		if sp.timer.Stop() {
			all.Go(func() { _ = panics.Guard(sp.greeted.dismiss) })
		}
	}
}

// methods are the authentication methods of users. A user's method becomes known by naming the user to the
// server; one login per user does that at a time.
type methods struct {
	mu         sync.Mutex
	byUser     map[string]string
	inProgress map[string]chan struct{} // users whose method a login is determining; closed when it is done
}

const maxMethods = 4096 // users

// of returns the user's method. If it is unknown, the result ask says that the caller must determine it and
// call asked; if another login is doing so, of waits for it until the deadline.
func (m *methods) of(user []byte, deadline time.Time) (method string, ask bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if method, ok := m.byUser[string(user)]; ok {
			return method, false
		}
		other, ok := m.inProgress[string(user)]
		if !ok {
			if m.inProgress == nil {
				m.inProgress = make(map[string]chan struct{})
			}
			m.inProgress[string(user)] = make(chan struct{})
			return "", true
		}
		m.mu.Unlock()
		late := time.NewTimer(time.Until(deadline))
		select {
		case <-other:
		case <-late.C:
		}
		late.Stop()
		m.mu.Lock()
		if !time.Now().Before(deadline) {
			return "", false
		}
	}
}

// finish wakes the other logins of the user.
func (m *methods) finish(user []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if done, ok := m.inProgress[string(user)]; ok {
		close(done)
		delete(m.inProgress, string(user))
	}
}

// learn records the method that the server requested for the user.
func (m *methods) learn(user []byte, plugin string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUser == nil || len(m.byUser) >= maxMethods {
		m.byUser = make(map[string]string)
	}
	m.byUser[string(user)] = plugin
}

// publicReason returns the reason of a backend failure without the backend's address, for a client that is
// not logged in.
func publicReason(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "its name cannot be resolved"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	return err.Error()
}

// hasDisconnected reports whether the peer has closed a connection and no byte of it is unread.
func hasDisconnected(nc net.Conn) (left bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	var b [1]byte
	err = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		left = err == nil && n == 0 || errors.Is(err, unix.ECONNRESET)
	})
	return err == nil && left
}
