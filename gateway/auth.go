package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// maxAuthRounds bounds the packets a backend may send in one login.
const maxAuthRounds = 64

const pluginSHA2 = "caching_sha2_password"

// An authentication relays a login from the packet after the client's handshake response to the final OK or
// ERR: one backend packet, one client response, and so on. It serves logins and COM_CHANGE_USER. It
// intervenes only if exactly one of the two connections uses TLS and the method would send the password in
// clear text on the other.
type authentication struct {
	*login
	plugin      string // of the backend
	method      string // by which the client responds
	mechanism   bool   // of SASL, which sends no password
	changesUser bool   // for COM_CHANGE_USER

	pending   bool // the backend waits for a client packet
	undecided bool // the backend had not decided the login at its deadline

	// proof is the client's response to the challenge in the backend's greeting, computed by plugin; nil if
	// it was not requested. TiDB requests it a second time, and clients refuse a second switch.
	proof []byte

	// For a gateway that learns passwords: see learnFast.
	scramble []byte  // the client's response by caching_sha2_password to salt
	password *string // the one that the client has proven to the backend if that accepts the login; nil: unknown
	factors  bool    // the account has several
	shares   bool    // the backend has accepted the login, and the client is not notified yet: the session is to share connections
}

func (a *authentication) run() error {
	for range maxAuthRounds {
		p, err := a.backend.ReadMessage(maxLoginPacket)
		if err != nil && isTimeout(err) && a.occurred()&causeClientGone != 0 {
			a.finish()
			return errClientDisconnected
		}
		if err != nil {
			a.undecided = isTimeout(err)
			return a.refuse(a.backendError("authentication", err))
		}
		if len(p) == 0 {
			return a.refuse(a.backendError("authentication", mysqlwire.ErrShortPacket))
		}
		switch p[0] {
		case mysqlwire.MarkOK:
			return a.ok(p)
		case mysqlwire.MarkErr:
			return a.failed(p)
		}
		a.pending = true
		if err := a.round(p); err != nil {
			a.finish()
			return err
		}
	}
	return a.refuse(a.backendError("authentication", fmt.Errorf("no end after %d packets", maxAuthRounds)))
}

func (a *authentication) ok(p []byte) error {
	var ok mysqlwire.OK
	if err := ok.Decode(p, a.caps); err != nil {
		return a.refuse(a.backendError("authentication", err))
	}
	a.modes.setStatus(ok.Status)
	if a.proof != nil { // the server has not requested another method
		a.to.methods.learn(a.modes.user, a.plugin)
	}
	if len(a.schemaLater) > 0 {
		var err error
		if p, err = a.useSchema(); err != nil {
			return err
		}
	}
	if a.modes.isUserUnknown() {
		var err error
		if p, err = a.learnUser(p); err != nil {
			return err
		}
	}
	if a.password != nil {
		var err error
		if p, err = a.checkUsable(p); err != nil {
			return err
		}
	}
	if a.password != nil && a.learn() {
		return nil
	}
	if !a.changesUser {
		a.srv.publish(a.session)
	}
	if a.pre41 {
		p = a.appendPre41(nil, ok)
	}
	if err := a.client.WriteMessage(p); err != nil {
		return fmt.Errorf("%w: %w", errClientDisconnected, err)
	}
	return nil
}

// checkUsable forgets the client's password if the account has expired and the server lets such clients in: it refuses their statements.
// It returns the server's OK packet.
func (a *authentication) checkUsable(ok []byte) ([]byte, error) {
	ok = bytes.Clone(ok)
	err := a.internalQuery("SELECT 1")
	var r mysqlwire.Response
	for r.Begin(mysqlwire.ComQuery, a.caps, 1); err == nil; {
		n, ev, scanErr := r.Scan(a.backend.Buffered())
		if a.backend.Discard(n); ev == mysqlwire.EventDone {
			break
		}
		if err = scanErr; err == nil {
			err = a.backend.Fill()
		}
	}
	if err != nil {
		return nil, a.refuse(a.backendError("the first statement", err))
	}
	if r.Errno == uint16(errnoMustChangePassword) {
		a.password = nil
	}
	return ok, nil
}

// learnUser resolves the user that the backend has let in, and returns its OK packet.
func (a *authentication) learnUser(ok []byte) ([]byte, error) {
	ok = bytes.Clone(ok)
	a.releaseMethod() // of the name in the login
	switch tooMany, err := a.resolveUser(a.backend.Fill); {
	case err != nil:
		return nil, a.refuse(a.backendError("the query for the user's name", err))
	case tooMany != nil:
		return nil, a.refuse(tooMany)
	}
	return ok, nil
}

func (a *authentication) failed(p []byte) error {
	var e mysqlwire.Err
	if err := e.Decode(p); err != nil {
		return a.refuse(a.backendError("authentication", err))
	}
	refused := &clientError{errno: e.Number, msg: string(e.Message)}
	if e.Number == mysqlwire.ErrnoUserBlocked && !a.changesUser {
		a.to.blocked.add(a.modes.user, refused.msg)
	}
	if a.pre41 {
		_ = a.sendError(a.client.Seq, refused, false)
	} else {
		_ = a.client.WriteMessage(p)
	}
	return fmt.Errorf("%w: %w", errDenied, refused)
}

// round relays one backend packet that is neither OK nor ERR, and the client's response to it.
func (a *authentication) round(p []byte) error {
	fast, full := false, false
	switch p[0] {
	case mysqlwire.MarkEOF:
		if proven, err := a.switchMethod(p); proven || err != nil {
			return err
		}
	case mysqlwire.MarkNextFactor:
		var next mysqlwire.AuthNextFactor
		if err := next.Decode(p); err != nil {
			return a.refuse(a.backendError("authentication", err))
		}
		a.factors = true
		if err := a.startMethod(string(next.Plugin), next.Data); err != nil {
			return err
		}
	default:
		if err := a.checkMore(p); err != nil {
			return err
		}
		// Clients differ in how much of a status packet they read, so all of its forms count.
		if p[0] != mysqlwire.MarkAuthMore || a.plugin != pluginSHA2 || len(p) < 2 {
			break
		}
		full = p[1] == mysqlwire.SHA2FullAuth
		switch {
		case full && a.clientSecure() && !a.backend.IsTLS():
			return a.clearToRSA(p)
		case full && !a.clientSecure() && a.backend.IsTLS():
			return a.rsaToClear(p)
		}
		if fast = p[1] == mysqlwire.SHA2FastOK; fast && a.learns() {
			if asked, err := a.learnFast(); asked || err != nil {
				return err
			}
		}
	}
	if err := a.client.WriteMessage(p); err != nil {
		return fmt.Errorf("%w: %w", errClientDisconnected, err)
	}
	if fast {
		a.pending = false // the backend's next packet follows
		return nil
	}
	response, err := a.readClient()
	if err != nil {
		return err
	}
	if response, err = a.sized(a.plugin, response, p[0] == mysqlwire.MarkAuthMore); err != nil {
		return err
	}
	if a.learns() {
		switch {
		case full || a.plugin == mysqlconn.PluginClear && p[0] == mysqlwire.MarkEOF:
			a.setPassword(response)
		case a.plugin == pluginSHA2 && p[0] == mysqlwire.MarkEOF:
			a.scramble = bytes.Clone(response)
		}
	}
	return a.toBackend(response)
}

// switchMethod handles an AuthSwitchRequest. It reports whether the client's response to the same challenge
// was known and sent to the backend. MariaDB's secure_auth forbids mysql_old_password for clients that name
// mysql_native_password: if such a client's method was replaced, its next login names the method. Conversely, MariaDB
// refuses, and counts as a handshake error, a client that names mysql_old_password for an account of the native method.
func (a *authentication) switchMethod(p []byte) (proven bool, err error) {
	var sw mysqlwire.AuthSwitchRequest
	if err := sw.Decode(p); err != nil {
		return false, a.refuse(a.backendError("authentication", err))
	}
	plugin := string(sw.Plugin)
	if sw.Old {
		plugin = oldPassword
	}
	if proof := a.proof; proof != nil && plugin == a.plugin && bytes.Equal(bytes.TrimSuffix(sw.Data, []byte{0}), a.salt) {
		a.proof = nil
		return true, a.toBackend(proof)
	}
	named := a.response.AuthPlugin
	if a.changesUser {
		named = []byte(a.plugin)
	}
	if err := a.startMethod(plugin, sw.Data); err != nil {
		return false, err
	}
	if a.modes.maria && plugin == mysqlconn.PluginNative && isOld(named) {
		return false, a.refuse(a.tooOld())
	}
	if plugin == oldPassword && !sw.Old && isNative(named) {
		return false, a.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: the server has not checked whether it permits the account's old authentication method; connect again"})
	}
	// MariaDB requests the native method of each client that changes its user, of old ones too.
	requested := sw.Old || a.changesUser && a.modes.maria && plugin == mysqlconn.PluginNative
	if !requested && !a.caps.Has(mysqlwire.CapPluginAuth) {
		return false, a.refuse(a.tooOld())
	}
	return false, nil
}

// startMethod records the method and the challenge that the backend continues with.
func (a *authentication) startMethod(plugin string, challenge []byte) error {
	if !a.changesUser {
		a.to.methods.learn(a.modes.user, plugin)
		if a.queriesMethod {
			a.to.methods.finish(a.modes.user)
			a.queriesMethod = false
		}
	}
	a.plugin, a.method, a.scramble, a.password = plugin, plugin, nil, nil
	a.salt = append(a.salt[:0], bytes.TrimSuffix(challenge, []byte{0})...)
	if a.mechanism = plugin == pluginSASL && provesSASL(a.salt); a.mechanism {
		return nil
	}
	return a.checkClearMethod(plugin, a.backend.IsTLS())
}

// checkMore refuses a packet of the backend that is no step of the client's method if exactly one of the two connections uses
// TLS: some clients respond with their password to any packet that they do not expect.
func (a *authentication) checkMore(p []byte) error {
	if a.clientSecure() == a.backend.IsTLS() {
		return nil
	}
	switch a.method {
	case pluginSHA2:
		if a.plugin == pluginSHA2 && len(p) > 1 && p[0] == mysqlwire.MarkAuthMore &&
			(p[1] == mysqlwire.SHA2FullAuth || p[1] == mysqlwire.SHA2FastOK && len(p) == 2) {
			return nil
		}
	case pluginSASL: // its steps depend on the mechanism
		if a.mechanism {
			return nil
		}
	case "", mysqlconn.PluginNative, oldPassword, "client_ed25519": // the response is the only one
	default:
		return a.checkClearMethod(a.method, a.backend.IsTLS())
	}
	return a.refuse(&clientError{errno: mysqlwire.ErrnoAccessDenied, msg: fmt.Sprintf(
		"Tare does not pass a packet of its backend to the client that is no step of the method %s, since the client could respond with its password in clear", cmp.Or(a.method, mysqlconn.PluginNative))})
}

// readClient reads the client's next authentication packet.
func (a *authentication) readClient() ([]byte, error) {
	a.boundResponse(a.plugin)
	response, err := a.client.ReadMessage(maxLoginPacket)
	if err != nil {
		return nil, a.clientDisconnected(err)
	}
	return response, a.setDeadlines(a.deadline, 0)
}

// finish completes a login that has named the account to the backend, after the client disconnected or was
// refused.
func (a *authentication) finish() {
	a.keepReading()
	if a.pending && a.plugin == mysqlconn.PluginParsec {
		return
	}
	limit := time.Now().Add(dismissTimeout)
	if a.backend.SetDeadline(limit) != nil || a.pending && a.backend.WriteMessage(emptyResponse(a.plugin)) != nil {
		return
	}
	stop := context.AfterFunc(a.srv.ctx, func() { _ = a.backend.SetDeadline(past) }) // after the limit of a drain
	defer stop()
	if err := finishLogin(a.backend, a.plugin); isTimeout(err) && time.Now().Before(limit) && a.backend.SetDeadline(limit) == nil && a.srv.ctx.Err() == nil {
		_ = finishLogin(a.backend, a.plugin) // the earlier read was interrupted
	}
}

func (a *authentication) toBackend(p []byte) error {
	if err := a.backend.WriteMessage(p); err != nil {
		return a.refuse(a.backendError("authentication", err))
	}
	a.pending = false
	return nil
}

// clearToRSA runs full authentication by caching_sha2_password for a client with TLS and a backend without:
// the client sends its password in clear text, and the gateway forwards it encrypted with the backend's
// public key. If no key is trusted, the client is not asked for its password.
func (a *authentication) clearToRSA(p []byte) error {
	trusted := a.to.Key
	if trusted.Key == nil && !trusted.Request {
		refused := &mysqlconn.ServerKeyError{Options: trusted.Options}
		return a.refuse(&clientError{errno: mysqlwire.ErrnoAccessDenied, msg: "Tare does not pass the password to its backend: " + refused.Error()})
	}
	if err := a.client.WriteMessage(p); err != nil {
		return fmt.Errorf("%w: %w", errClientDisconnected, err)
	}
	password, err := a.readClient()
	if err != nil {
		return err
	}
	if a.learns() {
		a.setPassword(password)
	}
	secret := string(bytes.TrimSuffix(password, []byte{0}))
	clear(password)
	public := trusted.Key
	if public == nil {
		if public, err = a.requestKey(); err != nil {
			return err
		}
	}
	sealed, err := mysqlconn.EncryptPassword(secret, a.salt, public)
	if err != nil {
		return a.refuse(a.backendError("encrypting the password with its public key", err))
	}
	return a.toBackend(sealed)
}

// learns reports whether the login may show the gateway a password to learn. A client that can handle an expired password is let in by
// servers without a proof that the account is usable.
func (a *authentication) learns() bool {
	return a.srv.learned != nil && !a.changesUser && !a.factors && !a.modes.isUserUnknown() && !a.caps.Has(mysqlwire.CapExpiredPasswords)
}

// setPassword records a password that the client has sent in clear, if that was over TLS.
func (a *authentication) setPassword(clear []byte) {
	if password := string(bytes.TrimSuffix(clear, []byte{0})); a.client.IsTLS() && password != "" {
		a.password = &password
	}
}

// learnFast finds the password of a client whose scramble the backend has accepted: the one that is known already if the scramble
// proves it, otherwise the one that the client sends over TLS when it is asked for full authentication in place of the backend's
// packet. asked reports that it was: then the client expects the end of the login.
func (a *authentication) learnFast() (asked bool, err error) {
	if known := a.srv.learned.Of(a.modes.user); known != nil && proves(pluginSHA2, known.Password(), a.salt, a.scramble) {
		password := known.Password()
		a.password = &password
		return false, nil
	}
	if !a.client.IsTLS() {
		return false, nil
	}
	a.pending = false // the backend's next packet follows
	if err := a.client.WriteMessage([]byte{mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth}); err != nil {
		return true, fmt.Errorf("%w: %w", errClientDisconnected, err)
	}
	response, err := a.readClient()
	if err != nil {
		return true, err
	}
	if a.setPassword(response); a.password != nil && !proves(pluginSHA2, *a.password, a.salt, a.scramble) {
		a.password = nil
	}
	clear(response)
	return true, nil
}

// learn records the password that the backend has accepted. It reports whether the session is to share connections: not if the
// password may be for one login only.
func (a *authentication) learn() bool {
	l := a.srv.learned
	account, added := l.Learn(a.modes.user, *a.password, a.plugin == mysqlconn.PluginClear, a.backend.IsTLS(), time.Now())
	if added {
		a.srv.loginLog.log(a.srv.opts.Diag, "account learned: its clients share connections", "user", a.modes.user, "method", a.plugin)
	}
	a.shares = account != nil && a.plugin == pluginSHA2 && len(a.schemaLater) == 0
	return a.shares
}

// requestKey requests the backend's public key.
func (a *authentication) requestKey() (*rsa.PublicKey, error) {
	if err := a.toBackend([]byte{mysqlwire.SHA2RequestKey}); err != nil {
		return nil, err
	}
	reply, err := a.backend.ReadMessage(maxLoginPacket)
	var key mysqlwire.AuthMoreData
	if err == nil {
		if err = key.Decode(reply); err != nil && len(reply) > 0 && reply[0] == mysqlwire.MarkErr {
			return nil, a.failed(reply)
		}
	}
	var public *rsa.PublicKey
	if err == nil {
		a.pending = true
		public, err = mysqlconn.ParsePublicKey(key.Data)
	}
	if err != nil {
		return nil, a.refuse(a.backendError("the request for its public key", err))
	}
	return public, nil
}

// rsaToClear runs full authentication by caching_sha2_password for a client without TLS and a backend with
// TLS: the gateway responds to the client's request for a public key with its own key, and forwards the
// password inside TLS.
func (a *authentication) rsaToClear(p []byte) error {
	if err := a.client.WriteMessage(p); err != nil {
		return fmt.Errorf("%w: %w", errClientDisconnected, err)
	}
	request, err := a.readClient()
	if err != nil {
		return err
	}
	if len(request) != 1 || request[0] != mysqlwire.SHA2RequestKey {
		return a.refuse(&clientError{errno: mysqlwire.ErrnoAccessDenied, msg: "Tare connects a client without TLS to a backend with TLS: " +
			"the client must ask for the public key (server public key retrieval) or use TLS"})
	}
	var key *mysqlconn.KeyPair
	a.task.Block(func() { key, err = a.srv.keys.get() })
	if err != nil {
		return a.refuse(&clientError{errno: mysqlwire.ErrnoUnknown, msg: "Tare has no key to receive the password with: " + err.Error()})
	}
	a.buf = mysqlwire.AuthMoreData{Data: key.PublicPEM()}.AppendTo(a.buf[:0])
	if err := a.client.WriteMessage(a.buf); err != nil {
		return fmt.Errorf("%w: %w", errClientDisconnected, err)
	}
	sealed, err := a.readClient()
	if err != nil {
		return err
	}
	password, err := key.DecryptPassword(sealed, a.salt)
	if err != nil {
		return a.refuse(&clientError{errno: mysqlwire.ErrnoAccessDenied, msg: "the password is not encrypted with the key that Tare sent: " +
			"remove a server public key file from the client's configuration, or use TLS"})
	}
	return a.toBackend(append([]byte(password), 0))
}

// provesWithoutSecret reports whether a method's client sends only responses to challenges, besides the
// packets that authenticate handles itself. An eavesdropper cannot derive the secret from such responses.
// Without CLIENT_PLUGIN_AUTH the method is mysql_native_password and has no name.
func provesWithoutSecret(plugin string) bool {
	switch plugin {
	case "", "mysql_native_password", pluginSHA2, "client_ed25519", mysqlconn.PluginParsec,
		"auth_gssapi_client", "authentication_kerberos_client", pluginSASL,
		"authentication_fido_client", "authentication_webauthn_client":
		return true
	}
	return false
}

// pluginSASL is the method of LDAP accounts whose mechanism the backend names. That of PLAIN sends the password.
const pluginSASL = "authentication_ldap_sasl_client"

// provesSASL reports whether the client of a mechanism sends only responses to challenges.
func provesSASL(mechanism []byte) bool {
	switch string(mechanism) {
	case "SCRAM-SHA-1", "SCRAM-SHA-256", "GSSAPI":
		return true
	}
	return false
}

// checkClearMethod refuses methods that would send a password in clear text over the one connection without
// TLS, and methods that the gateway does not know. onTLS reports whether the backend connection uses TLS.
func (l *login) checkClearMethod(plugin string, onTLS bool) error {
	secure := l.clientSecure()
	switch {
	case secure == onTLS || provesWithoutSecret(plugin) && plugin != pluginSASL:
		return nil
	case !secure:
		return l.refuse(&clientError{errno: mysqlwire.ErrnoSecureTransport, msg: fmt.Sprintf(
			"Tare does not request a password in clear over an insecure transport (method %s); connect with TLS", plugin)})
	}
	return l.refuse(&clientError{errno: mysqlwire.ErrnoAccessDenied, msg: fmt.Sprintf(
		"Tare does not pass a password that came over TLS to its backend in clear (method %s); enable TLS on the backend's leg (option backend-tls)", plugin)})
}

// checkClearResponse does the same for a password sent with the handshake response.
func (l *login) checkClearResponse(plugin, response []byte, onTLS bool) error {
	if len(response) == 0 {
		return nil
	}
	return l.checkClearMethod(string(plugin), onTLS)
}
