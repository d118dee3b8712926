package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// maxLoginPacket bounds one packet of a login from either side, in bytes.
const maxLoginPacket = 64 << 10

// maskedCapabilities are never negotiated, because the gateway inspects the traffic, which compression would hide.
const maskedCapabilities = mysqlwire.CapCompress | mysqlwire.CapZstdCompression | mysqlwire.CapMariaComMulti

// knownCapabilities are the bits whose effect on the protocol the gateway knows. Bits of future servers, and
// the bit that announces them, are not offered.
const knownCapabilities = mysqlwire.CapKnown &^ (maskedCapabilities | mysqlwire.CapCapabilityExtension)

// An identity is the result of a session's login, which sets it.
type identity struct {
	number    uint64               // in this process, from 1
	offered   mysqlwire.Capability // to the client
	charset   uint8                // collation of the client's login
	maxPacket uint32               // bytes; announced by the client
	salt      []byte               // the challenge of the last login
	entered   bool                 // counted in Server.users
	pre41     bool                 // the client speaks the protocol from before MySQL 4.1

	wrongPasswords uint8 // of a session that shares connections
}

// A login takes a session from an accepted socket to the first command. It connects to the backend, relays its
// greeting with the connection id and the challenge, and the client's response, so it keeps no password.
type login struct {
	*session
	deadline      time.Time
	asked         time.Time     // the client was sent the challenge that it has to respond to
	again         bool          // it changes the user of a session that shares connections
	learned       *pool.Account // of that user, if its password was learned
	switched      bool          // another connection to the backend than the one that greeted the client is used
	compresses    bool          // the client sets CLIENT_COMPRESS, which is not offered
	queriesMethod bool          // this login determines the user's authentication method
	schemaLater   []byte        // selected after the login
	greeted       *greeted      // the backend's connection, until bytes are sent on it
	hello         mysqlwire.Handshake
	response      mysqlwire.HandshakeResponse
	buf           []byte         // payloads under construction
	own           []byte         // backing bytes of the HandshakeResponse
	clientCAs     *x509.CertPool // authorities for the client's certificate
}

// run logs the client in. An error sent to the client is a *clientError.
func (l *login) run(ctx context.Context) error {
	l.deadline = time.Now().Add(l.srv.opts.HandshakeTimeout)
	if err := l.setDeadlines(l.deadline, 0); err != nil {
		return fmt.Errorf("set the login's deadline: %w", err)
	}
	err := l.steps(ctx)
	if err != nil {
		l.recycleBackend()
		return err
	}
	l.charset, l.maxPacket = l.response.Charset, l.response.MaxPacket
	l.modes.forget() // init_connect and the server's settings may have changed them
	l.modes.rescope()
	if l.compresses && len(l.client.Buffered()) == 0 {
		l.client.AcceptCompression()
	}
	if err := l.clearDeadlines(0); err != nil {
		return fmt.Errorf("clear the login's deadline: %w", err)
	}
	return nil
}

func (l *login) steps(ctx context.Context) error {
	if err := l.greet(ctx); err != nil {
		return err
	}
	if err := l.readLogin(); err != nil {
		return err
	}
	if err := l.setDeadlines(l.deadline, 0); err != nil {
		return fmt.Errorf("set the login's deadline: %w", err)
	}
	if err := l.admit(); err != nil {
		return err
	}
	if l.srv.opts.Pool != nil {
		if password, ok := l.srv.opts.Pool.listed(l.modes.user); ok {
			return l.authenticate(password)
		}
		if proven, err := l.authenticateLearned(); proven || err != nil {
			return err
		}
		if err := l.connectOwn(ctx); err != nil {
			return err
		}
	} else if err := l.followSwitch(ctx); err != nil {
		return err
	}
	return l.logInBackend()
}

// greet connects to the backend and relays its greeting, with the capabilities that the gateway supports.
func (l *login) greet(ctx context.Context) (err error) {
	if err := l.waitLogin(); err != nil {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoServerShutdown, msg: err.Error()})
	}
	if l.srv.opts.Pool != nil {
		err = l.greetAlone(ctx)
	} else {
		err = l.connect(ctx)
	}
	if err != nil {
		return err
	}
	if l.offered, err = l.offer(l.hello.Capabilities); err != nil {
		return err
	}
	l.shown.greet(l.connID)
	out := l.hello
	out.Capabilities = l.offered
	l.buf = out.AppendTo(l.buf[:0])
	if err := l.client.WriteMessage(l.buf); err != nil {
		if isTimeout(err) { // the deadline had passed before: a greeting always fits in the socket's buffer
			l.client.Seq, l.offered = 0, 0
		}
		return l.clientDisconnected(err)
	}
	l.boundResponse("")
	return nil
}

// offer returns the subset of the backend's capabilities to offer to the client.
func (l *login) offer(backend mysqlwire.Capability) (mysqlwire.Capability, error) {
	offered := backend & knownCapabilities &^ mysqlwire.CapSSL
	if l.srv.opts.Pool != nil {
		// The client would remember the columns of statements that other connections do not have; the gateway's own statements name schemas.
		offered &^= mysqlwire.CapMariaCacheMetadata | mysqlwire.CapNoSchema
	}
	clients, mode, has := l.srv.opts.ClientTLS, l.to.TLS, backend.Has(mysqlwire.CapSSL)
	switch {
	case clients == ClientTLSOff && (has || !mode.Required()):
	case mode == mysqlconn.TLSPreferred && !has && clients.required():
		return 0, l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: fmt.Sprintf(
			"Tare requires TLS of clients (option client-tls %s) and mirrors its backend, which does not offer it; enable TLS on the backend or set option backend-tls to off", clients)})
	case mode == mysqlconn.TLSPreferred && !has:
	case mode.Required() && !has:
		return 0, l.refuse(&clientError{errno: mysqlwire.ErrnoNetRead, msg: fmt.Sprintf(
			"Tare requires TLS to its backend (option backend-tls %s), which does not offer it; enable TLS on the backend or set option backend-tls to mirror", mode)})
	default:
		offered |= mysqlwire.CapSSL // the gateway always has a certificate
	}
	return offered, nil
}

// readLogin reads the client's handshake response, through TLS if the client requests it.
func (l *login) readLogin() error {
	payload, err := l.client.ReadExactly(maxLoginPacket)
	if err != nil {
		return l.clientDisconnected(err)
	}
	if mysqlwire.IsSSLRequest(payload) {
		if payload, err = l.startTLS(payload); err != nil {
			return err
		}
	}
	l.own = append(l.own[:0], payload...) // the next read overwrites the buffer
	err = l.response.Decode(l.own)
	if errors.Is(err, mysqlwire.ErrPre41) {
		l.readPre41()
	} else if err != nil {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: " + err.Error()})
	}
	if err := l.checkClient(); err != nil {
		return err
	}
	// Capabilities that the server lacks are masked, as servers mask them themselves. A client that requires
	// zstd could not be decoded.
	if insists := l.response.Capabilities &^ l.offered & (mysqlwire.CapZstdCompression | mysqlwire.CapSSL); insists != 0 {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: fmt.Sprintf(
			"Bad handshake: the client asks for capabilities %#x that were not offered", uint64(insists))})
	}
	l.compresses = l.response.Capabilities.Has(mysqlwire.CapCompress)
	l.response.Capabilities &= l.offered
	l.agree(l.response.Capabilities)
	if !l.caps.Has(mysqlwire.CapSecureConnection) && (!l.modes.maria || len(l.response.AuthResponse) > 0) {
		return l.refuse(l.tooOld()) // servers would count it as a handshake error
	}
	schema := ""
	if l.caps.Has(mysqlwire.CapConnectWithDB) {
		schema = schemaName(l.response.Database)
	}
	l.modes.logIn(userName(l.response.User), schema)
	return nil
}

// startTLS responds to the client's SSLRequest and reads the handshake response through TLS.
func (l *login) startTLS(request []byte) ([]byte, error) {
	var r mysqlwire.SSLRequest
	if err := r.Decode(request); err != nil {
		return nil, l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: " + err.Error()})
	}
	if !l.offered.Has(mysqlwire.CapSSL) {
		return nil, l.refuse(&clientError{
			errno: mysqlwire.ErrnoHandshake,
			msg:   "Bad handshake: TLS was not offered",
		})
	}
	config := l.srv.clientTLS.Load()
	conn := tls.Server(&recordConn{Conn: l.client.Socket()}, config)
	if err := conn.Handshake(); err != nil {
		return nil, l.clientDisconnected(fmt.Errorf("TLS handshake: %w", err))
	}
	l.client.Upgrade(conn)
	l.clientCAs = config.ClientCAs
	payload, err := l.client.ReadMessage(maxLoginPacket)
	if err != nil {
		return nil, l.clientDisconnected(err)
	}
	return payload, nil
}

// admit counts the connection against its user's limit.
func (l *login) admit() error {
	if l.srv.users.acquire(l.modes.user) {
		l.entered = true
		return nil
	}
	return l.refuse(l.tooManyConnections(l.response.User))
}

// authenticateLearned authenticates a client whose login proves the password that the gateway has learned for its user. Every other
// client is to be passed through to the server: its password may have been changed there.
func (l *login) authenticateLearned() (proven bool, err error) {
	a := l.srv.learned.Admitting(l.modes.user, l.securesBackend(), time.Now())
	if a == nil || !l.caps.Has(mysqlwire.CapPluginAuth) || l.to.blocked.of(l.modes.user) != nil {
		return false, nil
	}
	plugin, response, password := string(l.response.AuthPlugin), l.response.AuthResponse, a.Password()
	if isNative(l.response.AuthPlugin) {
		plugin = mysqlconn.PluginNative
	}
	if plugin != mysqlconn.PluginNative && plugin != mysqlconn.PluginSHA2 || !proves(plugin, password, l.hello.AuthData, response) {
		return false, nil
	}
	return true, l.authenticated(plugin, password)
}

// leaveBackend has a session that has logged in to the backend share connections instead.
func (l *login) leaveBackend() {
	b := l.backend
	l.setBackend(nil)
	b.Seq = 0
	if b.SetDeadline(time.Now().Add(time.Second)) == nil && b.WriteMessage([]byte{byte(mysqlwire.ComQuit)}) == nil {
		_, _ = b.ReadMessage(maxLoginPacket) // its end: then the account's limits do not count the connection
	}
	b.Close()
	l.srv.ids.drop(l.connID, &l.shown)
	l.connected(l.shown.greeted.Load(), string(l.hello.ServerVersion))
	l.share()
}

// clientDisconnected ends a login whose client did not respond.
func (l *login) clientDisconnected(err error) error {
	if isTimeout(err) {
		limit := fmt.Sprintf("%v (option handshake-timeout)", l.srv.opts.HandshakeTimeout)
		if time.Now().Before(l.deadline) {
			limit = time.Since(l.asked).Round(time.Second).String()
		}
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: no login within " + limit})
	}
	if errors.Is(err, mysqlconn.ErrSequence) || errors.Is(err, mysqlconn.ErrTooLarge) {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: " + err.Error()})
	}
	if errors.Is(err, io.EOF) {
		return errClientDisconnected
	}
	return fmt.Errorf("%w: %w", errClientDisconnected, err)
}

// backendError returns the error for a client whose backend was lost during its login. It does not name the
// backend, because the client is not authenticated.
func (l *login) backendError(doing string, err error) *clientError {
	reason := publicReason(err)
	if isTimeout(err) {
		reason = fmt.Sprintf("no response within %v (option handshake-timeout)", l.srv.opts.HandshakeTimeout)
	} else if errors.Is(err, io.EOF) {
		reason = "it closed the connection"
	}
	return &clientError{
		errno: mysqlwire.ErrnoNetRead, msg: fmt.Sprintf("Tare lost its backend during %s: %s", doing, reason),
		detail: fmt.Errorf("backend %s: %w", l.to.Addr, err), lost: true,
	}
}

// refuse sends the client the reason for the failed login.
func (l *login) refuse(e *clientError) error {
	if l.occurred()&(causeDrain|causeDrainLimit) != 0 {
		e = &clientError{errno: mysqlwire.ErrnoServerShutdown, msg: "Server shutdown in progress: Tare takes no new connections"}
	}
	_ = l.client.SetDeadline(time.Now().Add(time.Second))
	_ = l.sendError(l.client.Seq, e, l.offered != 0 && !l.pre41)
	return e
}
