package testscript

import (
	"bytes"
	"crypto/tls"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A SHA2Server lets one user in by caching_sha2_password, as MySQL does: by the whole password, over TLS or encrypted
// with the server's key, until a login has cached its hash. It responds to every command with OK.
type SHA2Server struct {
	User, Password string // not empty
	Certificate    tls.Certificate
	Key            *mysqlconn.KeyPair

	Clear bool // it requests the password by mysql_clear_password, and has session tracking
	Lies  bool // it reports that its cache has the password, whatever the response is, and then refuses the login

	cached atomic.Bool
	full   atomic.Int64
}

// NewSHA2Server returns a server with a new certificate and a new key.
func NewSHA2Server(t testing.TB, user, password string) *SHA2Server {
	t.Helper()
	certificate, err := mysqlconn.SelfSignedCertificate()
	if err != nil {
		t.Fatal(err)
	}
	key, err := mysqlconn.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	return &SHA2Server{User: user, Password: password, Certificate: certificate, Key: key}
}

// Start serves until the test ends, with an empty cache.
func (s *SHA2Server) Start(t testing.TB) (addr string) {
	t.Helper()
	s.cached.Store(false)
	return Start(t, func(_ int, c *mysqlconn.Conn) { s.serve(c) })
}

// Full returns the number of passwords that were requested.
func (s *SHA2Server) Full() int64 { return s.full.Load() }

func (s *SHA2Server) serve(c *mysqlconn.Conn) {
	var more []mysqlwire.Capability
	if s.Clear {
		more = append(more, mysqlwire.CapSessionTrack)
	}
	p, ok := greet(c, mysqlconn.PluginSHA2, &s.Certificate, more...)
	var login mysqlwire.HandshakeResponse
	if !ok || login.Decode(p) != nil {
		return
	}
	user, response := string(login.User), bytes.Clone(login.AuthResponse)
	if string(login.AuthPlugin) != mysqlconn.PluginSHA2 {
		response, ok = round(c, mysqlwire.AuthSwitchRequest{Plugin: []byte(mysqlconn.PluginSHA2), Data: []byte(greeted + "\x00")}.AppendTo(nil))
	}
	if !ok || user != s.User || !s.authenticate(c, response) {
		_ = refuse(c, "Access denied for user '"+user+"'")
		return
	}
	if c.WriteMessage(OK()) == nil {
		respond(c)
	}
}

// authenticate reports whether the client knows the password.
func (s *SHA2Server) authenticate(c *mysqlconn.Conn, response []byte) bool {
	switch {
	case s.Clear:
		p, ok := round(c, mysqlwire.AuthSwitchRequest{Plugin: []byte(mysqlconn.PluginClear)}.AppendTo(nil))
		s.full.Add(1)
		return ok && string(p) == s.Password+"\x00"
	case s.Lies:
		_ = c.WriteMessage([]byte{mysqlwire.MarkAuthMore, mysqlwire.SHA2FastOK})
		return false
	case len(response) == 0:
		return false
	}
	if s.cached.Load() && bytes.Equal(response, mysqlconn.ScrambleSHA2(s.Password, []byte(greeted))) {
		return c.WriteMessage([]byte{mysqlwire.MarkAuthMore, mysqlwire.SHA2FastOK}) == nil
	}
	s.full.Add(1)
	p, ok := round(c, []byte{mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth})
	if !ok {
		return false
	}
	password, terminated := bytes.CutSuffix(p, []byte{0})
	if !c.IsTLS() {
		if len(p) == 1 && p[0] == mysqlwire.SHA2RequestKey {
			if p, ok = round(c, mysqlwire.AuthMoreData{Data: s.Key.PublicPEM()}.AppendTo(nil)); !ok {
				return false
			}
		}
		text, err := s.Key.DecryptPassword(p, []byte(greeted))
		password, terminated = []byte(text), err == nil
	}
	right := terminated && string(password) == s.Password
	if right {
		s.cached.Store(true)
	}
	return right
}
