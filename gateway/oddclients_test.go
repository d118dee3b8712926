package gateway_test

import (
	"context"
	"encoding/binary"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var oddClients = flag.Int("odd-clients", 150, "clients of TestOddClients at each server; make e2e uses 2000")

// An oddConn damages one of the packets that a client writes.
type oddConn struct {
	net.Conn
	rnd  *rand.Rand
	left *int // remaining packets before it
}

func (c oddConn) Write(p []byte) (int, error) {
	*c.left--
	if *c.left != 0 || len(p) < mysqlwire.HeaderLen {
		return c.Conn.Write(p)
	}
	_, err := c.Conn.Write(damage(c.rnd, append([]byte(nil), p...)))
	return len(p), err
}

// damage returns a packet with another length, sequence number, size or content.
func damage(rnd *rand.Rand, p []byte) []byte {
	switch rnd.IntN(8) {
	case 0: // half a packet
		return p[:rnd.IntN(len(p))]
	case 1:
		p[3] += byte(1 + rnd.IntN(255))
	case 2: // a length that is too large, too small, 0, or the largest
		binary.LittleEndian.PutUint16(p, uint16(rnd.Uint32()))
		p[2] = [...]byte{0, 0xff, byte(rnd.Uint32())}[rnd.IntN(3)]
	case 3:
		p = append(p, make([]byte, rnd.IntN(300))...)
		setLength(p)
	case 4:
		p = p[:mysqlwire.HeaderLen+rnd.IntN(len(p)-mysqlwire.HeaderLen+1)]
		setLength(p)
	case 5: // capabilities of a login, the first bytes of other packets
		for range 1 + rnd.IntN(4) {
			if i := mysqlwire.HeaderLen + rnd.IntN(8); i < len(p) {
				p[i] ^= 1 << rnd.IntN(8)
			}
		}
	case 6:
		for range 1 + rnd.IntN(10) {
			p[rnd.IntN(len(p))] = byte(rnd.Uint32())
		}
	case 7:
		p = append(p, p...)
	}
	return p
}

func setLength(p []byte) {
	n := len(p) - mysqlwire.HeaderLen
	p[0], p[1], p[2] = byte(n), byte(n>>8), byte(n>>16)
}

// oddCommand returns a packet of any command, mostly with a body of its form.
func oddCommand(rnd *rand.Rand) []byte {
	bodies := [...]string{
		"\x03select 1", "\x03select 1; select 2; call nothing(); select 3", "\x03load data local infile '/nowhere' into table test.nothing", "\x03set names gbk",
		"\x03kill connection_id()", "\x16select ?, ?", "\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00", "\x17\xff\xff\xff\xff\x01\x00\x00\x00\x00\xff\xff", "\x18\x01\x00\x00\x00\x00\x00x",
		"\x19\x01\x00\x00\x00", "\x1a\x01\x00\x00\x00", "\x1b\x00\x00", "\x1b\x07", "\x1c\x01\x00\x00\x00\xff\xff\xff\xff", "\x1f", "\x04t\x00%", "\x02test", "\x02", "\x0e", "\x09", "\x0d", "\x0c\xff\xff\xff\xff", "\x07\xff",
		"\x11app\x00\x00test\x00", "\x11app\x00\x14aaaaaaaaaaaaaaaaaaaatest\x00\x21\x00mysql_native_password\x00", "\x11\x00", "\x11app", "\x11app\x00\xff", "\x11nobody\x00\x00\x00\x21\x00no_such_plugin\x00\xfc\xff\xff",
		"\x11app\x00\x00test\x00\x21\x00client_ed25519\x00", "\x12\x01\x00\x00\x00mysql-bin.000001", "\x1e\x00\x00\x01\x00\x00\x00", "\x15\x01\x00\x00\x00", "\x20", "\xfa\x01\x00\x00\x00\x00", "\xfe\x03select 1",
	}
	body := bodies[rnd.IntN(len(bodies))]
	if rnd.IntN(6) == 0 {
		b := make([]byte, 1+rnd.IntN(60))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		body = string(b)
	}
	p := append(make([]byte, mysqlwire.HeaderLen), body...)
	setLength(p)
	if rnd.IntN(3) == 0 {
		p = damage(rnd, p)
	}
	return p
}

// TestOddClients has clients that damage a packet of their login, or send commands of any form; half of them
// disconnect without reading. None ends the process or blocks a session, and MySQL and MariaDB count none
// against the gateway's address.
func TestOddClients(t *testing.T) {
	for _, server := range []struct {
		name string
		opts []testmysql.Option
	}{
		{"MariaDB", []testmysql.Option{testmysql.WithEd25519(), testmysql.WithTLS(), testmysql.WithHostCache()}},
		{"MySQL", []testmysql.Option{testmysql.WithMySQL(), testmysql.WithTLS(), testmysql.WithHostCache()}},
		{"TiDB", nil},
	} {
		t.Run(server.name, func(t *testing.T) {
			addr := ""
			var s *testmysql.Server
			if server.opts != nil {
				s = testmysql.StartOrSkip(t, server.opts...)
				addr = s.Addr
			} else {
				var exe func(...string) error
				addr, exe = startTiDB(t)
				must(t, exe("REVOKE SHUTDOWN ON *.* FROM app@'%'")) // a command of random bytes may be COM_SHUTDOWN
			}
			g := startGateway(t, addr, func(o *gateway.Options) {
				o.ClientTLS = gateway.ClientTLSPreferred
				if s != nil {
					o.Dial = from2
				}
			})
			right := func() { must(t, dialAs(t, g.addr, testmysql.AppUser, mysqlconn.TLSDisabled)) }
			right()
			if s != nil {
				must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache"))
				countOne(t, s, 1) // creates the row
			}
			rnd := testseed.Rand(t)
			for range *oddClients {
				oddClient(t, g.addr, server.name == "MariaDB", rnd)
			}
			testwait.Until(t, "the clients' sessions to end", func() bool { return g.Sessions() == 0 })
			if s != nil { // good logins reset the sum, but not this count
				checkNoRow(t, s, "SELECT COUNT_HANDSHAKE_ERRORS - 1 FROM performance_schema.host_cache WHERE IP = '127.0.0.2'")
			}
			right()
			if n := g.metric(t, "tare_session_panics_total"); n != 0 {
				t.Errorf("%d sessions panicked", n)
			}
		})
	}
}

// oddClient connects, perhaps logs in, and disconnects.
func oddClient(t *testing.T, addr string, ed bool, rnd *rand.Rand) {
	left := 0 // no packet is damaged
	if rnd.IntN(2) == 0 {
		left = 1 + rnd.IntN(4)
	}
	user, mode := testmysql.AppUser, mysqlconn.TLSDisabled
	if ed && rnd.IntN(3) == 0 {
		user = testmysql.EdUser
	}
	if left != 1 && rnd.IntN(4) == 0 {
		mode = mysqlconn.TLSRequired
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	leaves := rnd.IntN(2) == 0
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{
		Addr: addr, User: user, Password: testmysql.Password, TLSMode: mode, ServerKey: mysqlconn.ServerKey{Request: true}, Capabilities: mysqlwire.CapMultiStatements | mysqlwire.CapLocalFiles | mysqlwire.CapConnectAttrs,
		DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			if left > 0 { // the client does not wait for a packet without an end
				_ = nc.SetDeadline(time.Now().Add(300 * time.Millisecond))
			}
			return oddConn{nc, rnd, &left}, nil
		},
	})
	if err != nil {
		if ctx.Err() != nil {
			t.Errorf("a login with a damaged packet does not end: %v", err)
		}
		return
	}
	nc := c.NetConn()
	defer nc.Close()
	for range 1 + rnd.IntN(5) {
		_ = nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if _, err := nc.Write(oddCommand(rnd)); err != nil || leaves {
			return
		}
		if rnd.IntN(2) == 0 { // otherwise the commands are pipelined
			_ = nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = io.CopyN(io.Discard, nc, 1<<16)
		}
	}
}

// TestOddSizes responds to MariaDB's challenges with packets of invalid sizes: the gateway refuses them,
// because the server would count them as handshake errors of the gateway's address.
func TestOddSizes(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithEd25519(), testmysql.WithHostCache())
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Dial = from2 })
	for _, user := range []string{testmysql.AppUser, testmysql.EdUser} {
		must(t, dialAs(t, g.addr, user, mysqlconn.TLSDisabled)) // the gateway learns the method
		must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache"))
		countOne(t, s, 1)
		for _, size := range []int{0, 1, 2, 19, 21, 32, 63, 65, 128, 300} {
			nameAccount(t, g.addr, user, func(c *mysqlconn.Conn, _ string) {
				must(t, c.WriteMessage(make([]byte, size)))
				p, err := c.ReadMessage(loginPacket)
				if err != nil || p[0] != mysqlwire.MarkErr {
					t.Errorf("%s, a response of %d bytes: %q, %v, want an error", user, size, p, err)
				}
			})
		}
		testwait.Until(t, "the sessions to end", func() bool { return g.Sessions() == 0 })
		checkNoRow(t, s, "SELECT COUNT_HANDSHAKE_ERRORS - 1 FROM performance_schema.host_cache WHERE IP = '127.0.0.2'")
	}
}
