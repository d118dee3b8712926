package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// unknownMethod is the name of an authentication method that does not exist: a server responds to it by
// requesting the account's method.
const unknownMethod = "tare_asks_anew"

// responseTimeout is the time limit for a client's response to a challenge while a connection to the backend is reserved. Programs
// respond without a person's help.
const responseTimeout = 5 * time.Second

// connect assigns the login a greeted connection to the active server.
func (l *login) connect(ctx context.Context) error {
	g, err := l.srv.acquire(ctx, l.to)
	for range l.srv.ids.attempts() {
		if err != nil || l.srv.ids.take(g.hello.ConnectionID, &l.shown) {
			break
		}
		l.srv.dismissLater(g)
		g, err = l.srv.openGreeted(ctx, l.to)
	}
	if err != nil {
		return l.refuse(l.unreachable(err))
	}
	l.greeted = g
	l.hello = g.hello
	l.setBackend(g.conn)
	l.connected(l.hello.ConnectionID, string(l.hello.ServerVersion))
	return l.setDeadlines(l.deadline, 0)
}

// followSwitch replaces the connection that greeted the client if the gateway pauses, which may take longer than the
// server waits for a login, or has switched to another server meanwhile. The client then responds to another challenge, and
// the id in its greeting is not the server's.
func (l *login) followSwitch(ctx context.Context) error {
	gate := l.srv.gate.Load()
	if l.turnstile.passes(gate) {
		return nil
	}
	if !l.caps.Has(mysqlwire.CapPluginAuth) {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Tare is switching to another server: connect again"})
	}
	l.srv.dismissLater(l.greeted) // not a spare: its id is in the client's greeting
	l.greeted, l.switched = nil, true
	l.setBackend(nil)
	if err := l.waitLogin(); err != nil {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoServerShutdown, msg: err.Error()})
	}
	if hasLeft(l.client) {
		return errClientDisconnected
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	return l.checkGreeting()
}

// unreachable returns the error for a client if there is no greeted connection.
func (l *login) unreachable(err error) *clientError {
	e := &clientError{errno: mysqlwire.ErrnoNetRead, detail: fmt.Errorf("backend %s: %w", l.to.Addr, err)}
	refused, ok := errors.AsType[*refusedError](err)
	greeting, isGreeting := errors.AsType[*greetingError](err)
	switch {
	case isGreeting:
		e.msg = "Tare got no greeting from its backend: " + greeting.reason()
	case !ok && isTimeout(err):
		e.msg = fmt.Sprintf("Tare cannot connect to its backend: timeout after %v (option connect-timeout)", l.srv.opts.ConnectTimeout)
	case !ok:
		e.msg = "Tare cannot connect to its backend: " + publicReason(err)
	case refused.Number == mysqlwire.ErrnoTooManyConnections:
		e.errno, e.msg = refused.Number, "Too many connections: Tare's backend accepts no more"
	default:
		e.errno, e.msg = refused.Number, fmt.Sprintf("Tare's backend refused the connection with error %d: see Tare's log", refused.Number)
	}
	return e
}

// checkGreeting compares the capabilities offered to the client, taken from the greeting of another connection, with
// those of the server it is connected to.
func (l *login) checkGreeting() error {
	const loginOnly = mysqlwire.CapPluginAuthLenenc | mysqlwire.CapConnectAttrs | mysqlwire.CapSSL | mysqlwire.CapLongPassword
	offers := l.hello.Capabilities & knownCapabilities
	missing := l.caps &^ (offers | loginOnly)
	if missing != 0 {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: fmt.Sprintf(
			"Bad handshake: Tare's backend was changed and lacks the capabilities %#x; connect again", uint64(missing))})
	}
	return nil
}

// secureBackend starts TLS on the backend connection if the mode or the client's connection requires it.
func (l *login) secureBackend() error {
	mode, offers := l.to.TLS, l.hello.Capabilities.Has(mysqlwire.CapSSL)
	switch {
	case mode.Required() && !offers:
		return l.refuse(&clientError{errno: mysqlwire.ErrnoNetRead, msg: fmt.Sprintf(
			"Tare requires TLS to its backend (option backend-tls %s), which does not offer it; enable TLS on the backend or set option backend-tls to mirror", mode)})
	case mode == mysqlconn.TLSPreferred && l.client.IsTLS() && !offers:
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: Tare's backend no longer offers TLS; connect again"})
	case !l.securesBackend():
		return nil
	}
	r := mysqlwire.SSLRequest{Capabilities: l.backendCaps() | mysqlwire.CapSSL, MaxPacket: l.response.MaxPacket, Charset: l.response.Charset}
	l.greeted = nil // bytes were sent on it
	if err := l.backend.StartTLS(l.srv.ctx, r, l.to.tls.Load()); err != nil {
		return l.refuse(l.backendError("the TLS handshake", err))
	}
	return nil
}

// securesBackend reports whether the backend connection must use TLS.
func (l *login) securesBackend() bool {
	return l.to.TLS.Required() || l.to.TLS != mysqlconn.TLSDisabled && l.client.IsTLS()
}

// backendCaps returns the capabilities for the login at the backend: the client's, without those that the
// backend lacks and that concern the login only, and with the TLS bit of the backend connection.
func (l *login) backendCaps() mysqlwire.Capability {
	caps := l.caps &^ mysqlwire.CapSSL & (l.hello.Capabilities | mysqlwire.CapLongPassword)
	if l.backend.IsTLS() {
		caps |= mysqlwire.CapSSL
	}
	caps |= l.hello.Capabilities & (mysqlwire.CapPluginAuth | mysqlwire.CapSecureConnection) // see addAuthMethod
	if len(l.schemaLater) > 0 {
		caps &^= mysqlwire.CapConnectWithDB
	}
	return caps
}

// logInBackend logs in at the backend. If the account's method is known, it sends the client's response to
// the backend's challenge; otherwise it names the account, and the backend responds with the method and a
// challenge. If the method is known, a client that disconnects instead of responding has not been named to
// the backend.
func (l *login) logInBackend() error {
	defer l.releaseMethod()
	if e := l.to.blocked.of(l.modes.user); e != nil {
		return fmt.Errorf("%w: %w", errDenied, l.refuse(e))
	}
	if err := l.refuseMiscounted(); err != nil {
		return err
	}
	a := authentication{login: l, plugin: unknownMethod, method: string(l.response.AuthPlugin)}
	out := l.response
	if !l.caps.Has(mysqlwire.CapPluginAuth) {
		if err := l.addAuthMethod(&out); err != nil {
			return err
		}
		a.plugin = string(out.AuthPlugin)
		a.salt = append(a.salt[:0], l.hello.AuthData...)
	} else {
		method, response, err := l.challenge(&a)
		if err != nil {
			return err
		}
		out.AuthPlugin, out.AuthResponse = []byte(method), response
	}
	// Every check that can refuse the login without the server runs before the server receives it: a login
	// that is aborted within TLS counts as a handshake error.
	if err := l.checkClearResponse(l.response.AuthPlugin, l.response.AuthResponse, l.securesBackend()); err != nil {
		return err
	}
	if len(out.AuthResponse) > 255 && !l.backendCaps().Has(mysqlwire.CapPluginAuthLenenc) {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: an authentication response of more than 255 bytes, which Tare's backend does not take"})
	}
	if err := l.secureBackend(); err != nil {
		return err
	}
	out.Capabilities = l.backendCaps()
	if l.greeted != nil && hasLeft(l.client) {
		return errClientDisconnected // before the account is named
	}
	l.greeted = nil
	l.buf = out.AppendTo(l.buf[:0])
	if err := l.backend.WriteMessage(l.buf); err != nil {
		return l.refuse(l.backendError("the login", err))
	}
	err := a.run()
	l.srv.report(l.to, l.outcome(err))
	if a.undecided {
		l.releaseMethod()
		a.finish()
	}
	if err == nil && a.shares {
		l.leaveBackend()
	}
	return err
}

// releaseMethod lets other logins of the user proceed if they wait for this one to determine the method.
func (l *login) releaseMethod() {
	if l.queriesMethod {
		l.to.methods.finish(l.modes.user)
		l.queriesMethod = false
	}
}

// outcome returns the part of a login's error that concerns the backend's health: nil if the backend decided
// the login or the client disconnected.
func (l *login) outcome(err error) error {
	if e, ok := errors.AsType[*clientError](err); ok && e.lost {
		return e
	}
	return nil
}

// challenge returns the client's response to the challenge in the backend's greeting: the one in its login if that is by
// the account's method or the method is not known, otherwise requested by the account's method. It returns unknownMethod if
// the login has none and the method is not known.
func (l *login) challenge(a *authentication) (method string, response []byte, err error) {
	if method = l.responded(); method != "" {
		if response, err = l.sized(method, l.response.AuthResponse, false); err != nil {
			return "", nil, err
		}
		a.plugin, a.proof = method, response
		a.salt = append(a.salt[:0], l.hello.AuthData...)
		return method, response, nil
	}
	if l.modes.maria && isOld(l.response.AuthPlugin) {
		return unknownMethod, nil, nil // see switchMethod
	}
	method, l.queriesMethod = l.to.methods.of(l.modes.user, time.Now().Add(responseTimeout/2)) // the remaining time is for the client
	if method != mysqlconn.PluginNative && method != mysqlconn.PluginSHA2 || len(l.hello.AuthData) != challengeLen {
		return unknownMethod, nil, nil // the greeting's challenge fits these two methods only
	}
	sw := mysqlwire.AuthSwitchRequest{Plugin: []byte(method), Data: append(bytes.Clone(l.hello.AuthData), 0)}
	a.plugin, a.method = method, method
	a.salt = append(a.salt[:0], l.hello.AuthData...)
	if err := l.client.WriteMessage(sw.AppendTo(nil)); err != nil {
		return "", nil, l.clientDisconnected(err)
	}
	l.boundResponse(method)
	p, err := l.client.ReadMessage(maxLoginPacket)
	if err != nil {
		return "", nil, l.clientDisconnected(err)
	}
	if err := l.setDeadlines(l.deadline, 0); err != nil {
		return "", nil, fmt.Errorf("set the login's deadline: %w", err)
	}
	if p, err = l.sized(method, p, false); err != nil {
		return "", nil, err
	}
	a.proof = bytes.Clone(p)
	if method == pluginSHA2 {
		a.scramble = a.proof
	}
	return method, a.proof, nil
}

const challengeLen = 20

// responded returns the method of the response in the client's login, if it is one to the greeting's challenge and the
// account is not known to use another method; otherwise "".
func (l *login) responded() string {
	method := string(l.response.AuthPlugin)
	if isNative(l.response.AuthPlugin) {
		method = mysqlconn.PluginNative
	}
	switch n := len(l.response.AuthResponse); {
	case l.switched || len(l.hello.AuthData) != challengeLen:
		return ""
	case method == mysqlconn.PluginSHA2, method == mysqlconn.PluginNative && (n <= 1 || n == challengeLen):
	default:
		return ""
	}
	known := l.to.methods.known(l.modes.user)
	if known == "" || known == method || known == oldPassword && method == mysqlconn.PluginNative {
		return method // MariaDB decides by this method whether secure_auth forbids the old one
	}
	return ""
}

// boundResponse sets a deadline for a response that needs no person, if a connection to the backend is reserved for it. The server's
// time limit for a login starts with its greeting.
func (l *login) boundResponse(method string) {
	l.asked = time.Now()
	t := l.asked.Add(responseTimeout)
	if g := l.greeted; g != nil {
		t = g.responseDeadline()
	}
	if l.backend == nil || !provesWithoutSecret(method) || !l.deadline.IsZero() && t.After(l.deadline) {
		return
	}
	_ = l.client.SetReadDeadline(t)
	l.wake(l.occurred())
}

// recycleBackend returns the backend connection of a failed login to the spares if nothing was sent on it:
// closing it would count against the gateway's address.
func (l *login) recycleBackend() {
	switch {
	case l.backend == nil:
	case l.greeted != nil:
		l.srv.ids.remove(l.connID, &l.shown)
		l.to.spares.put(l.greeted)
		l.greeted = nil
		l.setBackend(nil)
	}
}

// errForgotten reports that the password of a session's user is no longer known. The session is closed, so that its client connects
// again and is passed through.
var errForgotten = errors.New("the user's password is no longer known: connect again")

// poolAccount returns the password of the session's user, and the account if it was learned.
func (s *session) poolAccount() (password string, learned *pool.Account, err error) {
	if password, ok := s.srv.opts.Pool.listed(s.modes.user); ok {
		return password, nil, nil
	}
	if s.srv.learned == nil {
		return "", nil, fmt.Errorf("user %q is no longer in the file of accounts (option pool-accounts)", s.modes.user)
	}
	if learned = s.srv.learned.Of(s.modes.user); learned == nil {
		return "", nil, errForgotten
	}
	return learned.Password(), learned, nil
}

// logInOn logs in at a server for sessions of a class.
func (s *session) logInOn(ctx context.Context, nc net.Conn, to *target, key class, password string, learned *pool.Account) (*mysqlconn.Client, error) {
	login := mysqlconn.Login{
		User: s.modes.user, Password: password, Charset: key.charset, MaxPacket: 1 << 30, ServerKey: to.Key,
		Capabilities: key.caps | mysqlwire.CapPluginAuth | mysqlwire.CapSecureConnection | s.caps&mysqlwire.CapPluginAuthLenenc,
	}
	login.AllowClearText = learned != nil && learned.Clear
	if key.caps>>32 == 0 { // with it, MariaDB does not read its own capabilities
		login.Capabilities |= mysqlwire.CapLongPassword
	}
	var socket net.Conn
	if key.tls {
		login.TLS, socket = to.tls.Load(), netloop.NewCollector(nc)
	} else {
		socket = netloop.NewConn(nc)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline)
	}
	return mysqlconn.LogIn(ctx, mysqlconn.NewBuffer(socket, make([]byte, backendBuffer)), login)
}

// loggedInAs records the outcome of a login with a learned password, and returns its error.
func (s *session) loggedInAs(a *pool.Account, tls bool, err error) error {
	refused, ok := errors.AsType[*mysqlconn.ServerError](err)
	switch {
	case err == nil:
		s.srv.learned.Prove(a, tls, time.Now())
	case ok && !isPassing(refused.Number):
		s.srv.learned.Forget(a, pool.Refused)
		s.srv.loginLog.log(s.srv.opts.Diag, "account forgotten: the server refuses its password", "user", a.User, "error", err)
		if s.srv.learned.Of(a.User) != nil {
			return errUsedUp
		}
		return fmt.Errorf("%w: %w", errForgotten, err)
	case !ok && !isNetwork(err): // the server requires something that the client may have, such as its key
		s.srv.learned.Doubt(a, tls)
	}
	return err
}

// errUsedUp reports that another login is required: the connection was reset to learn what that restores, and is not in the state of a
// login any more, or the account has another password.
var errUsedUp = errors.New("the connection was used up by its login")

const errnoMustChangePassword = mysqlwire.Errno(1820)

// usableAs returns err, of the first statements after a login; a is the account if it was learned. Servers may let in a client with an
// expired password, and refuse its statements.
func (s *session) usableAs(a *pool.Account, tls bool, err error) error {
	if e, ok := errors.AsType[*mysqlconn.ServerError](err); ok && a != nil && e.Number == errnoMustChangePassword {
		return s.loggedInAs(a, tls, err)
	}
	return err
}

// isNetwork reports whether an error is one of the connection.
func isNetwork(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isPassing reports whether an error of a login does not concern the account's validity.
func isPassing(number mysqlwire.Errno) bool {
	switch number {
	case mysqlwire.ErrnoTooManyConnections, mysqlwire.ErrnoTooManyUserConnections, mysqlwire.ErrnoUserLimit, mysqlwire.ErrnoServerShutdown, mysqlwire.ErrnoHostBlocked:
		return true
	}
	return false
}
