package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestBackendFaults makes the backend fail at each stage of its second connection: a login receives an error
// that names the fault; a command ends without a packet, with the fault in its record. The first connection
// continues.
func TestBackendFaults(t *testing.T) {
	rows := func(c *mysqlconn.Conn, packets ...[]byte) {
		for _, p := range packets {
			c.AppendMessage(p)
		}
		_ = c.Flush()
	}
	column := append([]byte{3}, "def\x00\x00\x00\x01x\x00\x0c\x3f\x00\x0a\x00\x00\x00\x03\x00\x00\x00\x00\x00"...)
	for _, c := range []struct {
		name   string
		script func(c *mysqlconn.Conn)
		login  bool // the fault occurs after the login
		errno  mysqlwire.Errno
		text   string
	}{
		{"closes before its greeting", func(*mysqlconn.Conn) {}, false, mysqlwire.ErrnoNetRead, "no greeting from its backend: it closed the connection before its greeting"},
		{
			"greets with garbage", func(c *mysqlconn.Conn) { _ = c.WriteMessage([]byte("HTTP/1.1 400 Bad Request")) },
			false, mysqlwire.ErrnoNetRead, "it is not a MySQL server, but a server of an unknown protocol",
		},
		{
			"breaks off its greeting", func(c *mysqlconn.Conn) { _, _ = c.Write([]byte{70, 0, 0, 0, 10, '8'}) },
			false, mysqlwire.ErrnoNetRead, "no greeting from its backend: unexpected EOF",
		},
		{
			"greets with a wrong sequence number", func(c *mysqlconn.Conn) { c.Seq = 3; _ = c.WriteMessage(testscript.Greeting()) },
			false, mysqlwire.ErrnoNetRead, "it is not a MySQL server, but a server of an unknown protocol",
		},
		{
			"greets with a giant", func(c *mysqlconn.Conn) { _, _ = c.Write([]byte{0, 0, 0x80, 0, 10}) },
			false, mysqlwire.ErrnoNetRead, "it is not a MySQL server, but a server of an unknown protocol",
		},
		{"refuses with its own words", func(c *mysqlconn.Conn) {
			_ = c.WriteMessage(mysqlwire.Err{Number: 1129, Message: []byte("Host is blocked")}.AppendTo(nil))
		}, false, mysqlwire.ErrnoHostBlocked, "backend refused the connection with error 1129: see Tare's log"},
		{"closes after its greeting", func(c *mysqlconn.Conn) {
			_ = c.WriteMessage(testscript.Greeting())
			_, _ = c.ReadMessage(1 << 16)
		}, false, mysqlwire.ErrnoNetRead, "during authentication: it closed the connection"},
		{"never answers the login", func(c *mysqlconn.Conn) {
			_ = c.WriteMessage(testscript.Greeting())
			_, _ = c.ReadMessage(1 << 16)
			_, _ = c.ReadMessage(1 << 16)
		}, false, mysqlwire.ErrnoNetRead, "no response within 5s (option handshake-timeout)"},
		{"asks without end", func(c *mysqlconn.Conn) {
			_ = c.WriteMessage(testscript.Greeting())
			for {
				if _, err := c.ReadMessage(1 << 16); err != nil {
					return
				}
				if c.WriteMessage([]byte{mysqlwire.MarkAuthMore, 9}) != nil {
					return
				}
			}
		}, false, 0, ""}, // the client may give up first
		{
			"closes instead of answering", func(c *mysqlconn.Conn) { testscript.Command(c) }, true,
			mysqlwire.ErrnoNetRead, "during Query: it closed the connection",
		},
		{"answers out of order", func(c *mysqlconn.Conn) {
			testscript.Command(c)
			c.Seq = 9
			_ = c.WriteMessage(testscript.OK())
		}, true, mysqlwire.ErrnoMalformedPacket, "out of order"},
		{"answers nothing in a packet", func(c *mysqlconn.Conn) {
			testscript.Command(c)
			_ = c.WriteMessage(nil)
		}, true, mysqlwire.ErrnoMalformedPacket, "unexpected mysql packet"},
		{"closes after the column count", func(c *mysqlconn.Conn) {
			testscript.Command(c)
			rows(c, []byte{2}, column)
		}, true, mysqlwire.ErrnoNetRead, "it closed the connection"},
		{"closes among the rows", func(c *mysqlconn.Conn) {
			testscript.Command(c)
			rows(c, []byte{1}, column, []byte{1, 'a'}, []byte{1, 'b'})
		}, true, mysqlwire.ErrnoNetRead, "it closed the connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			backend := testscript.Start(t, func(n int, conn *mysqlconn.Conn) {
				switch {
				case n != 1:
					testscript.Serve(conn)
				case !c.login || testscript.Login(conn):
					c.script(conn)
				}
			})
			g := startGateway(t, backend, func(o *gateway.Options) {
				if strings.Contains(c.text, "option handshake-timeout") {
					o.HandshakeTimeout = 5 * time.Second // the other logins have to finish within it
				}
			})
			other := testscript.MustConnect(t, g.addr)
			faulty, err := testscript.Connect(t, g.addr)
			if c.login {
				if err != nil {
					t.Fatalf("login: %v", err)
				}
				_, err = testscript.Exec(t, faulty, "select 1")
			}
			got, ok := testscript.ServerError(err)
			switch {
			case c.login:
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("got %v, want the end of the connection", err)
				}
				if rec, _, text := g.records.wait(t, 0); rec.ErrorNumber != uint16(c.errno) || !rec.ErrorOwn || !strings.Contains(text, c.text) {
					t.Errorf("record has error %d %q, want %d with %q", rec.ErrorNumber, text, c.errno, c.text)
				}
			case c.errno == 0 && err == nil || c.errno != 0 && (!ok || got.Number != c.errno || !strings.Contains(got.Message, c.text)):
				t.Errorf("got %v, want error %d with %q", err, c.errno, c.text)
			}
			if _, err := testscript.Exec(t, other, "select 2"); err != nil {
				t.Errorf("the other session: %v", err)
			}
			if _, err := testscript.Exec(t, testscript.MustConnect(t, g.addr), "select 3"); err != nil {
				t.Errorf("the next session: %v", err)
			}
		})
	}
}

func TestBackendDown(t *testing.T) {
	const down = "127.0.0.1:1"
	g := startGateway(t, down, nil)
	_, err := testscript.Connect(t, g.addr)
	if got, ok := testscript.ServerError(err); !ok || got.Number != mysqlwire.ErrnoNetRead ||
		strings.Contains(got.Message, down) || !strings.Contains(got.Message, "connection refused") {
		t.Errorf("got %v, want error 1158 that names the reason and not the backend", err)
	}
}

// TestBackendBreaksOffRow truncates a row: an error packet cannot follow, so the connection is closed, and
// the record has the error.
func TestBackendBreaksOffRow(t *testing.T) {
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if testscript.Login(c) && testscript.Command(c) != nil {
			_, _ = c.Write([]byte{1, 0, 0, 1, 1, 4, 0, 0, 2, 3, 'd', 'e', 'f', 100, 0, 0, 3, 99, 'a'})
		}
	})
	g := startGateway(t, backend, nil)
	c := testscript.MustConnect(t, g.addr)
	if _, err := testscript.Exec(t, c, "select 1"); err == nil {
		t.Error("half a row passed for an answer")
	}
	if rec, _, text := g.records.wait(t, 0); rec.ErrorNumber != uint16(mysqlwire.ErrnoNetRead) || !strings.Contains(text, "lost backend") {
		t.Errorf("record has error %d %q, want 1158", rec.ErrorNumber, text)
	}
}

// rawLogin logs in and returns the connection for arbitrary bytes.
func rawLogin(t *testing.T, addr string) *mysqlconn.Conn {
	t.Helper()
	c := testscript.MustConnect(t, addr)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	c.Seq = 0
	return c.Conn
}

// TestClientFaults has clients break the protocol: each receives an error or is disconnected, without effect
// on others.
func TestClientFaults(t *testing.T) {
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), nil)
	other := testscript.MustConnect(t, g.addr)
	for _, c := range []struct {
		name  string
		bytes []byte
		errno mysqlwire.Errno // 0: closed without an error
	}{
		{"a wrong sequence number", []byte{1, 0, 0, 5, byte(mysqlwire.ComPing)}, mysqlwire.ErrnoPacketsOutOfOrder},
		{"a login that is none", []byte{3, 0, 0, 0, byte(mysqlwire.ComChangeUser), 'a', 'b'}, mysqlwire.ErrnoMalformedPacket},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: tare\r\n\r\n"), mysqlwire.ErrnoPacketsOutOfOrder},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := rawLogin(t, g.addr)
			if _, err := conn.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			reply, err := io.ReadAll(conn.NetConn())
			if err != nil {
				t.Fatalf("the connection stays open: %v", err)
			}
			var e mysqlwire.Err
			if len(reply) < 5 || e.Decode(reply[4:]) != nil || e.Number != c.errno {
				t.Errorf("reply %q, want error %d", reply, c.errno)
			}
		})
	}
	t.Run("half a command", func(t *testing.T) {
		conn := rawLogin(t, g.addr)
		_, _ = conn.Write([]byte{100, 0, 0, 0, byte(mysqlwire.ComQuery), 's'})
		conn.Close()
	})
	if _, err := testscript.Exec(t, other, "select 1"); err != nil {
		t.Errorf("the other session: %v", err)
	}
}

// TestClientNoise sends random bytes to the gateway before and after a login. The outcome for that client
// does not matter, but the gateway must serve the next one.
func TestClientNoise(t *testing.T) {
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }), nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		var nc net.Conn
		if i%2 == 0 {
			c, err := net.Dial("tcp", g.addr)
			if err != nil {
				t.Fatal(err)
			}
			nc = c
		} else {
			nc = rawLogin(t, g.addr).NetConn()
		}
		noise := make([]byte, 1+rnd.IntN(200))
		for j := range noise {
			noise[j] = byte(rnd.Uint32())
		}
		if i%4 == 3 { // a well-formed header before it, so that the command is inspected
			noise = append(mysqlwire.Header{Len: len(noise)}.AppendTo(nil), noise...)
		}
		_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = nc.Write(noise)
		nc.Close()
	}
	if _, err := testscript.Exec(t, testscript.MustConnect(t, g.addr), "select 1"); err != nil {
		t.Errorf("after the noise: %v", err)
	}
}

func TestHandshakeTimeout(t *testing.T) {
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }),
		func(o *gateway.Options) { o.HandshakeTimeout = 500 * time.Millisecond })
	nc, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := mysqlconn.New(nc)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	reply, err := c.ReadMessage(1 << 16)
	if err == nil && reply[0] != mysqlwire.MarkErr { // the greeting
		reply, err = c.ReadMessage(1 << 16)
	}
	if err != nil || !bytes.Contains(reply, []byte("option handshake-timeout")) {
		t.Errorf("got %q, %v; want an error that names the time-out", reply, err)
	}
}

func TestLimits(t *testing.T) {
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) }),
		func(o *gateway.Options) { o.MaxConnections, o.MaxUserConnections = 3, 2 })
	first, second := testscript.MustConnect(t, g.addr), testscript.MustConnect(t, g.addr)
	_, err := testscript.Connect(t, g.addr)
	if got, ok := testscript.ServerError(err); !ok || got.Number != mysqlwire.ErrnoTooManyUserConnections || got.State != "42000" {
		t.Errorf("third connection of a user: %v, want error 1203 (42000)", err)
	}
	testwait.Equal(t, "the refused session to end", 2, g.Sessions)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	third, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: g.addr, User: "other", TLSMode: mysqlconn.TLSDisabled})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if _, err = testscript.Connect(t, g.addr); err == nil {
		t.Error("a fourth connection was let in")
	} else if got, ok := testscript.ServerError(err); !ok || got.Number != mysqlwire.ErrnoTooManyConnections {
		t.Errorf("fourth connection: %v, want error 1040", err)
	}
	first.Close()
	second.Close()
	testwait.Equal(t, "two sessions to end", 1, g.Sessions)
	testscript.MustConnect(t, g.addr)
}

// TestRules refuses statements by rule: the session continues; the end of a long one never reaches the backend,
// which receives one that is no statement.
func TestRules(t *testing.T) {
	got := make(chan string, 10)
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if !testscript.Login(c) {
			return
		}
		for p := testscript.Command(c); p != nil; p = testscript.Command(c) {
			if sql := string(p[1:]); sql != testscript.ModesQuery && !strings.HasPrefix(sql, "SIGNAL ") && !strings.Contains(sql, "\n'\"`/*") {
				got <- string(p[1:min(20, len(p))])
			}
			_ = c.WriteMessage(testscript.OK())
		}
	})
	g := startGateway(t, backend, nil)
	var d sqldigest.Digester
	err := g.planner.SetRules([]sqlplan.Rule{
		{Name: "no-drop", Action: sqlplan.ActionBlock, Types: []sqlplan.Type{sqlplan.TypeDDL}, Message: "ask the DBA"},
		{Name: "by-digest", Action: sqlplan.ActionBlock, Digests: []sqldigest.Digest{d.Digest([]byte("select 1"), 0)}},
		{Name: "frozen", Action: sqlplan.ActionReadOnly, Tables: []string{"shop.*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := testscript.MustConnect(t, g.addr)
	for _, r := range []struct {
		sql, text string
		errno     mysqlwire.Errno
	}{
		{"drop table shop.x", `rule "no-drop": ask the DBA`, mysqlwire.ErrnoSpecificAccessDenied},
		{"select 42", `rule "by-digest"`, mysqlwire.ErrnoSpecificAccessDenied},
		{"insert into shop.t values (1)", `read-only rule "frozen"`, mysqlwire.ErrnoReadOnly},
	} {
		_, err := testscript.Exec(t, c, r.sql)
		if e, ok := testscript.ServerError(err); !ok || e.Number != r.errno || !strings.Contains(e.Message, r.text) {
			t.Errorf("%s: %v, want error %d with %q", r.sql, err, r.errno, r.text)
		}
	}
	if _, err := testscript.Exec(t, c, "select x from shop.t"); err != nil {
		t.Errorf("a statement that no rule refuses: %v", err)
	}
	if sql := testwait.Receive(t, "the backend's statement", got); sql != "select x from shop." {
		t.Errorf("the backend got %q", sql)
	}
	long := "insert into shop.t values ('" + strings.Repeat("x", 3<<20) + "')"
	_, err = testscript.Exec(t, c, long)
	if e, ok := testscript.ServerError(err); !ok || e.Number != mysqlwire.ErrnoReadOnly {
		t.Errorf("a long statement: %v, want error 1290", err)
	}
	if _, err := testscript.Exec(t, c, "select x from shop.t"); err != nil {
		t.Errorf("a statement after a long refused one: %v", err)
	}
	if sql := testwait.Receive(t, "the backend's statement", got); sql != "select x from shop." {
		t.Errorf("the backend got %q", sql)
	}
	select {
	case sql := <-got:
		t.Errorf("the backend got %q, which a rule refuses", sql)
	default:
	}
}
