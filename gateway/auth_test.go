package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// logIn calls logInOnce, and again if the driver mistook the last byte of a client_ed25519 challenge, a zero,
// for a terminator, which happens once in 256 logins: all attempts end so once in 10^14.
func logIn(ctx context.Context, cfg *mysql.Config) (user string, err error) {
	for range 6 {
		if user, err = logInOnce(ctx, cfg); !errors.Is(err, mysql.ErrMalformPkt) {
			break
		}
	}
	return user, err
}

// logInOnce opens one connection by go-sql-driver, queries the user, and closes it.
func logInOnce(ctx context.Context, cfg *mysql.Config) (user string, err error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	err = db.QueryRowContext(ctx, "select current_user()").Scan(&user)
	return user, err
}

// TestLoginMariaDB logs in directly and through the gateway, with right and wrong passwords: the outcomes
// must be identical, including error texts.
func TestLoginMariaDB(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithTLS(), testmysql.WithEd25519(),
		testmysql.WithSetup("create or replace user bare@'%'", "create or replace user secure@'%' identified by 'tare-test' require ssl"))
	g := startGateway(t, s.Addr, nil)
	for _, c := range []struct {
		name, user, password, schema string
		errno                        uint16 // 0: the login succeeds
		errnoPlain                   uint16 // without TLS; 0: the login succeeds
	}{
		{"native", testmysql.AppUser, testmysql.Password, "test", 0, 0},
		{"native, no schema", testmysql.AppUser, testmysql.Password, "", 0, 0},
		{"native, wrong password", testmysql.AppUser, "wrong", "test", 1045, 1045},
		{"native, no password", testmysql.AppUser, "", "", 1045, 1045},
		{"ed25519", testmysql.EdUser, testmysql.Password, "test", 0, 0},
		{"ed25519, wrong password", testmysql.EdUser, "wrong", "", 1045, 1045},
		{"ed25519, no password", testmysql.EdUser, "", "", 1045, 1045},
		{"account without password", "bare", "", "", 0, 0},
		{"password for an account without", "bare", "superfluous", "", 1045, 1045},
		{"account that requires TLS", "secure", testmysql.Password, "", 0, 1045},
		{"unknown account", "nobody", testmysql.Password, "", 1045, 1045},
		{"unknown schema", testmysql.AppUser, testmysql.Password, "nowhere", 1049, 1049},
		{"forbidden schema", "bare", "", "mysql", 1044, 1044},
	} {
		for _, security := range []string{"", "skip-verify"} {
			t.Run(c.name+"/tls="+security, func(t *testing.T) {
				config := func(addr string) *mysql.Config {
					cfg := mysql.NewConfig()
					cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = c.user, c.password, "tcp", addr
					cfg.DBName, cfg.TLSConfig = c.schema, security
					return cfg
				}
				wantUser, wantErr := logIn(t.Context(), config(s.Addr))
				if wantErr != nil && errorOf(wantErr) == (mysql.MySQLError{}) {
					t.Fatalf("the direct login, which the other is held against: %v", wantErr)
				}
				user, err := logIn(t.Context(), config(g.addr))
				if user != wantUser {
					t.Errorf("logged in as %q, directly as %q", user, wantUser)
				}
				want, got := errorOf(wantErr), errorOf(err)
				if got != want {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
				errno := c.errno
				if security == "" {
					errno = c.errnoPlain
				}
				if got.Number != errno || err != nil && got == (mysql.MySQLError{}) {
					t.Errorf("got %v, want error %d", err, errno)
				}
			})
		}
	}
}

// errorOf returns the server's error in err, or zero if there is none.
func errorOf(err error) mysql.MySQLError {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return *e
	}
	return mysql.MySQLError{}
}

// changeUser logs in again on a connection, with a response to no challenge, so that the server has to send
// one.
func changeUser(t *testing.T, c *mysqlconn.Client, user, password, schema string) error {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	defer func() { must(t, c.SetDeadline(time.Time{})) }()
	u := mysqlwire.ChangeUser{
		User: []byte(user), Database: []byte(schema), Charset: mysqlconn.DefaultCharset,
		AuthPlugin: []byte(mysqlconn.PluginSHA2), AuthResponse: bytes.Repeat([]byte{1}, 32),
	}
	c.Seq = 0
	must(t, c.WriteMessage(u.AppendTo(nil, c.Capabilities)))
	for {
		p, err := c.ReadMessage(1 << 16)
		must(t, err)
		switch p[0] {
		case mysqlwire.MarkOK:
			return nil
		case mysqlwire.MarkErr:
			var e mysqlwire.Err
			must(t, e.Decode(p))
			return &mysqlconn.ServerError{Number: e.Number, Message: string(e.Message)}
		}
		var sw mysqlwire.AuthSwitchRequest
		must(t, sw.Decode(p))
		var response []byte
		switch plugin := string(sw.Plugin); plugin {
		case mysqlconn.PluginNative:
			response = mysqlconn.ScrambleNative(password, sw.Data)
		case mysqlconn.PluginEd25519:
			response, err = mysqlconn.SignEd25519(password, sw.Data) // this challenge has no terminator
			must(t, err)
		default:
			t.Fatalf("asked for method %q", plugin)
		}
		must(t, c.WriteMessage(response))
	}
}

// TestChangeUserMethods changes the user to accounts of both of MariaDB's methods.
func TestChangeUserMethods(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithTLS(), testmysql.WithEd25519())
	g := startGateway(t, s.Addr, nil)
	for _, mode := range []mysqlconn.TLSMode{mysqlconn.TLSDisabled, mysqlconn.TLSRequired} {
		t.Run(mode.String(), func(t *testing.T) {
			c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
				Addr: g.addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mode,
			})
			must(t, err)
			defer c.Close()
			account := func() (subject, where string) {
				t.Helper()
				_, err := c.Query(t.Context(), "select current_user(), database()", func(r mysqlwire.TextRow) error {
					subject, where = string(r[0]), string(r[1])
					return nil
				})
				must(t, err)
				return subject, where
			}
			for _, user := range []string{testmysql.EdUser, testmysql.AppUser, testmysql.EdUser} {
				if err := changeUser(t, c, user, testmysql.Password, "test"); err != nil {
					t.Fatalf("change to %s: %v", user, err)
				}
				if subject, where := account(); subject != user+"@%" || where != "test" {
					t.Errorf("is %s in %s, want %s in test", subject, where, user)
				}
			}
			err = changeUser(t, c, testmysql.AppUser, "wrong", "")
			if e, ok := testscript.ServerError(err); !ok || e.Number != mysqlwire.ErrnoAccessDenied ||
				!strings.HasPrefix(e.Message, "Access denied for user 'app'@'127.0.0.1' (using password: YES)") {
				t.Errorf("wrong password: got %v, want MariaDB's own error 1045", err)
			}
			// MariaDB keeps the connection, with its previous user and schema.
			if subject, where := account(); subject != testmysql.EdUser+"@%" || where != "test" {
				t.Errorf("after a wrong password: %s in %s, want ed in test", subject, where)
			}
		})
	}
}

// TestChangeUserOfOldClient changes the user of a client without CLIENT_PLUGIN_AUTH, such as mysqljs, directly and through
// the gateway: MariaDB requests the native method of it again, by the same challenge.
func TestChangeUserOfOldClient(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithEd25519())
	g, shared := startGateway(t, s.Addr, nil), startPooled(t, s, 2, nil)
	for _, c := range []struct{ user, password, shared string }{
		{testmysql.AppUser, testmysql.Password, "OK"},
		{testmysql.RootUser, testmysql.Password, "OK"},
		{testmysql.AppUser, "wrong", "1045 Access denied"},
		{testmysql.EdUser, testmysql.Password, "1047 Tare does not change the user"},
		{"none", "", "1047 Tare does not change the user"},
	} {
		direct, through := changeOldClient(t, s.Addr, c.user, c.password), changeOldClient(t, g.addr, c.user, c.password)
		if !slices.Equal(direct, through) {
			t.Errorf("change to %s by %s: %q directly, %q through the gateway", c.user, c.password, direct, through)
		}
		if got := changeOldClient(t, shared.addr, c.user, c.password); len(got) != 1 || !strings.HasPrefix(got[0], c.shared) {
			t.Errorf("change to %s by %s: %q with shared connections, want %q", c.user, c.password, got, c.shared)
		}
		if last := direct[len(direct)-1]; (last == "OK") != (c.password == testmysql.Password && c.user != testmysql.EdUser) {
			t.Errorf("change to %s by %s directly: %q", c.user, c.password, direct)
		}
	}
}

// changeOldClient logs in without CLIENT_PLUGIN_AUTH, changes the user and returns the server's packets.
func changeOldClient(t *testing.T, addr, user, password string) (packets []string) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	c := mysqlconn.New(nc)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	p, err := c.ReadMessage(1 << 16)
	must(t, err)
	var h mysqlwire.Handshake
	must(t, h.Decode(p))
	challenge := bytes.Clone(h.AuthData[:challengeSize])
	const caps = mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapLongPassword
	r := mysqlwire.HandshakeResponse{
		Capabilities: caps, MaxPacket: 1 << 24, Charset: 45, User: []byte(testmysql.AppUser), AuthResponse: mysqlconn.ScrambleNative(testmysql.Password, challenge),
	}
	must(t, c.WriteMessage(r.AppendTo(nil)))
	if p, err = c.ReadMessage(1 << 16); err != nil || p[0] != mysqlwire.MarkOK {
		t.Fatalf("log in: %q, %v", p, err)
	}
	c.Seq = 0
	response := mysqlconn.ScrambleNative(password, challenge)
	u := mysqlwire.ChangeUser{User: []byte(user), AuthResponse: response, Charset: 45}
	must(t, c.WriteMessage(u.AppendTo(nil, caps)))
	for {
		p, err := c.ReadMessage(1 << 16)
		must(t, err)
		switch p[0] {
		case mysqlwire.MarkOK:
			return append(packets, "OK")
		case mysqlwire.MarkErr:
			var e mysqlwire.Err
			must(t, e.Decode(p))
			return append(packets, fmt.Sprintf("%d %s", e.Number, e.Message))
		}
		var sw mysqlwire.AuthSwitchRequest
		must(t, sw.Decode(p))
		packets = append(packets, fmt.Sprintf("switch to %s, same challenge: %t", sw.Plugin, bytes.Equal(sw.Data[:challengeSize], challenge)))
		must(t, c.WriteMessage(response))
	}
}

// An obedient client uses TLS and sends its password in clear text whenever a method requests that.
type obedient struct {
	*mysqlconn.Conn
	caps mysqlwire.Capability
}

// dialObedient logs in by the given method. The error is the server's refusal.
func dialObedient(t *testing.T, addr, plugin string, response []byte) (*obedient, error) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	c := &obedient{Conn: mysqlconn.New(nc)}
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	p, err := c.ReadMessage(1 << 16)
	must(t, err)
	var h mysqlwire.Handshake
	must(t, h.Decode(p))
	if !h.Capabilities.Has(mysqlwire.CapSSL) {
		t.Fatal("the gateway offers no TLS")
	}
	c.caps = h.Capabilities &^ mysqlwire.CapConnectWithDB
	r := mysqlwire.HandshakeResponse{
		Capabilities: c.caps, MaxPacket: 1 << 24, Charset: 45, User: []byte("app"),
		AuthPlugin: []byte(plugin), AuthResponse: response,
	}
	must(t, c.StartTLS(t.Context(), mysqlwire.SSLRequest{Capabilities: c.caps, MaxPacket: r.MaxPacket, Charset: r.Charset},
		&tls.Config{InsecureSkipVerify: true})) // self-signed
	must(t, c.WriteMessage(r.AppendTo(nil)))
	return c, c.obey(t)
}

// obey responds to requests until OK or ERR.
func (c *obedient) obey(t *testing.T) error {
	t.Helper()
	for {
		p, err := c.ReadMessage(1 << 16)
		must(t, err)
		switch p[0] {
		case mysqlwire.MarkOK:
			return nil
		case mysqlwire.MarkErr:
			var e mysqlwire.Err
			must(t, e.Decode(p))
			return &mysqlconn.ServerError{Number: e.Number, Message: string(e.Message)}
		}
		response := append([]byte(secret), 0)
		if bytes.HasPrefix(p, []byte("\xfecaching_sha2_password\x00")) {
			response = []byte("a scramble of thirty-two bytes..")
		}
		if bytes.Contains(p, []byte("_sasl_client\x00SCRAM-")) {
			response = []byte("n,,n=app,r=nonce")
		}
		must(t, c.WriteMessage(response))
	}
}

// asks is a scripted backend's part of a login: it sends these packets, reads one response after each, and
// then lets the client in.
func asks(c *mysqlconn.Conn, packets ...[]byte) bool {
	for _, p := range packets {
		if c.WriteMessage(p) != nil {
			return false
		}
		if _, err := c.ReadMessage(1 << 16); err != nil {
			return false
		}
	}
	return c.WriteMessage(testscript.OK()) == nil
}

// TestClearPasswords has a backend without TLS request the password of a client with TLS in every way: the
// gateway refuses, and the password does not reach the backend connection.
func TestClearPasswords(t *testing.T) {
	challenge := []byte("abcdefghijklmnopqrst\x00")
	switchTo := func(plugin string) []byte {
		return mysqlwire.AuthSwitchRequest{Plugin: []byte(plugin), Data: challenge}.AppendTo(nil)
	}
	for _, c := range []struct {
		name     string
		plugin   string // of the handshake response
		response []byte
		says     [][]byte
		method   string // in the refusal; empty: the backend's error
	}{
		{"switch to mysql_clear_password", "mysql_native_password", nil, [][]byte{switchTo("mysql_clear_password")}, "mysql_clear_password"},
		{"switch to sha256_password", "mysql_native_password", nil, [][]byte{switchTo("sha256_password")}, "sha256_password"},
		{"switch to dialog", "mysql_native_password", nil, [][]byte{switchTo("dialog")}, "dialog"},
		{"switch to a token", "mysql_native_password", nil, [][]byte{switchTo("authentication_openid_connect_client")}, "authentication_openid_connect_client"},
		{"switch to the method before 4.1", "mysql_native_password", nil, [][]byte{{mysqlwire.MarkEOF}}, "mysql_old_password"},
		{"in the login", "mysql_clear_password", []byte(secret), nil, "mysql_clear_password"},
		{"as a second factor", "mysql_native_password", []byte("scramble of 20 bytes"), [][]byte{
			mysqlwire.AuthNextFactor{Plugin: []byte("mysql_clear_password"), Data: challenge}.AppendTo(nil),
		}, "mysql_clear_password"},
		{"full authentication with a long status", "mysql_native_password", nil, [][]byte{
			switchTo("caching_sha2_password"), {mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth, 0}, {mysqlwire.MarkAuthMore, 'n', 'o'},
		}, ""},

		// Clients take such packets for a request of the password.
		{"a key that was not requested", "caching_sha2_password", []byte("a scramble of thirty-two bytes.."), [][]byte{[]byte("\x01-----BEGIN PUBLIC KEY-----")}, ""},
		{"full authentication without its mark", "caching_sha2_password", []byte("a scramble of thirty-two bytes.."), [][]byte{{mysqlwire.SHA2FullAuth}}, ""},
		{"fast authentication with a tail", "caching_sha2_password", nil, [][]byte{
			switchTo("caching_sha2_password"), {mysqlwire.MarkAuthMore, mysqlwire.SHA2FastOK, 0}, {mysqlwire.MarkAuthMore, 'n', 'o'},
		}, ""},
		{"full authentication by another method", "mysql_native_password", []byte("scramble of 20 bytes"), [][]byte{{mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth}}, ""},
		{"full authentication before a method", "client_ed25519", nil, [][]byte{{mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth}}, ""},
		{"switch to SASL's PLAIN", "mysql_native_password", nil, [][]byte{saslSwitch("PLAIN"), {mysqlwire.MarkAuthMore, 'n', 'o'}}, "authentication_ldap_sasl_client"},
		{"switch to SASL's LOGIN", "mysql_native_password", nil, [][]byte{saslSwitch("LOGIN")}, "authentication_ldap_sasl_client"},
		{"SASL's PLAIN by the client's choice", "authentication_ldap_sasl_client", nil, [][]byte{[]byte("\x01PLAIN")}, ""},
		{"SASL in the login", "authentication_ldap_sasl_client", []byte(secret), nil, "authentication_ldap_sasl_client"},
		{"SASL's SCRAM, then PLAIN", "mysql_native_password", nil, [][]byte{saslSwitch("SCRAM-SHA-1\x00"), saslSwitch("PLAIN\x00")}, "authentication_ldap_sasl_client"},
		{"a request to a method in clear", "mysql_clear_password", nil, [][]byte{{mysqlwire.MarkAuthMore, 'n', 'o'}}, "mysql_clear_password"},
	} {
		t.Run(c.name, func(t *testing.T) {
			back := startWiretap(t, testscript.Start(t, func(_ int, b *mysqlconn.Conn) {
				if b.WriteMessage(testscript.Greeting()) != nil {
					return
				}
				if _, err := b.ReadMessage(1 << 16); err != nil {
					return
				}
				asks(b, c.says...)
			}))
			g := startGateway(t, back.addr, func(o *gateway.Options) {
				o.Backend.TLS, o.Backend.Key.Request = mysqlconn.TLSDisabled, true
				o.DrainTimeout = 100 * time.Millisecond // the gateway lets the backend finish the login, which one does not
			})
			_, err := dialObedient(t, g.addr, c.plugin, c.response)
			e, ok := testscript.ServerError(err)
			switch {
			case !ok:
				t.Errorf("got %v, want a refusal", err)
			case c.method != "" && (e.Number != mysqlwire.ErrnoAccessDenied || !strings.Contains(e.Message, "in clear (method "+c.method+"); enable TLS on the backend's leg (option backend-tls)")):
				t.Errorf("got %v, want error 1045 that names %s and says what to do", err, c.method)
			}
			if sent, received := back.take(); bytes.Contains(sent, []byte(secret)) || len(received) == 0 {
				t.Errorf("the backend's leg shows the password, or nothing: %q", sent)
			}
		})
	}
}

// TestClearPasswordOnChangeUser does the same on a connection that is logged in.
func TestClearPasswordOnChangeUser(t *testing.T) {
	for _, c := range []struct {
		name, plugin string
		response     []byte
	}{
		{"the backend asks", "mysql_native_password", nil},
		{"the client sends it unasked", "mysql_clear_password", []byte(secret)},
	} {
		t.Run(c.name, func(t *testing.T) {
			back := startWiretap(t, testscript.Start(t, func(_ int, b *mysqlconn.Conn) {
				if testscript.Login(b) && testscript.Command(b) != nil {
					asks(b, mysqlwire.AuthSwitchRequest{Plugin: []byte("mysql_clear_password")}.AppendTo(nil))
				}
			}))
			g := startGateway(t, back.addr, func(o *gateway.Options) { o.Backend.TLS = mysqlconn.TLSDisabled })
			client, err := dialObedient(t, g.addr, "mysql_native_password", nil)
			must(t, err)
			u := mysqlwire.ChangeUser{User: []byte("other"), AuthPlugin: []byte(c.plugin), AuthResponse: c.response, Charset: 45}
			client.Seq = 0
			must(t, client.WriteMessage(u.AppendTo(nil, client.caps)))
			err = client.obey(t)
			if e, ok := testscript.ServerError(err); !ok || e.Number != mysqlwire.ErrnoAccessDenied || !strings.Contains(e.Message, "in clear (method mysql_clear_password)") {
				t.Errorf("got %v, want error 1045 that names the method", err)
			}
			if sent, received := back.take(); bytes.Contains(sent, []byte(secret)) || len(received) == 0 {
				t.Errorf("the backend's leg shows the password, or nothing: %q", sent)
			}
		})
	}
}

// TestClearPasswordsBesideAPool has a backend request the password of a client with TLS that does not share connections, whose
// method the gateway does not know yet.
func TestClearPasswordsBesideAPool(t *testing.T) {
	for _, request := range []string{"\x01\x04", "\x04", "\x01-----BEGIN PUBLIC KEY-----", "\x01\x03x"} {
		back := startWiretap(t, testscript.Start(t, func(_ int, b *mysqlconn.Conn) {
			if b.WriteMessage(testscript.Greeting()) != nil {
				return
			}
			if _, err := b.ReadMessage(1 << 16); err == nil {
				asks(b, []byte(request))
			}
		}))
		g := startGateway(t, back.addr, func(o *gateway.Options) {
			o.Backend.TLS = mysqlconn.TLSDisabled
			o.Pool = &gateway.PoolOptions{Max: 1, Password: func(string) (string, bool) { return "", false }}
			o.DrainTimeout = 100 * time.Millisecond
		})
		_, err := dialObedient(t, g.addr, "caching_sha2_password", []byte("a scramble of thirty-two bytes.."))
		if _, ok := testscript.ServerError(err); !ok {
			t.Errorf("%q: got %v, want a refusal", request, err)
		}
		if sent, received := back.take(); bytes.Contains(sent, []byte(secret)) || len(received) == 0 {
			t.Errorf("%q: the backend's leg shows the password, or nothing: %q", request, sent)
		}
	}
}

// TestTransactionsEndWithLogins opens a transaction after COM_CHANGE_USER and COM_RESET_CONNECTION have
// rolled one back: it gets another number.
func TestTransactionsEndWithLogins(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	begin := func(i int) uint64 {
		_, err := testscript.Exec(t, c, "start transaction")
		must(t, err)
		r, _, _ := g.records.wait(t, i)
		return r.TransactionID
	}
	first := begin(0)
	must(t, changeUser(t, c, testmysql.AppUser, testmysql.Password, s.Name))
	second := begin(1)
	command(t, c, []byte{byte(mysqlwire.ComResetConnection)}, func([]byte) bool { return true })
	third := begin(2)
	if first == 0 || second == first || third == second {
		t.Errorf("transactions are numbered %d, %d, %d; want three numbers", first, second, third)
	}
}

// A lockedBuffer is written to by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestLogsHoldNoPasswords logs in by every method, with right and wrong passwords, with both logs at their
// most verbose level, and searches the logs for the passwords.
func TestLogsHoldNoPasswords(t *testing.T) {
	testmysql.SkipIfOff(t)
	var diag, queries lockedBuffer
	var gateways []*rig
	log, err := querylog.New(querylog.Options{
		RingBytes: -1, OriginalText: true, Sinks: []querylog.SinkOptions{{Name: "test", Writer: &queries}},
	})
	must(t, err)
	talkative := func(mode mysqlconn.TLSMode) func(*gateway.Options) {
		return func(o *gateway.Options) {
			o.Backend.TLS, o.Backend.Key.Request, o.ClientTLS, o.Log = mode, true, gateway.ClientTLSPreferred, log
			o.Diag = slog.New(slog.NewTextHandler(&diag, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
	}
	start := func(backend string, mode mysqlconn.TLSMode) *rig {
		g := startGateway(t, backend, talkative(mode))
		gateways = append(gateways, g)
		return g
	}
	const wrong = "wr0ng-but-secret-all-the-same"

	s := testmysql.Start(t, testmysql.WithTLS(), testmysql.WithEd25519())
	g := start(s.Addr, mysqlconn.TLSPreferred)
	for _, user := range []string{testmysql.AppUser, testmysql.EdUser} {
		for _, security := range []string{"", "skip-verify"} {
			for _, password := range []string{testmysql.Password, wrong} {
				cfg := mysql.NewConfig()
				cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.TLSConfig = user, password, "tcp", g.addr, security
				if _, err := logIn(t.Context(), cfg); (err == nil) != (password == testmysql.Password) {
					t.Fatalf("user %s, password %s, tls %q: %v", user, password, security, err)
				}
			}
		}
	}
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: g.addr, User: testmysql.AppUser, Password: testmysql.Password})
	must(t, err)
	must(t, changeUser(t, c, testmysql.EdUser, testmysql.Password, ""))
	if changeUser(t, c, testmysql.AppUser, wrong, "") == nil {
		t.Error("the wrong password is right")
	}
	c.Close()

	sha2 := testscript.NewSHA2Server(t, "tare", secret)
	for _, mode := range []mysqlconn.TLSMode{mysqlconn.TLSPreferred, mysqlconn.TLSDisabled, mysqlconn.TLSRequired} {
		for _, security := range []mysqlconn.TLSMode{mysqlconn.TLSDisabled, mysqlconn.TLSRequired} {
			g := start(sha2.Start(t), mode)
			for _, login := range pingers(g.addr, security) {
				must(t, login(t.Context(), secret))
				if login(t.Context(), wrong) == nil {
					t.Error("the wrong password is right")
				}
			}
		}
	}
	g = start(testscript.Start(t, func(_ int, b *mysqlconn.Conn) { testscript.Serve(b) }), mysqlconn.TLSDisabled)
	if _, err := dialObedient(t, g.addr, "mysql_clear_password", []byte(secret)); err == nil {
		t.Error("a password in clear was passed on")
	}

	for _, g := range gateways {
		g.Shutdown(t.Context())
	}
	must(t, log.Close(t.Context()))
	for _, want := range []struct{ log, text, holds string }{
		{"diagnostics", diag.String(), "login failed"},
		{"diagnostics", diag.String(), "in clear (method mysql_clear_password)"},
		{"query log", queries.String(), "current_user()"},
	} {
		if !strings.Contains(want.text, want.holds) {
			t.Errorf("the %s does not say %q: the test looks at nothing", want.log, want.holds)
		}
	}
	text := diag.String() + queries.String()
	for _, password := range []string{testmysql.Password, wrong, secret} {
		for _, form := range []string{password, hex.EncodeToString([]byte(password)), base64.StdEncoding.EncodeToString([]byte(password))} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("a log holds the password %q:\n%s", form, text[max(0, i-200):min(len(text), i+200)])
			}
		}
	}
}
