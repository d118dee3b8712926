package gateway_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// keeper serves a shared connection: it responds to what the gateway says after a login, and to every other command with OK. It ends
// with a command that selects a schema if closes is set, and has others respond to what they know.
func keeper(closes *atomic.Bool, others ...func(c *mysqlconn.Conn, sql string) bool) func(n int, c *mysqlconn.Conn) {
	return keeperTLS(nil, closes, others...)
}

// keeperTLS is keeper with an offer of TLS, unless the certificate is nil.
func keeperTLS(cert *tls.Certificate, closes *atomic.Bool, others ...func(c *mysqlconn.Conn, sql string) bool) func(n int, c *mysqlconn.Conn) {
	return func(_ int, c *mysqlconn.Conn) {
		var hello mysqlwire.Handshake
		if hello.Decode(testscript.Greeting()) != nil {
			return
		}
		hello.Capabilities |= mysqlwire.CapSessionTrack
		if cert != nil {
			hello.Capabilities |= mysqlwire.CapSSL
		}
		if c.WriteMessage(hello.AppendTo(nil)) != nil {
			return
		}
		login, err := c.ReadExactly(1 << 16)
		if err == nil && cert != nil && mysqlwire.IsSSLRequest(login) {
			conn := tls.Server(c.Socket(), &tls.Config{Certificates: []tls.Certificate{*cert}})
			if conn.Handshake() != nil {
				return
			}
			c.Upgrade(conn)
			login, err = c.ReadMessage(1 << 16)
		}
		if err != nil || c.WriteMessage(testscript.OK()) != nil {
			return
		}
		deprecated := mysqlwire.Capability(binary.LittleEndian.Uint32(login)).Has(mysqlwire.CapDeprecateEOF)
		row := func(columns int, text string) []byte {
			all := append([][]byte{{byte(columns)}}, slices.Repeat([][]byte{testscript.Column}, columns)...)
			if deprecated {
				return testscript.Packets(1, append(all, []byte(text), testscript.End)...)
			}
			return testscript.Packets(1, append(all, oldEnd, []byte(text), oldEnd)...)
		}
		for schema := ""; ; {
			c.Seq = 0
			p, err := c.ReadMessage(1 << 16)
			if err != nil || p[0] == byte(mysqlwire.ComQuit) || p[0] == byte(mysqlwire.ComInitDB) && closes.Load() {
				return
			}
			response, text := testscript.Packets(1, testscript.OK()), string(p[1:])
			if slices.ContainsFunc(others, func(f func(*mysqlconn.Conn, string) bool) bool { return f(c, text) }) {
				continue
			}
			switch {
			case p[0] == byte(mysqlwire.ComInitDB):
				schema = text
			case text == testscript.ModesQuery:
				response = row(3, "\x07utf8mb4\x00"+string(rune(len(schema)))+schema)
			case text == "SELECT 'a'":
				response = row(1, "\x01a")
			}
			if _, err := c.Write(response); err != nil {
				return
			}
		}
	}
}

// oldEnd is an EOF packet.
var oldEnd = []byte{mysqlwire.MarkEOF, 0, 0, 2, 0}

// TestConnectionsLost has a backend that logs the gateway in, and closes each connection with the first command on behalf of a client.
func TestConnectionsLost(t *testing.T) {
	var closes atomic.Bool
	var opened atomic.Int64
	serve := keeper(&closes)
	r := startGateway(t, testscript.Start(t, func(n int, c *mysqlconn.Conn) {
		opened.Add(1)
		serve(n, c)
	}), func(o *gateway.Options) {
		o.Loops, o.Observers = 1, nil
		o.Pool = &gateway.PoolOptions{Max: 1, Password: func(string) (string, bool) { return testmysql.Password, true }}
	})
	a, b := dialPooled(t, r.addr, "a", nil), dialPooled(t, r.addr, "b", nil)
	exec := func(c *mysqlconn.Client) string {
		if _, err := c.Exec(t.Context(), "DO 1"); err != nil {
			return err.Error()
		}
		return ""
	}
	before := opened.Load()
	closes.Store(true)
	const want = "closed 3 of them in a row"
	if got := exec(a); !strings.Contains(got, want) {
		t.Errorf("error %q, want one that contains %q", got, want)
	}
	if _, err := dialShared(t, r.addr, "c", nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("login: error %v, want one that contains %q", err, want)
	}
	if n := opened.Load() - before; n > 6 {
		t.Errorf("%d connections opened", n)
	}
	closes.Store(false)
	for _, c := range []*mysqlconn.Client{a, b, a} {
		if got := exec(c); got != "" {
			t.Errorf("later: %s", got)
		}
	}
	if n := r.metric(t, "tare_pool_connections", "open", testmysql.AppUser); n != 1 {
		t.Errorf("%d connections are open, want 1", n)
	}
}

// TestPlacement has sessions of a user on two loops, each with a connection. They come and go, among those of another user.
func TestPlacement(t *testing.T) {
	var closes atomic.Bool
	r := startGateway(t, testscript.Start(t, keeper(&closes)), func(o *gateway.Options) {
		o.Loops, o.Observers = 2, nil
		o.Pool = &gateway.PoolOptions{Max: 2, Wait: time.Millisecond, Password: func(string) (string, bool) { return testmysql.Password, true }}
	})
	as := func(user string) *mysqlconn.Client {
		return dialPooled(t, r.addr, "", func(c *mysqlconn.Config) { c.User = user })
	}
	pin := func(c *mysqlconn.Client) string {
		if _, err := c.Exec(t.Context(), "SET @a = 1"); err != nil {
			return err.Error()
		}
		return ""
	}
	for range 5 {
		clients := []*mysqlconn.Client{as("a"), as("b"), as("a")}
		for _, i := range []int{0, 2} { // of user a: one on each loop
			if got := pin(clients[i]); got != "" {
				t.Errorf("session %d: %s", i, got)
			}
		}
		const want = "all that this client may use were in use for 1ms: 1 of 2, which 2 event loops divide (options pool-max and pool-wait)"
		if _, err := dialShared(t, r.addr, "", func(c *mysqlconn.Config) { c.User = "a" }); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("error %v, want one that contains %q", err, want)
		}
		for _, c := range clients {
			c.Close()
		}
		testwait.Until(t, "the end of the sessions", func() bool { return r.Sessions() == 0 })
	}
}

// TestPingFollows has a client without CLIENT_DEPRECATE_EOF, for which the gateway asks whether a statement has changed the session.
// The backend does not respond to a SELECT that does nothing else before it has the question too.
func TestPingFollows(t *testing.T) {
	var closes atomic.Bool
	asked := make(chan bool, 1)
	r := startGateway(t, testscript.Start(t, keeper(&closes, func(c *mysqlconn.Conn, sql string) bool {
		if !strings.HasPrefix(sql, "SELECT x") {
			return false
		}
		b := testscript.Packets(1, []byte{1}, testscript.Column, oldEnd, []byte("\x01a"), oldEnd)
		follows := sql == "SELECT x"
		if follows {
			must(t, c.Need(5))
			follows = bytes.Equal(c.Buffered(), []byte{1, 0, 0, 0, byte(mysqlwire.ComPing)})
		}
		_, err := c.Write(b)
		asked <- follows && err == nil
		return true
	})), func(o *gateway.Options) {
		o.Loops, o.Observers = 1, nil
		o.Pool = &gateway.PoolOptions{Max: 1, Password: func(string) (string, bool) { return testmysql.Password, true }}
	})
	d := openDialogue(t, r.addr, basicCaps)
	for _, sql := range []string{"SELECT x", "SELECT x INTO @a"} {
		want := sql == "SELECT x"
		got := one(t, d.Client, sql)
		if follows := <-asked; follows != want || len(got) != 1 {
			t.Errorf("%s: COM_PING follows at once: %v, want %v; %q", sql, follows, want, got)
		}
	}
}

// TestSilentBackend has a backend that does not respond to the gateway's commands on a shared connection: the connection is closed, and
// another one serves the client, or it gets an error that says why.
func TestSilentBackend(t *testing.T) {
	t.Parallel()
	const limit = time.Second // of logins too, also on a busy machine
	var silent atomic.Int64   // times
	var closes atomic.Bool
	start := func(command string) (*rig, *mysqlconn.Client, *mysqlconn.Client) {
		serve := keeper(&closes, func(c *mysqlconn.Conn, sql string) bool {
			if strings.HasPrefix(sql, "INSERT") {
				_, _ = c.Write(testscript.Packets(1, []byte{0, 1, 5, byte(mysqlwire.StatusAutocommit), 0, 0, 0})) // with an id
				return true
			}
			if sql != command || silent.Add(-1) < 0 {
				return false
			}
			_, _ = io.Copy(io.Discard, c.NetConn()) // until the gateway closes the connection
			return true
		})
		r := startGateway(t, testscript.Start(t, serve), func(o *gateway.Options) {
			o.Loops, o.Observers, o.ConnectTimeout = 1, nil, limit
			o.Pool = &gateway.PoolOptions{Max: 1, Password: func(string) (string, bool) { return testmysql.Password, true }}
		})
		silent.Store(0)
		return r, dialPooled(t, r.addr, "a", nil), dialPooled(t, r.addr, "b", nil)
	}
	t.Run("before a statement", func(t *testing.T) {
		r, a, b := start("b")
		for _, c := range []struct {
			times int64
			want  string
		}{{1, ""}, {3, "3 of them had no response within 1s (option connect-timeout)"}, {0, ""}} {
			_, err := a.Exec(t.Context(), "DO 1")
			must(t, err)
			opened := r.metric(t, "tare_pool_opened_total", testmysql.AppUser)
			silent.Store(c.times)
			_, err = b.Exec(t.Context(), "DO 1")
			if c.want == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
			if n := r.metric(t, "tare_pool_opened_total", testmysql.AppUser) - opened; n != min(2, uint64(c.times)) {
				t.Errorf("silent %d times: %d connections opened", c.times, n)
			}
		}
	})
	t.Run("after a statement", func(t *testing.T) {
		const query = "SELECT @@session.last_insert_id, LAST_INSERT_ID(0), '' LIMIT 1"
		r, a, b := start(query)
		silent.Store(1)
		_, err := a.Exec(t.Context(), "INSERT INTO t VALUES (1)")
		must(t, err)
		testwait.Until(t, "the end of a session with an unknown state", func() bool { return r.Sessions() == 1 })
		_, err = b.Exec(t.Context(), "DO 1")
		must(t, err)
	})
}

// TestShortReadsCharged: the memory for costs of reads is charged, and there is none without option pool-depth.
func TestShortReadsCharged(t *testing.T) {
	var closes atomic.Bool
	addr := testscript.Start(t, keeper(&closes))
	held := func(depth, loops int) int64 {
		r := startGateway(t, addr, func(o *gateway.Options) {
			o.Loops, o.Observers = loops, nil
			o.Pool = &gateway.PoolOptions{Max: loops, Depth: depth, Password: func(string) (string, bool) { return "", false }}
		})
		n, _ := r.HeldBytes()
		r.Shutdown(t.Context())
		if left, _ := r.HeldBytes(); left != 0 {
			t.Errorf("%d bytes after the end", left)
		}
		return n
	}
	alone := held(2, 1)
	if alone < 1<<15 || held(2, 3) != 3*alone || held(1, 3) != 0 || held(0, 1) != 0 {
		t.Errorf("bytes of one loop %d, of three %d, at depth 1 %d", alone, held(2, 3), held(1, 3))
	}
}
