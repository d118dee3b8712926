package gateway

import (
	"bytes"
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Servers count a login that they cannot decode as a handshake error of the client's address, before they
// check a password. All clients of the gateway have the gateway's address: after max_connect_errors such
// logins the server refuses every client with error 1129. The gateway therefore refuses such logins itself,
// or rewrites them to a form that the server decodes.

// oldPassword is the method of MySQL 4.0. MariaDB counts a login that names it for an account of another method.
const oldPassword = "mysql_old_password"

// isNative reports whether a client names mysql_native_password, as servers compare names.
func isNative(plugin []byte) bool { return bytes.EqualFold(plugin, []byte(mysqlconn.PluginNative)) }

// isOld reports whether a client names mysql_old_password.
func isOld(plugin []byte) bool { return bytes.EqualFold(plugin, []byte(oldPassword)) }

// sized returns an authentication response if its size is valid for the method, and refuses it otherwise:
// MariaDB would count it as a handshake error of the gateway's address. second marks a response to more than
// the method's challenge.
func (l *login) sized(plugin string, response []byte, second bool) ([]byte, error) {
	valid := true
	switch plugin {
	case mysqlconn.PluginNative:
		if len(response) == 1 { // some clients end an empty password with a NUL
			response = nil
		}
		valid = len(response) == 0 || len(response) == challengeLen
	case mysqlconn.PluginEd25519:
		valid = len(response) == signatureLen
	case mysqlconn.PluginParsec:
		valid = !second && len(response) == 0 || second && len(response) == parsecLen
	case oldPassword:
		valid = len(response) == 0 || len(response) == 8 || len(response) == 9 // 9: with a NUL
	}
	if !valid {
		return nil, l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: fmt.Sprintf("Bad handshake: %d bytes are no response of %s", len(response), plugin)})
	}
	return response, nil
}

const (
	signatureLen = 64
	parsecLen    = 32 + signatureLen // with the client's challenge
)

// filenameCollation belongs to MariaDB's character set filename, which sessions cannot use.
const filenameCollation = 17

// refuseMiscounted refuses logins that the server would count as handshake errors, and prepares the rest of the
// login.
func (l *login) refuseMiscounted() error {
	if kind := l.modes.mode.Server().Kind; kind != sqldigest.ServerMariaDB && kind != sqldigest.ServerMySQL {
		return nil
	}
	c := sqldigest.CharsetOfCollation(uint16(l.response.Charset)).String()
	if l.modes.maria && l.response.Charset == filenameCollation {
		c = "filename"
	}
	switch c {
	case "ucs2", "utf16", "utf16le", "utf32", "filename":
		return l.refuse(&clientError{errno: mysqlwire.ErrnoWrongValueForVar, msg: fmt.Sprintf(
			"Variable 'character_set_client' can't be set to the value of '%s'", c)})
	}
	// MariaDB counts a schema name that is not valid in the login's character set; in COM_INIT_DB it does
	// not.
	if l.modes.maria && l.caps.Has(mysqlwire.CapConnectWithDB) && !isPlain(l.response.Database) {
		l.schemaLater = append([]byte(nil), l.response.Database...)
		l.response.Database = nil
	}
	return nil
}

// useSchema selects the schema of a login that was forwarded without it, and returns the response.
func (a *authentication) useSchema() ([]byte, error) {
	a.backend.Seq = 0
	if err := a.backend.WriteMessage(append([]byte{byte(mysqlwire.ComInitDB)}, a.schemaLater...)); err != nil {
		return nil, a.refuse(a.backendError("the selection of the schema", err))
	}
	p, err := a.backend.ReadMessage(maxLoginPacket)
	if err == nil && len(p) == 0 {
		err = mysqlwire.ErrShortPacket
	}
	if err != nil {
		return nil, a.refuse(a.backendError("the selection of the schema", err))
	}
	if p[0] == mysqlwire.MarkErr {
		return nil, a.failed(p)
	}
	return p, nil
}

// addAuthMethod completes the login of a client without CLIENT_PLUGIN_AUTH. Servers count such a login as a
// handshake error if the account's method is not mysql_native_password. With the flag and the method's name
// they request the account's method instead, which the gateway refuses on the client's behalf.
func (l *login) addAuthMethod(out *mysqlwire.HandshakeResponse) (err error) {
	if !l.hello.Capabilities.Has(mysqlwire.CapPluginAuth) {
		return nil
	}
	out.AuthPlugin = []byte(mysqlconn.PluginNative)
	out.AuthResponse, err = l.sized(mysqlconn.PluginNative, out.AuthResponse, false)
	return err
}

// tooOld returns the server's error for a client of an older protocol.
func (s *session) tooOld() *clientError {
	product := "MySQL"
	if s.modes.maria {
		product = "MariaDB"
	}
	return &clientError{errno: mysqlwire.ErrnoAuthNotSupported, msg: "Client does not support authentication protocol requested by server; consider upgrading " + product + " client"}
}

// readableChange returns a COM_CHANGE_USER that the server does not count as an error, and the capabilities
// it is encoded by. A response that fits no method, or a method that the account may not have, is dropped:
// the server requests it again.
func (s *session) readableChange(u mysqlwire.ChangeUser) (mysqlwire.ChangeUser, mysqlwire.Capability, error) {
	valid := len(u.AuthResponse) == 0 || len(u.AuthResponse) == challengeLen && s.caps.Has(mysqlwire.CapSecureConnection)
	switch {
	case !s.caps.Has(mysqlwire.CapPluginAuth) && !valid:
		return u, 0, s.violation(1, mysqlwire.ErrnoAuthNotSupported, s.tooOld().msg)
	case !s.caps.Has(mysqlwire.CapPluginAuth):
		u.AuthPlugin = []byte(mysqlconn.PluginNative)
	case !valid || !isNative(u.AuthPlugin):
		u.AuthPlugin, u.AuthResponse = []byte(unknownMethod), nil
	}
	return u, s.caps | mysqlwire.CapPluginAuth | mysqlwire.CapSecureConnection, nil // of the login at the server: see backendCaps
}

// Clients of the protocol from before MySQL 4.1 are health checks, such as HAProxy's "mysql-check user … pre-41": they log in
// without a password and quit. MariaDB accepts that. The gateway logs them in to the server by the present protocol, in which
// the server does not count an account of another method as a handshake error (addAuthMethod), and executes nothing for them.

// readPre41 completes the response of such a client with the fields of the login at the server.
func (l *login) readPre41() {
	l.pre41 = true
	l.response.Capabilities = l.response.Capabilities&(mysqlwire.CapConnectWithDB|mysqlwire.CapTransactions) | mysqlwire.CapProtocol41 | mysqlwire.CapLongPassword
	l.response.Charset = l.hello.Charset
}

// appendPre41 appends an OK packet as such a client reads it.
func (l *login) appendPre41(dst []byte, ok mysqlwire.OK) []byte {
	return ok.AppendTo(dst, l.caps&mysqlwire.CapTransactions)
}

// quitPre41 serves such a client until it quits.
func (s *session) quitPre41() {
	_ = s.setDeadlines(time.Now().Add(s.srv.opts.HandshakeTimeout), 0)
	s.client.Seq = 0
	p, err := s.client.ReadMessage(maxLoginPacket)
	if err == nil && (len(p) == 0 || mysqlwire.Command(p[0]) != mysqlwire.ComQuit) {
		_ = s.sendError(s.client.Seq, &clientError{
			errno: mysqlwire.ErrnoAuthNotSupported, msg: "Tare executes no commands of clients from before MySQL 4.1; upgrade the client",
		}, false)
	}
	s.backend.Seq = 0
	_ = s.backend.WriteMessage([]byte{byte(mysqlwire.ComQuit)})
}
