package testscript

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Start runs a backend that serves each connection, numbered from 0, by a script. A
// script that returns closes its connection.
func Start(t testing.TB, script func(n int, c *mysqlconn.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	wg.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[nc] = true
			mu.Unlock()
			wg.Go(func() {
				script(n, mysqlconn.New(nc))
				nc.Close()
				mu.Lock()
				delete(open, nc)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for nc := range open {
			nc.Close()
		}
		mu.Unlock()
		testwait.Group(t, "the scripts to return", &wg)
	})
	return l.Addr().String()
}

// ModesQuery is the query by which a gateway reads a session's modes.
const ModesQuery = "SELECT @@session.character_set_client, @@session.sql_mode, CAST(CONVERT(DATABASE() USING utf8mb4) AS BINARY) LIMIT 1"

// Capabilities are those of scripted backends.
const Capabilities = mysqlwire.CapLongPassword | mysqlwire.CapProtocol41 | mysqlwire.CapConnectWithDB |
	mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth | mysqlwire.CapTransactions |
	mysqlwire.CapMultiStatements | mysqlwire.CapMultiResults | mysqlwire.CapLocalFiles | mysqlwire.CapDeprecateEOF

// greeted is the challenge of greetings.
const greeted = "12345678901234567890"

// greet greets a client with additional capabilities, and returns its login, which arrives over TLS if the client accepts the offer.
func greet(c *mysqlconn.Conn, plugin string, offer *tls.Certificate, more ...mysqlwire.Capability) (login []byte, ok bool) {
	h := mysqlwire.Handshake{
		ProtocolVersion: 10, ServerVersion: []byte("8.4.0"), ConnectionID: 7, AuthData: []byte(greeted),
		Capabilities: Capabilities | mysqlwire.CapPluginAuthLenenc | mysqlwire.CapConnectAttrs, Charset: 45,
		Status: mysqlwire.StatusAutocommit, AuthPlugin: []byte(plugin),
	}
	if offer != nil {
		h.Capabilities |= mysqlwire.CapSSL
	}
	for _, c := range more {
		h.Capabilities |= c
	}
	if c.WriteMessage(h.AppendTo(nil)) != nil {
		return nil, false
	}
	p, err := c.ReadExactly(1 << 16)
	if err == nil && mysqlwire.IsSSLRequest(p) && offer != nil {
		conn := tls.Server(c.Socket(), &tls.Config{Certificates: []tls.Certificate{*offer}})
		if conn.Handshake() != nil {
			return nil, false
		}
		c.Upgrade(conn)
		p, err = c.ReadMessage(1 << 16)
	}
	return p, err == nil
}

// round sends a packet of a login and returns a copy of the response.
func round(c *mysqlconn.Conn, say []byte) (p []byte, ok bool) {
	if c.WriteMessage(say) != nil {
		return nil, false
	}
	p, err := c.ReadMessage(1 << 16)
	return bytes.Clone(p), err == nil
}

// refuse refuses a login.
func refuse(c *mysqlconn.Conn, message string) error {
	return c.WriteMessage(mysqlwire.Err{Number: mysqlwire.ErrnoAccessDenied, HasState: true, State: [5]byte{'2', '8', '0', '0', '0'}, Message: []byte(message)}.AppendTo(nil))
}

// Greeting returns a scripted backend's greeting.
func Greeting() []byte {
	h := mysqlwire.Handshake{
		ProtocolVersion: 10, ServerVersion: []byte("8.4.0-script"), ConnectionID: 7,
		AuthData: []byte(greeted), Capabilities: Capabilities, Charset: 45,
		Status: mysqlwire.StatusAutocommit, AuthPlugin: []byte("mysql_native_password"),
	}
	return h.AppendTo(nil)
}

// OK returns the payload of an OK packet.
func OK() []byte { return []byte{0, 0, 0, byte(mysqlwire.StatusAutocommit), 0, 0, 0} }

// Login is the backend's part of a successful login.
func Login(c *mysqlconn.Conn) bool {
	if c.WriteMessage(Greeting()) != nil {
		return false
	}
	if _, err := c.ReadMessage(1 << 16); err != nil {
		return false
	}
	return c.WriteMessage(OK()) == nil
}

// Command returns the next command, or nil at the end.
func Command(c *mysqlconn.Conn) []byte {
	for {
		c.Seq = 0
		p, err := c.ReadMessage(64 << 20)
		if err != nil || len(p) > 0 && p[0] == byte(mysqlwire.ComQuit) {
			return nil
		}
		if len(p) == 0 || string(p[1:]) != ModesQuery {
			return p
		}
		if _, err := c.Write(ModesResult); err != nil {
			return nil
		}
	}
}

// ModesResult is a scripted backend's response to ModesQuery, for clients with CapDeprecateEOF.
var ModesResult = Packets(1, []byte{3}, Column, Column, Column, []byte("\x07utf8mb4\x00\x00"), End) //nolint:gochecknoglobals // bytes of a packet

// Serve logs a client in and responds to every command with OK.
func Serve(c *mysqlconn.Conn) {
	if Login(c) {
		respond(c)
	}
}

// respond responds to every command with OK.
func respond(c *mysqlconn.Conn) {
	for Command(c) != nil {
		if c.WriteMessage(OK()) != nil {
			return
		}
	}
}

// Connect logs in, directly or through a gateway, as a user that scripted backends let in.
func Connect(t testing.TB, addr string) (*mysqlconn.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: addr, User: "app", TLSMode: mysqlconn.TLSDisabled})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// MustConnect is Connect for a login that succeeds.
func MustConnect(t testing.TB, addr string) *mysqlconn.Client {
	t.Helper()
	c, err := Connect(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Exec executes a statement.
func Exec(t testing.TB, c *mysqlconn.Client, sql string) (mysqlconn.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.Exec(ctx, sql)
}

// ServerError returns err's ERR packet and whether it is one.
func ServerError(err error) (*mysqlconn.ServerError, bool) {
	return errors.AsType[*mysqlconn.ServerError](err)
}

// Packets returns messages as packets with consecutive sequence numbers.
func Packets(seq uint8, payloads ...[]byte) (b []byte) {
	for _, p := range payloads {
		b, seq = mysqlwire.AppendPacket(b, p, seq)
	}
	return b
}

// RoundTrip sends a command and reads its response.
func RoundTrip(c *mysqlconn.Conn, command, want []byte) error {
	if _, err := c.Write(command); err != nil {
		return err
	}
	if err := c.Need(len(want)); err != nil {
		return err
	}
	got := c.Buffered()
	ok := string(got) == string(want)
	c.Discard(len(got))
	if !ok {
		return errors.New("another answer than the backend gave")
	}
	return nil
}

// Insert returns an INSERT of size bytes as packets.
func Insert(size int) []byte {
	var b bytes.Buffer
	b.WriteByte(byte(mysqlwire.ComQuery))
	b.WriteString("INSERT INTO import_table (id, payload) VALUES ")
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,'%s')", i, strings.Repeat("x", 100+i%50))
	}
	return Packets(0, b.Bytes())
}

// Parts of responses, and a whole one.
var (
	Column   = []byte("\x03def\x00\x00\x00\x01c\x00\x0c\x2d\x00\x50\x00\x00\x00\xfd\x00\x00\x00\x00\x00")
	End      = []byte{mysqlwire.MarkEOF, 0, 0, 2, 0, 0, 0}
	OKPacket = Packets(1, OK()) //nolint:gochecknoglobals // bytes of a packet
)
