package gateway_test

import (
	"net"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestOddCapabilities logs in with one or two capability bits changed, with the fields of the handshake
// response encoded by the new or the old capabilities, and with each character set. The servers count none of
// these logins against the gateway's address.
func TestOddCapabilities(t *testing.T) {
	const base = mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth | mysqlwire.CapTransactions | mysqlwire.CapLongPassword | mysqlwire.CapConnectWithDB | mysqlwire.CapConnectAttrs | mysqlwire.CapPluginAuthLenenc
	for _, server := range hostCacheServers() {
		t.Run(server.name, func(t *testing.T) {
			s, g := server.start(t)
			login := func(encoded, sent mysqlwire.Capability, charset uint8) {
				abandonHello(t, g.addr, encoded, sent, charset)
			}
			for charset := range 256 {
				login(base, base, uint8(charset))
			}
			checkCounted(t, s, g, "character sets")
			for i := range 32 {
				for j := i; j < 32; j++ {
					changed := base ^ 1<<i ^ 1<<j&^(1<<i)
					if changed.Has(mysqlwire.CapSSL) {
						continue
					}
					login(changed, changed, 45)
					login(base, changed, 45)
				}
				checkCounted(t, s, g, "capabilities")
			}
		})
	}
}

// A hostCacheServer is a server that counts errors per address.
type hostCacheServer struct {
	name string
	opts []testmysql.Option
}

func hostCacheServers() []hostCacheServer {
	return []hostCacheServer{
		{"MariaDB", []testmysql.Option{testmysql.WithEd25519(), testmysql.WithHostCache()}},
		{"MySQL", []testmysql.Option{testmysql.WithMySQL(), testmysql.WithHostCache()}},
	}
}

// start starts the server and a gateway, whose address has one handshake error.
func (h hostCacheServer) start(t *testing.T) (*testmysql.Server, *rig) {
	t.Helper()
	s := testmysql.StartOrSkip(t, h.opts...)
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Dial = from2 })
	must(t, dialAs(t, g.addr, testmysql.AppUser, mysqlconn.TLSDisabled)) // the gateway learns the method
	must(t, s.Exec("TRUNCATE TABLE performance_schema.host_cache"))
	countOne(t, s, 1)
	return s, g
}

// checkCounted fails the test if the server has counted another handshake error. Good logins reset the sum,
// but not this count.
func checkCounted(t *testing.T, s *testmysql.Server, g *rig, after string) {
	t.Helper()
	testwait.Until(t, "the sessions to end after "+after, func() bool { return g.Sessions() == 0 })
	checkNoRow(t, s, "SELECT COUNT_HANDSHAKE_ERRORS - 1 FROM performance_schema.host_cache WHERE IP = '127.0.0.2'")
}

// abandonHello sends a login with replaced capabilities, responds to the challenge, reads the result and
// disconnects.
func abandonHello(t *testing.T, addr string, encoded, sent mysqlwire.Capability, charset uint8) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	defer nc.Close()
	c := mysqlconn.New(nc)
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := c.ReadMessage(loginPacket); err != nil {
		t.Fatal(err)
	}
	r := mysqlwire.HandshakeResponse{
		Capabilities: encoded, MaxPacket: 1 << 24, Charset: charset, User: []byte(testmysql.AppUser), AuthPlugin: []byte(mysqlconn.PluginNative),
		Database: []byte("test"), AuthResponse: make([]byte, challengeSize), Attrs: []byte("\x03_os\x01x"),
	}
	p := r.AppendTo(nil)
	p[0], p[1], p[2], p[3] = byte(sent), byte(sent>>8), byte(sent>>16), byte(sent>>24)
	must(t, c.WriteMessage(p))
	if p, err = c.ReadMessage(loginPacket); err != nil || p[0] != mysqlwire.MarkEOF {
		return
	}
	var sw mysqlwire.AuthSwitchRequest
	if sw.Decode(p) != nil || sw.Old || len(sw.Data) < challengeSize {
		return
	}
	response := mysqlconn.ScrambleNative(testmysql.Password, sw.Data[:challengeSize])
	if string(sw.Plugin) == mysqlconn.PluginSHA2 {
		response = mysqlconn.ScrambleSHA2(testmysql.Password, sw.Data[:challengeSize])
	}
	must(t, c.WriteMessage(response))
	_, _ = c.ReadMessage(loginPacket)
}
