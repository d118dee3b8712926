package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
)

// maxLoginPacket bounds what either side may send in one packet of a login, in bytes.
const maxLoginPacket = 64 << 10

// maskedCapabilities are never agreed on, because the gateway reads what passes:
// compression would hide it, and with optional metadata a result's first byte may look
// like an OK packet's.
const maskedCapabilities = mysqlwire.CapCompress | mysqlwire.CapZstdCompression |
	mysqlwire.CapOptionalMetadata | mysqlwire.CapMariaComMulti

// knownCapabilities are the bits whose effect on the protocol the gateway knows. Bits that
// a later server invents, and the one that announces more of them, are not offered.
const knownCapabilities = mysqlwire.CapKnown &^ (maskedCapabilities | mysqlwire.CapCapabilityExtension)

// A login takes a session from an accepted socket to the first command: it connects to
// the backend, relays the backend's own challenge and the client's answer to it, and so
// keeps no password.
type login struct {
	*session
	hello  mysqlwire.Handshake
	answer mysqlwire.HandshakeResponse
	buf    []byte // payloads under construction
}

// run logs the client in. On an error that the client has not been told of, errTold is not
// in its chain.
func (l *login) run(ctx context.Context) error {
	if err := l.dial(ctx); err != nil {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoNetRead, msg: err.Error()})
	}
	if err := l.setDeadlines(time.Now().Add(l.srv.opts.HandshakeTimeout), 0); err != nil {
		return fmt.Errorf("set the login's deadline: %w", err)
	}
	if err := l.greet(); err != nil {
		return err
	}
	if err := l.readAnswer(); err != nil {
		return err
	}
	if err := l.admit(); err != nil {
		return err
	}
	if err := l.sendAnswer(); err != nil {
		return err
	}
	l.salt = append(l.salt[:0], l.hello.AuthData...)
	if err := l.authenticate(l.answer.AuthPlugin); err != nil {
		return err
	}
	l.charset, l.maxPacket = l.answer.Charset, l.answer.MaxPacket
	l.setCharset(sqldigest.CharsetOfCollation(uint16(l.answer.Charset)))
	l.unsure = !l.maria // MySQL does not tell whether its sql_mode has ANSI_QUOTES
	l.rescope()
	if err := l.clearDeadlines(0); err != nil {
		return fmt.Errorf("clear the login's deadline: %w", err)
	}
	return nil
}

func (l *login) dial(ctx context.Context) (err error) {
	if l.to, err = l.waitLogin(); err != nil {
		return err
	}
	d := net.Dialer{Timeout: l.srv.opts.ConnectTimeout}
	nc, err := d.DialContext(ctx, "tcp", l.to.Addr)
	if err != nil {
		return fmt.Errorf("Tare cannot connect to backend %s: %w", l.to.Addr, dialReason(err)) //nolint:staticcheck // a name
	}
	l.backend = mysqlconn.NewBuffer(nc, make([]byte, backendBuffer))
	l.peer.Store(l.backend)
	return nil
}

// dialReason is err without the words that repeat the address.
func dialReason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// greet relays the backend's greeting with the capabilities that can be kept.
func (l *login) greet() error {
	payload, err := l.backend.ReadMessage(maxLoginPacket)
	if err != nil {
		return l.refuse(l.backendError("its greeting", err))
	}
	if len(payload) > 0 && payload[0] == mysqlwire.MarkErr {
		_ = l.client.WriteMessage(payload) // too many connections, host blocked: its own words
		return fmt.Errorf("backend %s refused the connection: %w", l.to.Addr, errTold)
	}
	if err := l.hello.Decode(payload); err != nil {
		return l.refuse(l.backendError("its greeting", err))
	}
	l.connID = l.hello.ConnectionID
	l.maria = bytes.Contains(l.hello.ServerVersion, []byte("MariaDB"))
	l.setMode(l.mode.WithServer(sqldigest.ParseServer(string(l.hello.ServerVersion))))
	offered := l.hello.Capabilities & knownCapabilities
	if !l.hello.Capabilities.Has(mysqlwire.CapProtocol41) {
		return l.refuse(l.backendError("its greeting", errors.New("it speaks the protocol from before MySQL 4.1")))
	}
	backendTLS := l.hello.Capabilities.Has(mysqlwire.CapSSL)
	switch mode := l.to.TLS; {
	case mode == TLSMirror && !backendTLS:
		offered &^= mysqlwire.CapSSL
	case mode.required() && !backendTLS:
		return l.refuse(&clientError{errno: mysqlwire.ErrnoNetRead, msg: fmt.Sprintf(
			"Tare requires TLS to backend %s (--backend-tls %s), which does not offer it; enable TLS on the backend or use --backend-tls mirror", l.to.Addr, mode)})
	default:
		offered |= mysqlwire.CapSSL // a certificate is always at hand
	}
	out := l.hello
	out.Capabilities = offered
	l.hello.Capabilities = offered | l.hello.Capabilities&mysqlwire.CapSSL
	l.buf = out.AppendTo(l.buf[:0])
	if err := l.client.WriteMessage(l.buf); err != nil {
		return l.clientLeft(err)
	}
	l.offered = offered
	return nil
}

// readAnswer reads the client's login, through TLS where it asks for that.
func (l *login) readAnswer() error {
	payload, err := l.client.ReadExactly(maxLoginPacket)
	if err != nil {
		return l.clientLeft(err)
	}
	if mysqlwire.IsSSLRequest(payload) {
		if payload, err = l.startTLS(payload); err != nil {
			return err
		}
	}
	if err := l.answer.Decode(payload); err != nil {
		l.dismiss()
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: " + err.Error()})
	}
	if extra := l.answer.Capabilities &^ l.offered; extra&(maskedCapabilities|mysqlwire.CapSSL|mysqlwire.CapPluginAuthLenenc) != 0 {
		l.dismiss()
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: fmt.Sprintf(
			"Bad handshake: the client asks for capabilities %#x that were not offered", uint64(extra))})
	}
	l.answer.Capabilities &= l.offered
	l.caps = l.answer.Capabilities
	if l.to.TLS.required() && !l.backend.IsTLS() {
		err := l.startBackendTLS(mysqlwire.SSLRequest{Capabilities: l.caps, MaxPacket: l.answer.MaxPacket, Charset: l.answer.Charset})
		if err != nil {
			return err
		}
	}
	l.user = append(l.user[:0], l.answer.User...)
	l.schema = l.schema[:0]
	if l.caps.Has(mysqlwire.CapConnectWithDB) {
		l.schema = append(l.schema, l.answer.Database...)
	}
	return nil
}

// startTLS answers the client's SSLRequest: TLS is put on the legs that are to have it,
// the backend's first, and the login is read through it.
func (l *login) startTLS(request []byte) ([]byte, error) {
	var r mysqlwire.SSLRequest
	if err := r.Decode(request); err != nil {
		l.dismiss()
		return nil, l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: " + err.Error()})
	}
	if !l.offered.Has(mysqlwire.CapSSL) {
		l.dismiss()
		return nil, l.refuse(&clientError{
			errno: mysqlwire.ErrnoHandshake,
			msg:   "Bad handshake: TLS was not offered, because the backend has none",
		})
	}
	if mode := l.to.TLS; mode != TLSOff {
		if err := l.startBackendTLS(r); err != nil {
			return nil, err
		}
	}
	conn := tls.Server(l.client.Socket(), l.srv.clientTLS)
	if err := conn.Handshake(); err != nil {
		return nil, l.clientLeft(fmt.Errorf("TLS handshake: %w", err))
	}
	l.client.Upgrade(conn)
	payload, err := l.client.ReadMessage(maxLoginPacket)
	if err != nil {
		return nil, l.clientLeft(err)
	}
	return payload, nil
}

// startBackendTLS asks the backend for TLS. The capabilities must be those of the login
// that follows: MariaDB reads the login by them.
func (l *login) startBackendTLS(r mysqlwire.SSLRequest) error {
	r.Capabilities = r.Capabilities&l.offered | mysqlwire.CapSSL
	if err := l.backend.StartTLS(l.srv.ctx, r, l.to.tls); err != nil {
		return l.refuse(l.backendError("the TLS handshake", err))
	}
	return nil
}

// admit counts the connection against its user's limit.
func (l *login) admit() error {
	if l.srv.users.enter(string(l.user)) {
		l.entered = true
		return nil
	}
	l.dismiss()
	return l.refuse(&clientError{errno: mysqlwire.ErrnoTooManyUserConnections, msg: fmt.Sprintf(
		"User '%s' already has more than %d active connections through Tare (--max-user-connections)",
		l.user, l.srv.opts.MaxUserConnections)})
}

// sendAnswer passes the client's login to the backend, with the capabilities that the
// backend offered and the TLS bit of its own leg.
func (l *login) sendAnswer() error {
	out := l.answer
	out.Capabilities &^= mysqlwire.CapSSL
	if l.backend.IsTLS() {
		out.Capabilities |= mysqlwire.CapSSL
	}
	if err := l.checkClearAnswer(out.AuthPlugin, out.AuthResponse); err != nil {
		l.dismiss()
		return err
	}
	l.buf = out.AppendTo(l.buf[:0])
	if err := l.backend.WriteMessage(l.buf); err != nil {
		return l.refuse(l.backendError("the login", err))
	}
	return nil
}

// dismiss ends the backend's side of a login that the client will not finish. A server
// counts a peer that leaves before it answered against the peer's address and in the end
// blocks it, which would be the gateway's own: so it is answered, with a user that no
// server has.
func (l *login) dismiss() {
	if l.backend == nil || l.hello.ProtocolVersion == 0 {
		return
	}
	out := mysqlwire.HandshakeResponse{
		Capabilities: l.offered & (mysqlwire.CapProtocol41 | mysqlwire.CapLongPassword |
			mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth),
		MaxPacket: 1 << 24, Charset: l.hello.Charset,
		User: []byte("tare-client-left"), AuthPlugin: []byte("mysql_native_password"),
	}
	if l.backend.IsTLS() {
		out.Capabilities |= mysqlwire.CapSSL
	}
	_ = l.backend.SetDeadline(time.Now().Add(time.Second))
	if l.backend.WriteMessage(out.AppendTo(l.buf[:0])) == nil {
		_, _ = l.backend.ReadMessage(maxLoginPacket)
	}
}

// clientLeft is the end of a login in which the client did not answer.
func (l *login) clientLeft(err error) error {
	l.dismiss()
	if isTimeout(err) {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: fmt.Sprintf(
			"Bad handshake: no login within %v (--handshake-timeout)", l.srv.opts.HandshakeTimeout)})
	}
	if errors.Is(err, mysqlconn.ErrSequence) || errors.Is(err, mysqlconn.ErrTooLarge) {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: " + err.Error()})
	}
	if errors.Is(err, io.EOF) {
		return errClientLeft
	}
	return fmt.Errorf("%w: %w", errClientLeft, err)
}

// backendError tells the client what went wrong at the backend.
func (l *login) backendError(doing string, err error) *clientError {
	if isTimeout(err) {
		err = fmt.Errorf("no answer within %v (--handshake-timeout)", l.srv.opts.HandshakeTimeout)
	} else if errors.Is(err, io.EOF) {
		err = errors.New("it closed the connection")
	}
	return &clientError{errno: mysqlwire.ErrnoNetRead, msg: fmt.Sprintf(
		"Tare lost backend %s during %s: %v", l.to.Addr, doing, err)}
}

// refuse tells the client why there is no login.
func (l *login) refuse(e *clientError) error {
	if l.causes.Load()&(causeDrain|causeDrainLimit) != 0 {
		e = &clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress: Tare takes no new connections"}
	}
	_ = l.client.SetDeadline(time.Now().Add(time.Second))
	_ = l.sendError(l.client.Seq, e, l.offered != 0)
	return fmt.Errorf("%w: %w", e, errTold)
}
