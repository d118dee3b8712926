package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A learner is a gateway that learns the accounts whose sessions share connections, in front of MySQL.
type learner struct {
	*rig
	t      *testing.T
	server *testmysql.Server
	log    *lockedBuffer
}

// startLearner starts both. The server has the account learned with the password secret.
func startLearner(t *testing.T, change func(*gateway.Options), args ...string) *learner {
	t.Helper()
	s := testmysql.StartOrSkip(t, testmysql.WithMySQL(), testmysql.WithTLS(), testmysql.WithArgs(args...))
	must(t, s.Exec("create database shop", "create table shop.t (id int auto_increment primary key, v int)",
		"create user learned identified with caching_sha2_password by '"+secret+"'", "grant all on shop.* to learned"))
	l := &learner{t: t, server: s, log: &lockedBuffer{}}
	l.rig = startGateway(t, s.Addr, func(o *gateway.Options) {
		o.Loops, o.Observers = 1, nil
		o.Diag = slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Pool = &gateway.PoolOptions{Max: 2, Min: 1, Wait: testwait.Limit, Learn: true}
		if change != nil {
			change(o)
		}
	})
	return l
}

// dial logs in through the gateway.
func (l *learner) dial(user, password string, mode mysqlconn.TLSMode) (*mysqlconn.Client, error) {
	l.t.Helper()
	return dialShared(l.t, l.addr, "shop", func(c *mysqlconn.Config) { c.User, c.Password, c.TLSMode = user, password, mode })
}

// mustDial logs in as the account learned over TLS, and executes a statement.
func (l *learner) mustDial(password string) *mysqlconn.Client {
	l.t.Helper()
	c, err := l.dial("learned", password, mysqlconn.TLSRequired)
	must(l.t, err)
	one(l.t, c, "select 1")
	return c
}

// refuses requires that the gateway refuses logins with the same error as the server.
func (l *learner) refuses(user, password string, mode mysqlconn.TLSMode) {
	l.t.Helper()
	_, direct := dialShared(l.t, l.server.Addr, "shop", func(c *mysqlconn.Config) { c.User, c.Password, c.TLSMode = user, password, mode })
	_, err := l.dial(user, password, mode)
	want, got := refusal(l.t, "directly", direct), refusal(l.t, "through Tare", err)
	if got.Number != want.Number || got.State != want.State || got.Message != want.Message {
		l.t.Errorf("error %d (%s): %s; want %d (%s): %s", got.Number, got.State, got.Message, want.Number, want.State, want.Message)
	}
}

// sharing waits until n sessions share connections, and others have one each.
func (l *learner) sharing(n, others int) {
	l.t.Helper()
	testwait.Until(l.t, fmt.Sprintf("%d sessions that share connections, and %d that do not", n, others), func() bool {
		shares, own := 0, 0
		for _, s := range l.SessionStates() {
			switch {
			case !s.Waiting:
				return false
			case s.Connection == 0:
				shares++
			default:
				own++
			}
		}
		return shares == n && own == others
	})
}

func (l *learner) known(n uint64) {
	l.t.Helper()
	if got := l.metric(l.t, "tare_pool_learned_accounts"); got != n {
		l.t.Errorf("%d accounts are known, want %d", got, n)
	}
}

func (l *learner) forgotten(reason string, n uint64) {
	l.t.Helper()
	if got := l.metric(l.t, "tare_pool_forgotten_total", reason); got != n {
		l.t.Errorf("%d accounts were forgotten because they were %s, want %d", got, reason, n)
	}
}

// closeConnections closes the connections of a user at the server, and waits until the gateway has none.
func (l *learner) closeConnections(user string) {
	l.t.Helper()
	c, err := dialShared(l.t, l.server.Addr, "", func(c *mysqlconn.Config) { c.User = testmysql.RootUser })
	must(l.t, err)
	var ids []string
	_, err = c.Query(l.t.Context(), "select id from information_schema.processlist where user = '"+user+"'", func(r mysqlwire.TextRow) error {
		ids = append(ids, string(r[0]))
		return nil
	})
	must(l.t, err)
	for _, id := range ids {
		_, err := c.Exec(l.t.Context(), "kill "+id)
		must(l.t, err)
	}
	testwait.Until(l.t, "the end of the connections", func() bool { return l.metric(l.t, "tare_pool_connections", "open", user) == 0 })
}

// TestLearnedSchemaNames logs in with a default schema in Latin, first through the server and then by the password learned.
func TestLearnedSchemaNames(t *testing.T) {
	l := startLearner(t, nil)
	must(t, l.server.Exec("create database bücher", "grant all on bücher.* to learned"))
	for n := range 3 {
		c, err := dialShared(t, l.addr, "bücher", func(c *mysqlconn.Config) {
			c.User, c.Password, c.TLSMode = "learned", secret, mysqlconn.TLSRequired
		})
		must(t, err)
		l.known(1)
		if got := one(t, c, "select database()")[0]; got != "bücher" {
			t.Errorf("login %d: %q", n, got)
		}
		must(t, c.Close())
	}
}

// TestLearned logs in clients of an account that no file has: by full authentication and by the server's cache, by the driver of Go's
// applications, with a wrong password, and after a restart of the gateway.
func TestLearned(t *testing.T) {
	l := startLearner(t, nil)
	l.refuses("learned", "wrong", mysqlconn.TLSRequired)
	l.known(0)
	cfg := l.server.Config("learned")
	cfg.Addr, cfg.Passwd, cfg.DBName, cfg.TLSConfig = l.addr, secret, "shop", "skip-verify"
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	defer db.Close()
	var conns []*sql.Conn
	for i := range 6 {
		c, err := db.Conn(t.Context())
		must(t, err)
		res, err := c.ExecContext(t.Context(), "insert into t (v) values (?)", i)
		must(t, err)
		if id, err := res.LastInsertId(); err != nil || id != int64(i+1) {
			t.Errorf("id %d, %v", id, err)
		}
		conns = append(conns, c)
	}
	l.sharing(6, 0)
	l.known(1)
	if n := l.metric(t, "tare_pool_opened_total", "learned"); n > 2 {
		t.Errorf("%d connections were opened for 6 clients", n)
	}
	l.refuses("learned", "wrong", mysqlconn.TLSRequired)
	l.refuses("learned", "", mysqlconn.TLSRequired)
	l.known(1)
	for _, c := range conns {
		c.Close()
	}
	// Another gateway has learned nothing, and the server responds from its cache.
	other := &learner{t: t, server: l.server}
	other.rig = startGateway(t, l.server.Addr, func(o *gateway.Options) {
		o.Loops, o.Pool = 1, &gateway.PoolOptions{Max: 2, Learn: true}
	})
	other.mustDial(secret)
	other.sharing(1, 0)
	other.known(1)
}

// TestLearnedWithoutTLS has clients without TLS log in: nothing is learned from them, and an account that is known otherwise serves them
// once the server has let one in without TLS.
func TestLearnedWithoutTLS(t *testing.T) {
	l := startLearner(t, func(o *gateway.Options) { o.Backend.Key = mysqlconn.ServerKey{Request: true} })
	must(t, l.server.Exec("create user secure identified with caching_sha2_password by '"+secret+"' require ssl", "grant all on shop.* to secure"))
	for range 2 { // by the client's RSA encryption, by the server's cache
		c, err := l.dial("learned", secret, mysqlconn.TLSDisabled)
		must(t, err)
		one(t, c, "select 1")
		l.sharing(0, 1)
		l.known(0)
		c.Close()
		l.sharing(0, 0)
	}
	for _, user := range []string{"learned", "secure"} {
		c, err := l.dial(user, secret, mysqlconn.TLSRequired)
		must(t, err)
		one(t, c, "select 1")
	}
	l.sharing(2, 0)
	for range 2 { // the first has the server decide
		c, err := l.dial("learned", secret, mysqlconn.TLSDisabled)
		must(t, err)
		if got := one(t, c, "show status like 'Ssl_cipher'"); got[1] != "" {
			t.Errorf("a client without TLS has a connection with %s", got[1])
		}
	}
	l.sharing(4, 0)
	for range 2 {
		l.refuses("secure", secret, mysqlconn.TLSDisabled)
	}
	l.known(2)
	l.forgotten("refused", 0)
	c, err := l.dial("secure", secret, mysqlconn.TLSRequired)
	must(t, err)
	one(t, c, "select 1")
	l.sharing(5, 0)
}

// TestLearnedPasswordChanged changes the password of an account at the server while clients are connected: they stay, the new password
// is right at once, and the old one until a client has logged in with the new one.
func TestLearnedPasswordChanged(t *testing.T) {
	l := startLearner(t, nil)
	before := l.mustDial(secret)
	must(t, l.server.Exec("alter user learned identified by 'another'"))
	l.mustDial(secret) // not asked of the server yet
	l.mustDial("another")
	l.forgotten("replaced", 1)
	l.refuses("learned", secret, mysqlconn.TLSRequired)
	l.mustDial("another")
	one(t, before, "select 1")
	l.sharing(4, 0)
	l.known(1)
}

// TestLearnedRefused requires that an account is forgotten when the server refuses a login of the gateway: sessions without a connection
// end with the server's error, and the next login is the server's decision.
func TestLearnedRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change string
		errno  mysqlwire.Errno
	}{
		"another password": {"alter user learned identified by 'another'", mysqlwire.ErrnoAccessDenied},
		"locked":           {"alter user learned account lock", 3118},
		"expired":          {"alter user learned password expire", 1862},
		"dropped":          {"drop user learned", mysqlwire.ErrnoAccessDenied},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLearner(t, nil)
			old, late := l.mustDial(secret), l.mustDial(secret)
			l.sharing(2, 0)
			must(t, l.server.Exec(c.change))
			l.closeConnections("learned")
			_, err := old.Exec(t.Context(), "select 1")
			if e := refusal(t, "a client that is connected", err); e.Number != c.errno {
				t.Errorf("error %d: %s; want %d", e.Number, e.Message, c.errno)
			}
			if _, err := old.Exec(t.Context(), "select 1"); err == nil {
				t.Error("the session of a forgotten account stays")
			}
			l.known(0)
			l.forgotten("refused", 1)
			_, err = late.Exec(t.Context(), "select 1")
			if e := refusal(t, "another one", err); e.Number != mysqlwire.ErrnoAccessDenied || !strings.Contains(e.Message, "connect again") {
				t.Errorf("error %d: %s", e.Number, e.Message)
			}
			l.refuses("learned", secret, mysqlconn.TLSRequired)
			l.forgotten("refused", 1) // the gateway has not tried again
			l.sharing(0, 0)
		})
	}
}

// TestLearnedIsProvenAgain requires that a client is passed through to the server again after SIGHUP, and after the lifetime of
// connections, which is also that of a proof.
func TestLearnedIsProvenAgain(t *testing.T) {
	t.Run("SIGHUP", func(t *testing.T) {
		l := startLearner(t, nil)
		before := l.mustDial(secret)
		l.sharing(1, 0)
		must(t, l.server.Exec("alter user learned identified by 'another'"))
		l.DoubtLearned()
		l.refuses("learned", secret, mysqlconn.TLSRequired)
		one(t, before, "select 1")
		l.mustDial("another")
		l.sharing(2, 0)
	})
	t.Run("lifetime", func(t *testing.T) {
		l := startLearner(t, func(o *gateway.Options) { o.Pool.Lifetime, o.Pool.Min = time.Nanosecond, 0 })
		l.mustDial(secret)
		must(t, l.server.Exec("alter user learned identified by 'another'"))
		l.refuses("learned", secret, mysqlconn.TLSRequired)
		l.mustDial("another")
	})
}

// TestLearnedExpiredPassword requires that a client that may change its expired password is passed through, and teaches nothing.
func TestLearnedExpiredPassword(t *testing.T) {
	l := startLearner(t, nil)
	must(t, l.server.Exec("alter user learned password expire"))
	l.refuses("learned", secret, mysqlconn.TLSRequired)
	l.known(0)
}

// TestLearnedSandbox has a server that lets in clients with an expired password, and refuses their statements other than that which sets
// another one: they see that through the gateway, which learns nothing, and forgets what it knows.
func TestLearnedSandbox(t *testing.T) {
	l := startLearner(t, nil, "--disconnect-on-expired-password=OFF")
	expired := func(addr, next string) {
		t.Helper()
		must(t, l.server.Exec("alter user learned password expire"))
		c, err := dialShared(t, addr, "", func(c *mysqlconn.Config) { c.User, c.Password, c.TLSMode = "learned", secret, mysqlconn.TLSRequired })
		must(t, err)
		_, err = c.Exec(t.Context(), "select 1")
		if e := refusal(t, "a statement", err); e.Number != 1820 {
			t.Errorf("error %d: %s", e.Number, e.Message)
		}
		l.known(0)
		for _, sql := range []string{"alter user user() identified by '" + next + "'", "select 1"} {
			_, err = c.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil })
			must(t, err)
		}
		must(t, l.server.Exec("alter user learned identified by '"+secret+"'"))
	}
	expired(l.server.Addr, "another")
	expired(l.addr, "another")
	l.mustDial(secret).Close()
	l.known(1)
	must(t, l.server.Exec("alter user learned password expire"))
	l.closeConnections("learned")
	_, err := l.dial("learned", secret, mysqlconn.TLSRequired)
	if e := refusal(t, "a login by a password that is known", err); e.Number != mysqlwire.ErrnoAccessDenied && e.Number != 1820 {
		t.Errorf("error %d: %s", e.Number, e.Message)
	}
	l.forgotten("refused", 1)
	expired(l.addr, "another")
	l.mustDial(secret)
	l.known(1)
}

// TestLearnedTwoPasswords has an account with two passwords at the server: clients log in by either one, and when the server discards one
// of them, those of the other stay.
func TestLearnedTwoPasswords(t *testing.T) {
	l := startLearner(t, nil)
	l.mustDial(secret)
	must(t, l.server.Exec("alter user learned identified by 'another' retain current password"))
	stays := l.mustDial("another")
	for range 2 {
		l.mustDial(secret)
		l.mustDial("another")
	}
	l.mustDial(secret)
	l.sharing(7, 0)
	l.forgotten("replaced", 1)
	must(t, l.server.Exec("alter user learned discard old password"))
	l.closeConnections("learned")
	one(t, stays, "select 1")
	l.forgotten("refused", 1)
	l.refuses("learned", secret, mysqlconn.TLSRequired)
	l.mustDial("another")
	l.known(1)
}

// TestLearnedChangeUser changes users of sessions that share connections.
func TestLearnedChangeUser(t *testing.T) {
	l := startLearner(t, func(o *gateway.Options) {
		o.Pool.Password = func(user string) (string, bool) { return testmysql.Password, user == testmysql.AppUser }
	})
	app := func() *mysqlconn.Client {
		c, err := dialShared(t, l.addr, "", func(c *mysqlconn.Config) { c.TLSMode = mysqlconn.TLSRequired })
		must(t, err)
		return c
	}
	if e := refusal(t, "an account that is not known", changeSharedUser(app(), "learned", secret, "", 45)); !strings.Contains(e.Message, "connect again") {
		t.Errorf("error %v", e)
	}
	l.mustDial(secret)
	c := app()
	must(t, changeSharedUser(c, "learned", secret, "shop", 45))
	if got := one(t, c, "select current_user()"); got[0] != "learned@%" {
		t.Errorf("user %s", got[0])
	}
	l.sharing(2, 0)
	if e := refusal(t, "a wrong password", changeSharedUser(c, "learned", "wrong", "shop", 45)); e.Number != mysqlwire.ErrnoAccessDenied || !strings.Contains(e.Message, "connect again") {
		t.Errorf("error %v", e)
	}
	if _, err := c.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the session stays")
	}
	must(t, changeSharedUser(app(), "learned", secret, "shop", 45))
	for range 2 {
		_ = refusal(t, "a wrong password", changeSharedUser(app(), "learned", "wrong", "shop", 45))
	}
	if e := refusal(t, "the right password after three wrong ones of other sessions", changeSharedUser(app(), "learned", secret, "shop", 45)); !strings.Contains(e.Message, "connect again") {
		t.Errorf("error %v", e)
	}
	l.mustDial(secret)
}

// TestLearnedIsSecret searches for the password in the log, the metrics and the gateway's structures.
func TestLearnedIsSecret(t *testing.T) {
	l := startLearner(t, nil)
	l.mustDial(secret)
	must(t, l.server.Exec("alter user learned identified by 'another horse'"))
	l.mustDial("another horse")
	must(t, l.server.Exec("alter user learned account lock"))
	l.closeConnections("learned")
	_, err := l.dial("learned", "another horse", mysqlconn.TLSRequired)
	_ = refusal(t, "a locked account", err)
	if got := l.log.String(); !strings.Contains(got, "account learned") || !strings.Contains(got, "account forgotten") || !strings.Contains(got, "user=learned") {
		t.Errorf("log:\n%s", got)
	}
	for what, text := range map[string]string{
		"log": l.log.String(), "gateway": fmt.Sprintf("%v %+v %#v", l.Server, l.Server, l.Server), "sessions": fmt.Sprintf("%+v", l.Busy(100, 0)),
		"error": err.Error(),
	} {
		if strings.Contains(text, "horse") {
			t.Errorf("the %s has the password:\n%s", what, text)
		}
	}
}

// TestLearnedAtShutdown requires that nothing is known after the end of the gateway.
func TestLearnedAtShutdown(t *testing.T) {
	l := startLearner(t, nil)
	l.mustDial(secret).Close()
	l.known(1)
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	l.Shutdown(ctx)
	l.known(0)
}

// TestLearnedFromLies requires that nothing is learned from a server that reports success before it refuses the login, and from a client
// that sends another password than the one it has proven to the server.
func TestLearnedFromLies(t *testing.T) {
	t.Run("server", func(t *testing.T) {
		s := testscript.NewSHA2Server(t, "tare", secret)
		s.Lies = true
		r := startGateway(t, s.Start(t), func(o *gateway.Options) {
			o.Loops, o.Pool, o.DrainTimeout = 1, &gateway.PoolOptions{Max: 2, Learn: true}, time.Second
		})
		_, err := dialShared(t, r.addr, "", func(c *mysqlconn.Config) { c.User, c.Password, c.TLSMode = "tare", secret, mysqlconn.TLSRequired })
		_ = refusal(t, "a login that the server refuses", err)
		if n := r.metric(t, "tare_pool_learned_accounts"); n != 0 {
			t.Errorf("%d accounts are known", n)
		}
	})
	t.Run("client", func(t *testing.T) {
		l := startLearner(t, nil)
		cached := func(c *mysqlconn.Config) { c.User, c.Password, c.TLSMode = "learned", secret, mysqlconn.TLSRequired }
		_, err := dialShared(t, l.server.Addr, "", cached) // the server has the password in its cache from now on
		must(t, err)
		must(t, sendsInFull(t, l.addr, "another"))
		l.known(0)
		must(t, sendsInFull(t, l.addr, secret))
		l.known(1)
	})
}

// sendsInFull logs in by the password secret as the account learned, and sends another one when it is asked for it.
func sendsInFull(t *testing.T, addr, password string) error {
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	defer nc.Close()
	c := mysqlconn.New(nc)
	must(t, c.SetDeadline(time.Now().Add(testwait.Limit)))
	p, err := c.ReadMessage(loginPacket)
	must(t, err)
	var h mysqlwire.Handshake
	must(t, h.Decode(p))
	login := mysqlwire.HandshakeResponse{
		Capabilities: basicCaps | mysqlwire.CapPluginAuth | mysqlwire.CapSSL, MaxPacket: 1 << 24, Charset: 45, User: []byte("learned"),
		AuthPlugin: []byte(mysqlconn.PluginSHA2), AuthResponse: mysqlconn.ScrambleSHA2(secret, h.AuthData),
	}
	request := mysqlwire.SSLRequest{Capabilities: login.Capabilities, MaxPacket: login.MaxPacket, Charset: login.Charset}
	must(t, c.StartTLS(t.Context(), request, &tls.Config{InsecureSkipVerify: true}))
	for out := login.AppendTo(nil); ; {
		must(t, c.WriteMessage(out))
		if p, err = c.ReadMessage(loginPacket); err != nil {
			return err
		}
		if len(p) == 2 && p[1] == mysqlwire.SHA2FastOK {
			if p, err = c.ReadMessage(loginPacket); err != nil {
				return err
			}
		}
		switch p[0] {
		case mysqlwire.MarkOK:
			return nil
		case mysqlwire.MarkEOF:
			var sw mysqlwire.AuthSwitchRequest
			must(t, sw.Decode(p))
			out = mysqlconn.ScrambleSHA2(secret, bytes.TrimSuffix(sw.Data, []byte{0}))
		case mysqlwire.MarkAuthMore:
			out = append([]byte(password), 0)
		default:
			return fmt.Errorf("packet %q", p)
		}
	}
}

// TestLearnedClear logs in by mysql_clear_password. The first client keeps its connection, because its password may be for one login;
// for the second one, the gateway logs in by the same method. The server has no results for the queries that follow.
func TestLearnedClear(t *testing.T) {
	s := testscript.NewSHA2Server(t, "tare", secret)
	s.Clear = true
	r := startGateway(t, s.Start(t), func(o *gateway.Options) {
		o.Loops, o.Pool, o.DrainTimeout = 1, &gateway.PoolOptions{Max: 2, Learn: true}, time.Second
	})
	dial := func(password string) (*mysqlconn.Client, error) {
		return dialShared(t, r.addr, "", func(c *mysqlconn.Config) {
			c.User, c.Password, c.TLSMode, c.AllowClearText = "tare", password, mysqlconn.TLSRequired, true
		})
	}
	known := func(want uint64) {
		t.Helper()
		if n := r.metric(t, "tare_pool_learned_accounts"); n != want {
			t.Errorf("%d accounts are known, want %d", n, want)
		}
	}
	_, err := dial("wrong")
	_ = refusal(t, "a wrong password", err)
	known(0)
	_, err = dial(secret)
	must(t, err)
	known(1)
	if all := r.SessionStates(); len(all) != 1 || all[0].Connection == 0 {
		t.Errorf("sessions %+v, want one with a connection", all)
	}
	before := s.Full()
	_, err = dial(secret)
	if e := refusal(t, "a login at a server that has no variables", err); !strings.Contains(e.Message, "Tare cannot connect to its backend") {
		t.Errorf("error %v", e)
	}
	if n := s.Full() - before; n != 1 {
		t.Errorf("the server has requested %d passwords for the second client, want 1", n)
	}
	known(1)
}
