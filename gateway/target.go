package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A target is one of the servers behind the gateway.
type target struct {
	Backend
	side switchover.Side
	tls  atomic.Pointer[tls.Config]

	methods methods
	blocked blockedUsers
	spares  spares
	health  health

	greeting atomic.Pointer[mysqlwire.Handshake] // the last one; nil: none
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

// acquire returns a greeted connection to t: a spare one if there is one that the server has not closed.
func (s *Server) acquire(ctx context.Context, t *target) (*greeted, error) {
	for g := t.spares.take(); g != nil; g = t.spares.take() {
		if !hasLeft(g.conn) {
			return g, nil
		}
		g.conn.Close()
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
		return nil, err
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

// dismissLater dismisses a connection without waiting.
func (s *Server) dismissLater(g *greeted) {
	s.sweeping.Go(func() { _ = panics.Guard(g.dismiss) })
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

// A greetingError reports that a server did not send the greeting of a MySQL server.
type greetingError struct {
	err    error
	sent   []byte // its first bytes; nil if they are a greeting in part, or there are none
	waited time.Duration
}

func (e *greetingError) Unwrap() error { return e.err }

func (e *greetingError) Error() string {
	if e.sent == nil {
		return "read the greeting: " + e.reason()
	}
	return fmt.Sprintf("read the greeting: %s: it sent %q: %v", e.reason(), e.sent, e.err)
}

// reason returns the reason without the server's bytes, for a client that is not logged in.
func (e *greetingError) reason() string {
	switch {
	case e.sent != nil:
		return "it is not a MySQL server, but " + kindOf(e.sent)
	case isTimeout(e.err):
		return fmt.Sprintf("it sent nothing within %v (option handshake-timeout); is it a MySQL server?", e.waited)
	case errors.Is(e.err, io.EOF):
		return "it closed the connection before its greeting"
	}
	return publicReason(e.err)
}

// firstBytes are those of the messages by which servers of other protocols start, or respond to silence.
func firstBytes() map[string]string {
	return map[string]string{
		"SSH-": "an SSH server", "HTTP/": "an HTTP server", "\x15\x03": "a TLS server (MySQL's greeting is sent before TLS)",
		"220": "an FTP or SMTP server", "-ERR": "a Redis server", "* OK": "an IMAP server", "+OK": "a POP3 server",
		"\x05\x00\x00\x00\x0b": "MySQL's X Protocol: use the port of the classic protocol (3306 by default)",
	}
}

// kindOf names the server that sent b.
func kindOf(b []byte) string {
	for prefix, kind := range firstBytes() {
		if bytes.HasPrefix(b, []byte(prefix)) {
			return kind
		}
	}
	return "a server of an unknown protocol"
}

// maxFirstBytes bounds the bytes in a greetingError.
const maxFirstBytes = 40

// read reads the greeting. The error is a *refusedError or a *greetingError.
func (g *greeted) read() error {
	began := time.Now()
	payload, err := g.conn.ReadMessage(maxLoginPacket)
	if err != nil {
		e := &greetingError{err: err, waited: time.Since(began).Round(time.Millisecond)}
		b := g.conn.Buffered()
		if errors.Is(err, mysqlconn.ErrSequence) || errors.Is(err, mysqlconn.ErrTooLarge) || len(b) > mysqlwire.HeaderLen && b[mysqlwire.HeaderLen] != handshakeVersion {
			e.sent = bytes.Clone(b[:min(len(b), maxFirstBytes)])
		}
		return e
	}
	if len(payload) > 0 && payload[0] == mysqlwire.MarkErr {
		refused := &refusedError{}
		if err = refused.Decode(payload); err == nil {
			refused.Message = bytes.Clone(refused.Message)
			return refused
		}
	} else if err = g.hello.Decode(payload); err == nil {
		if !g.hello.Capabilities.Has(mysqlwire.CapProtocol41) {
			return &greetingError{err: errors.New("the server speaks the protocol from before MySQL 4.1")}
		}
		g.hello.ServerVersion = bytes.Clone(g.hello.ServerVersion)
		g.hello.AuthPlugin = bytes.Clone(g.hello.AuthPlugin)
		return nil
	}
	sent := mysqlwire.Header{Len: len(payload)}.AppendTo(nil)
	return &greetingError{err: err, sent: append(sent, payload[:min(len(payload), maxFirstBytes)]...)}
}

// handshakeVersion is the first byte of a greeting.
const handshakeVersion = 10

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
		if plugin == mysqlconn.PluginParsec {
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
func (m *methods) of(user string, deadline time.Time) (method string, ask bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if method, ok := m.byUser[user]; ok {
			return method, false
		}
		other, ok := m.inProgress[user]
		if !ok {
			if m.inProgress == nil {
				m.inProgress = make(map[string]chan struct{})
			}
			m.inProgress[user] = make(chan struct{})
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

// known returns the user's method, or "".
func (m *methods) known(user string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byUser[user]
}

// finish wakes the other logins of the user.
func (m *methods) finish(user string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if done, ok := m.inProgress[user]; ok {
		close(done)
		delete(m.inProgress, user)
	}
}

// learn records the method that the server requested for the user.
func (m *methods) learn(user string, plugin string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUser == nil || len(m.byUser) >= maxMethods {
		m.byUser = make(map[string]string)
	}
	if m.byUser[user] != plugin {
		m.byUser[user] = plugin
	}
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

// hasLeft reports whether the peer has closed a connection and no byte of it is unread.
func hasLeft(c *mysqlconn.Conn) bool { return len(c.Buffered()) == 0 && hasDisconnected(c.Socket()) }

// hasDisconnected reports whether the peer has closed a connection and no byte of it is unread in its socket.
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
