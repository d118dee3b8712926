package gateway_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/sha512"
	"os"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const parsecUser = "parsec"

// TestParsec logs in by MariaDB's parsec, and abandons or damages the login at each step: none is counted
// against the gateway's address. MariaDB has the method since 11.6; TARE_MARIADB_DIR names one if the one in
// PATH is older.
func TestParsec(t *testing.T) {
	server := hostCacheServer{opts: []testmysql.Option{testmysql.WithHostCache()}}
	if dir := os.Getenv("TARE_MARIADB_DIR"); dir != "" {
		server.opts = append(server.opts, testmysql.WithPrograms(dir))
	}
	s, g := server.start(t)
	if err := s.Exec("INSTALL SONAME 'auth_parsec'", "CREATE USER "+parsecUser+"@'%' IDENTIFIED VIA parsec USING PASSWORD('"+testmysql.Password+"')"); err != nil {
		t.Skipf("this MariaDB has no parsec: %v", err)
	}
	for _, c := range []struct {
		name      string
		responses [][]byte // the client disconnects after them
	}{
		{"leaves before it responds", nil},
		{"a signature first", [][]byte{make([]byte, parsecSize)}},
		{"a NUL first", [][]byte{{0}}},
		{"leaves before it signs", [][]byte{nil}},
		{"no signature", [][]byte{nil, nil}},
		{"a NUL for a signature", [][]byte{nil, {0}}},
		{"a short signature", [][]byte{nil, make([]byte, parsecSize-1)}},
		{"a long signature", [][]byte{nil, make([]byte, parsecSize+1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, change := range []bool{false, true} {
				conn, _ := switched(t, g.addr, change)
				for _, response := range c.responses {
					must(t, conn.WriteMessage(response))
					_, err := conn.ReadMessage(loginPacket)
					must(t, err)
				}
				conn.Close()
				checkCounted(t, s, g, c.name)
			}
		})
	}
	for _, change := range []bool{false, true} {
		c, challenge := switched(t, g.addr, change)
		must(t, c.WriteMessage(nil))
		more, err := c.ReadMessage(loginPacket)
		must(t, err)
		must(t, c.WriteMessage(parsecResponse(t, challenge, more)))
		if p, err := c.ReadMessage(loginPacket); err != nil || p[0] != mysqlwire.MarkOK {
			t.Errorf("a right login, COM_CHANGE_USER %t: %q, %v", change, p, err)
		}
		c.Close()
	}
}

// switched logs in up to the request for parsec, on a new connection or by COM_CHANGE_USER, and returns the
// challenge.
func switched(t *testing.T, addr string, change bool) (c *mysqlconn.Conn, challenge []byte) {
	t.Helper()
	if change {
		c = dialApp(t, addr).Conn
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		c.Seq = 0
		u := mysqlwire.ChangeUser{User: []byte(parsecUser), Charset: 45, AuthPlugin: []byte(noMethod)}
		must(t, c.WriteMessage(u.AppendTo(nil, mysqlwire.CapSecureConnection|mysqlwire.CapPluginAuth)))
	} else {
		nc, err := from2(t.Context(), "tcp", addr)
		must(t, err)
		c = mysqlconn.New(nc)
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = c.ReadMessage(loginPacket)
		must(t, err)
		r := mysqlwire.HandshakeResponse{
			Capabilities: mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth | mysqlwire.CapLongPassword,
			MaxPacket:    1 << 24, Charset: 45, User: []byte(parsecUser), AuthPlugin: []byte(noMethod),
		}
		must(t, c.WriteMessage(r.AppendTo(nil)))
	}
	p, err := c.ReadMessage(loginPacket)
	must(t, err)
	var sw mysqlwire.AuthSwitchRequest
	if err := sw.Decode(p); err != nil || string(sw.Plugin) != "parsec" {
		t.Fatalf("%q requests no parsec: %v", p, err)
	}
	return c, bytes.Clone(sw.Data[:32])
}

// parsecResponse returns the client's challenge and the signature of both challenges. The key derives from
// the password and the server's second packet: a mark, P, the iterations' logarithm less 10, and the salt.
func parsecResponse(t *testing.T, challenge, more []byte) []byte {
	t.Helper()
	seed, err := pbkdf2.Key(sha512.New, testmysql.Password, more[3:], 1024<<more[2], ed25519.SeedSize)
	must(t, err)
	own := []byte("a challenge of the client's sort")
	return append(bytes.Clone(own), ed25519.Sign(ed25519.NewKeyFromSeed(seed), append(bytes.Clone(challenge), own...))...)
}
