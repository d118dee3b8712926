package mysqlconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// dial connects and closes when the test ends.
func dial(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// scalar runs a query and returns its single value.
func scalar(t *testing.T, c *Client, sql string) string {
	t.Helper()
	var values []string
	if _, err := c.Query(t.Context(), sql, func(row mysqlwire.TextRow) error {
		values = append(values, string(row[0]))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(values) != 1 {
		t.Fatalf("%s: %d rows", sql, len(values))
	}
	return values[0]
}

func TestLoginMariaDB(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithTLS(), testmysql.WithEd25519(),
		testmysql.WithSetup("CREATE OR REPLACE USER nopass@'%'", "CREATE OR REPLACE USER tlsonly@'%' IDENTIFIED BY 'x' REQUIRE SSL"))
	tcp := Config{Addr: s.Addr, Password: testmysql.Password, User: testmysql.AppUser}
	with := func(change func(*Config)) Config {
		c := tcp
		change(&c)
		return c
	}
	for _, c := range []struct {
		name string
		cfg  Config
		user string
		tls  bool
	}{
		{"native", with(func(c *Config) { c.TLSMode = TLSDisabled }), "app@%", false},
		{"native by TLS", tcp, "app@%", true},
		{"ed25519", with(func(c *Config) { c.User = testmysql.EdUser; c.TLSMode = TLSDisabled }), "ed@%", false},
		{"ed25519 by TLS", with(func(c *Config) { c.User = testmysql.EdUser; c.TLSMode = TLSRequired }), "ed@%", true},
		{"no password", with(func(c *Config) { c.User = "nopass"; c.Password = "" }), "nopass@%", true},
		{"required by the account", with(func(c *Config) { c.User = "tlsonly"; c.Password = "x" }), "tlsonly@%", true},
		{"verify-ca", with(func(c *Config) { c.TLSMode = TLSVerifyCA; c.TLS = &tls.Config{RootCAs: s.CA} }), "app@%", true},
		{"verify-identity", with(func(c *Config) { c.TLSMode = TLSVerifyIdentity; c.TLS = &tls.Config{RootCAs: s.CA} }), "app@%", true},
		{"another name, verify-ca", with(func(c *Config) {
			c.TLSMode, c.TLS = TLSVerifyCA, &tls.Config{RootCAs: s.CA, ServerName: "db.example"}
		}), "app@%", true},
		{"unix socket", with(func(c *Config) { c.Network, c.Addr = "unix", s.Socket }), "app@%", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, c.cfg)
			if got := scalar(t, conn, "SELECT CURRENT_USER()"); got != c.user {
				t.Errorf("logged in as %s, want %s", got, c.user)
			}
			if conn.IsTLS() != c.tls {
				t.Errorf("tls is %t, want %t", conn.IsTLS(), c.tls)
			}
			if cipher := scalar(t, conn, "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME='Ssl_cipher'"); (cipher != "") != c.tls {
				t.Errorf("the server says cipher %q", cipher)
			}
			if id := scalar(t, conn, "SELECT CONNECTION_ID()"); id != fmt.Sprint(conn.ConnectionID) {
				t.Errorf("connection id %d, the server says %s", conn.ConnectionID, id)
			}
		})
	}
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"wrong password", with(func(c *Config) { c.Password = "wrong" }), "server error 1045 (28000): Access denied"},
		{"wrong password, ed25519", with(func(c *Config) { c.User, c.Password = testmysql.EdUser, "wrong" }), "server error 1045 (28000): Access denied"},
		{"plain, account wants TLS", with(func(c *Config) { c.User, c.Password, c.TLSMode = "tlsonly", "x", TLSDisabled }), "server error 1045 (28000): Access denied"},
		{"unknown database", with(func(c *Config) { c.Database = "nowhere" }), "server error 1049 (42000): Unknown database"},
		{"unknown authority, verify-ca", with(func(c *Config) { c.TLSMode = TLSVerifyCA }), "tls handshake: verify the server's certificate: x509"},
		{"unknown authority, verify-identity", with(func(c *Config) { c.TLSMode = TLSVerifyIdentity }), "tls handshake: tls: failed to verify certificate: x509"},
		{"another name, verify-identity", with(func(c *Config) {
			c.TLSMode, c.TLS = TLSVerifyIdentity, &tls.Config{RootCAs: s.CA, ServerName: "db.example"}
		}), "tls handshake: tls: failed to verify certificate: x509"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := Dial(t.Context(), c.cfg)
			if err == nil {
				_ = conn.Close()
				t.Fatal("logged in")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), testmysql.Password) {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
}

func TestClient(t *testing.T) {
	s := testmysql.Shared(t)
	c := dial(t, Config{
		Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password, Database: s.Name,
		Capabilities: mysqlwire.CapMultiStatements | mysqlwire.CapFoundRows,
		Attributes:   map[string]string{"program_name": "client test"},
	})
	if !strings.Contains(c.ServerVersion, "MariaDB") {
		t.Errorf("server version %q", c.ServerVersion)
	}
	if got := scalar(t, c, "SELECT DATABASE()"); got != s.Name {
		t.Errorf("database %q, want %q", got, s.Name)
	}
	exec := func(sql string, want Result) {
		t.Helper()
		got, err := c.Exec(t.Context(), sql)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", sql, got, err, want)
		}
	}
	exec("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(10))", Result{})
	exec("INSERT INTO t (s) VALUES ('a'), (NULL), ('')", Result{AffectedRows: 3, LastInsertID: 1})
	exec("SELECT * FROM t", Result{Rows: 3})
	exec("SELECT * FROM t; UPDATE t SET s='b'; SELECT 1/0", Result{Rows: 4, AffectedRows: 3, Warnings: 1})

	var values []string
	if _, err := c.Query(t.Context(), "SELECT IF(id=2,NULL,''), REPEAT('x', 300) FROM t ORDER BY id", func(row mysqlwire.TextRow) error {
		values = append(values, fmt.Sprintf("%t %d", row[0] == nil, len(row[1])))
		return nil
	}); err != nil {
		t.Error(err)
	}
	if got := strings.Join(values, ", "); got != "false 300, true 300, false 300" {
		t.Errorf("rows: %s", got)
	}

	// A message of more than one packet, in both directions.
	long := strings.Repeat("x", mysqlwire.MaxPayload+100)
	if got := scalar(t, c, "SELECT '"+long+"'"); got != long {
		t.Errorf("a value of %d bytes came back with %d", len(long), len(got))
	}

	// Errors of the server, even in the middle of a result, leave the connection usable.
	for _, sql := range []string{"SELEC", "SELECT 1; SELEC", "SELECT (SELECT s FROM t x WHERE x.id < t.id) FROM t ORDER BY id"} {
		_, err := c.Exec(t.Context(), sql)
		var refused *ServerError
		if !errors.As(err, &refused) || refused.SafeToRetry() {
			t.Errorf("%s: got %v, want a ServerError that is not safe to retry", sql, err)
		}
	}
	stop := errors.New("enough")
	calls := 0
	r, err := c.Query(t.Context(), "SELECT * FROM t; SELECT * FROM t", func(mysqlwire.TextRow) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 || r.Rows != 6 {
		t.Errorf("a row function that fails: %v after %d calls and %d rows", err, calls, r.Rows)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("after errors: %v", err)
	}
}

// TestDeadlock provokes a deadlock, which is safe to retry.
func TestDeadlock(t *testing.T) {
	s := testmysql.Shared(t)
	cfg := Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password, Database: s.Name}
	a, b := dial(t, cfg), dial(t, cfg)
	run := func(c *Client, sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run(a, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	run(a, "INSERT INTO t VALUES (1, 0), (2, 0)")
	run(a, "BEGIN")
	run(b, "BEGIN")
	run(a, "UPDATE t SET n=1 WHERE id=1")
	run(b, "UPDATE t SET n=1 WHERE id=2")
	waiting := make(chan error)
	go func() {
		_, err := a.Exec(t.Context(), "UPDATE t SET n=1 WHERE id=2")
		waiting <- err
	}()
	_, err := b.Exec(t.Context(), "UPDATE t SET n=1 WHERE id=1")
	err = errors.Join(err, <-waiting)
	var refused *ServerError
	if !errors.As(err, &refused) || refused.Number != mysqlwire.ErrnoDeadlock || !refused.SafeToRetry() {
		t.Errorf("got %v, want a deadlock that is safe to retry", err)
	}
}

func TestContext(t *testing.T) {
	s := testmysql.Shared(t)
	cfg := Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password}
	c := dial(t, cfg)
	watch := dial(t, cfg)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Exec(ctx, "SELECT SLEEP(600)")
		done <- err
	}()
	for scalar(t, watch, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO='SELECT SLEEP(600)'") == "0" {
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if _, err := watch.Exec(t.Context(), fmt.Sprintf("KILL %d", c.ConnectionID)); err != nil {
		t.Error(err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("after an interrupted command: got %v, want ErrBroken", err)
	}
	if err := watch.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a dead context: got %v, want context.Canceled", err)
	}
	if _, err := Dial(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("dial with a dead context: got %v, want context.Canceled", err)
	}
}

// TestDialTimeout connects to a server that never greets.
func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1e9)
		defer cancel()
		_, err := Dial(ctx, Config{Addr: "silent:3306", DialFunc: silent(t)})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want context.DeadlineExceeded", err)
		}
	})
}
