package gateway_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// tidbCaps are the capabilities of TiDB 8.4: it has no lenenc authentication data, no session tracking, no
// query attributes and no optional metadata.
const tidbCaps = mysqlwire.CapLongPassword | mysqlwire.CapLongFlag | mysqlwire.CapConnectWithDB | mysqlwire.CapProtocol41 |
	mysqlwire.CapTransactions | mysqlwire.CapSecureConnection | mysqlwire.CapFoundRows | mysqlwire.CapMultiStatements |
	mysqlwire.CapMultiResults | mysqlwire.CapLocalFiles | mysqlwire.CapConnectAttrs | mysqlwire.CapPluginAuth |
	mysqlwire.CapInteractive | mysqlwire.CapDeprecateEOF | mysqlwire.CapCompress | mysqlwire.CapZstdCompression

func tidbGreeting() []byte {
	h := mysqlwire.Handshake{
		ProtocolVersion: 10, ServerVersion: []byte("8.0.11-TiDB-v8.4.0"), ConnectionID: 2097154,
		AuthData: []byte("12345678901234567890"), Capabilities: tidbCaps, Charset: 46,
		Status: mysqlwire.StatusAutocommit, AuthPlugin: []byte("mysql_native_password"),
	}
	return h.AppendTo(nil)
}

// scriptTiDB behaves like TiDB. It sends the received handshake responses to logins. PREPARE returns
// statement 1; SEND_LONG_DATA and CLOSE of another statement get an error.
func scriptTiDB(c *mysqlconn.Conn, logins chan<- mysqlwire.HandshakeResponse) {
	if c.WriteMessage(tidbGreeting()) != nil {
		return
	}
	p, err := c.ReadMessage(1 << 16)
	if err != nil {
		return
	}
	var r mysqlwire.HandshakeResponse
	if r.Decode(bytes.Clone(p)) != nil {
		_ = c.WriteMessage(mysqlwire.Err{Number: mysqlwire.ErrnoHandshake, Message: []byte("Bad handshake")}.AppendTo(nil))
		return
	}
	if logins != nil {
		select {
		case logins <- r:
		default:
		}
	}
	if c.WriteMessage(testscript.OK()) != nil {
		return
	}
	unknown := func() {
		// The sequence numbers of each response start at 1.
		_ = c.WriteMessage(mysqlwire.Err{Number: 1243, State: [5]byte{'H', 'Y', '0', '0', '0'}, Message: []byte("Unknown prepared statement handler")}.AppendTo(nil))
	}
	for p := testscript.Command(c); p != nil; p = testscript.Command(c) {
		switch mysqlwire.Command(p[0]) {
		case mysqlwire.ComStmtSendLongData, mysqlwire.ComStmtClose:
			if len(p) < 5 || p[1] != 1 {
				unknown()
			}
		case mysqlwire.ComStmtPrepare:
			_ = c.WriteMessage([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
		default:
			_ = c.WriteMessage(testscript.OK())
		}
	}
}

// TestTiDBLogin logs in at TiDB as its common clients do: they set capabilities that it lacks.
func TestTiDBLogin(t *testing.T) {
	const common = mysqlwire.CapLongPassword | mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth |
		mysqlwire.CapConnectWithDB | mysqlwire.CapTransactions | mysqlwire.CapDeprecateEOF | mysqlwire.CapMultiResults
	attrs := append([]byte{12}, "_client_name"...)
	attrs = append(append(attrs, 3), "abc"...)
	for _, c := range []struct {
		name     string
		sets     mysqlwire.Capability
		response int // bytes
		refused  string
	}{
		{"PLUGIN_AUTH_LENENC", mysqlwire.CapPluginAuthLenenc, 20, ""},
		{"connection attributes", mysqlwire.CapPluginAuthLenenc | mysqlwire.CapConnectAttrs, 20, ""},
		{"session tracking and query attributes", mysqlwire.CapPluginAuthLenenc | mysqlwire.CapSessionTrack | mysqlwire.CapQueryAttributes, 20, ""},
		{"optional metadata", mysqlwire.CapOptionalMetadata, 20, ""},
		{"an unknown bit", mysqlwire.CapCapabilityExtension | mysqlwire.CapMultiFactorAuth, 20, ""},
		{"compression", mysqlwire.CapCompress, 20, ""},
		{"zstd", mysqlwire.CapZstdCompression, 20, "0x4000000 that were not offered"},
		{"a password of 300 bytes", mysqlwire.CapPluginAuthLenenc, 300, ""}, // it is not sent: the gateway requests the account's method
	} {
		t.Run(c.name, func(t *testing.T) {
			logins := make(chan mysqlwire.HandshakeResponse, 1)
			g := startGateway(t, testscript.Start(t, func(_ int, conn *mysqlconn.Conn) { scriptTiDB(conn, logins) }), nil)
			conn, hello := newcomer(t, g.addr)
			if extra := hello.Capabilities &^ tidbCaps &^ mysqlwire.CapSSL; extra != 0 {
				t.Errorf("the greeting offers %#x, which the server does not", uint64(extra))
			}
			r := mysqlwire.HandshakeResponse{
				Capabilities: common | c.sets, MaxPacket: 1 << 24, Charset: 46, User: []byte("app"), Database: []byte("test"),
				AuthResponse: bytes.Repeat([]byte{'a'}, c.response), AuthPlugin: []byte("mysql_native_password"),
			}
			if r.Capabilities.Has(mysqlwire.CapConnectAttrs) {
				r.Attrs = attrs
			}
			p := respond(t, conn, r)
			if c.refused != "" {
				if p[0] != mysqlwire.MarkErr || !strings.Contains(string(p), c.refused) {
					t.Errorf("got %q, want an error with %q", p, c.refused)
				}
				return
			}
			if p[0] != mysqlwire.MarkOK {
				t.Fatalf("the login ends with %q", p)
			}
			got := testwait.Receive(t, "the login at the server", logins)
			if extra := got.Capabilities &^ tidbCaps; extra != 0 {
				t.Errorf("the login at the server sets %#x, which it did not offer", uint64(extra))
			}
			if len(got.AuthResponse) > 255 || string(got.User) != "app" || string(got.Database) != "test" || !bytes.Equal(got.Attrs, r.Attrs) {
				t.Errorf("the server's login is %+v", got)
			}
			conn.Seq = 0
			must(t, conn.WriteMessage([]byte{byte(mysqlwire.ComPing)}))
			if p, err := conn.ReadMessage(1 << 16); err != nil || p[0] != mysqlwire.MarkOK {
				t.Errorf("ping: %q, %v", p, err)
			}
		})
	}
}

// TestUnsolicitedResponse has TiDB respond with errors to commands that have no response. The client receives
// each before the next command's response, and the session continues.
func TestUnsolicitedResponse(t *testing.T) {
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) { scriptTiDB(c, nil) }), nil)
	c := rawLogin(t, g.addr)
	send := func(payloads ...[]byte) {
		t.Helper()
		for _, p := range payloads {
			c.Seq = 0
			c.AppendMessage(p)
		}
		must(t, c.Flush())
	}
	receive := func(what string, marks ...byte) {
		t.Helper()
		for i, mark := range marks {
			c.Seq = 1
			p, err := c.ReadMessage(1 << 16)
			if err != nil || p[0] != mark || mark == mysqlwire.MarkErr && !bytes.Contains(p, []byte("Unknown prepared")) {
				t.Fatalf("%s: packet %d is %q, %v; want %#x", what, i, p, err, mark)
			}
		}
	}
	const good, bad = 1, 9
	long := func(id byte) []byte { return []byte{byte(mysqlwire.ComStmtSendLongData), id, 0, 0, 0, 0, 0, 'x'} }
	closing := func(id byte) []byte { return []byte{byte(mysqlwire.ComStmtClose), id, 0, 0, 0} }
	ping := []byte{byte(mysqlwire.ComPing)}
	query := append([]byte{byte(mysqlwire.ComQuery)}, "set @a = 1"...)

	send(append([]byte{byte(mysqlwire.ComStmtPrepare)}, "select 1"...))
	receive("prepare", mysqlwire.MarkOK)
	send(long(bad))
	receive("long data alone", mysqlwire.MarkErr)
	send(query)
	receive("a statement", mysqlwire.MarkOK)
	send(closing(bad), query)
	receive("a pipelined close", mysqlwire.MarkErr, mysqlwire.MarkOK)
	send(long(bad), long(good), long(bad), closing(bad), ping, query)
	receive("four of them", mysqlwire.MarkErr, mysqlwire.MarkErr, mysqlwire.MarkErr, mysqlwire.MarkOK, mysqlwire.MarkOK)
	send(long(good), closing(good), ping)
	receive("good ones", mysqlwire.MarkOK)
	if n := g.Sessions(); n != 1 {
		t.Errorf("%d sessions, want the one that continues", n)
	}
}

// TestTiDBSwitchesAgain logs in twice to an account whose method differs from the greeting's. TiDB requests
// the method even if the login names it and has the right response; a client receives one request.
func TestTiDBSwitchesAgain(t *testing.T) {
	g := startGateway(t, testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		_ = c.WriteMessage(tidbGreeting())
		if _, err := c.ReadMessage(1 << 16); err != nil {
			return
		}
		sw := mysqlwire.AuthSwitchRequest{Plugin: []byte(mysqlconn.PluginSHA2), Data: []byte("12345678901234567890\x00")}
		_ = c.WriteMessage(sw.AppendTo(nil))
		if p, err := c.ReadMessage(1 << 16); err != nil || string(p) != "proof" {
			_ = c.WriteMessage(mysqlwire.Err{Number: mysqlwire.ErrnoAccessDenied, Message: p}.AppendTo(nil))
			return
		}
		_ = c.WriteMessage(testscript.OK())
	}), nil)
	for i := range 3 { // from the second one on, the method is known
		c, _ := newcomer(t, g.addr)
		p := respond(t, c, mysqlwire.HandshakeResponse{
			Capabilities: mysqlwire.CapLongPassword | mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth,
			User:         []byte("app"), AuthPlugin: []byte("mysql_native_password"), AuthResponse: make([]byte, 20),
		})
		if p[0] != mysqlwire.MarkEOF || !bytes.Contains(p, []byte(mysqlconn.PluginSHA2)) {
			t.Fatalf("login %d: %q, want a switch", i, p)
		}
		must(t, c.WriteMessage([]byte("proof")))
		if p, err := c.ReadMessage(1 << 16); err != nil || p[0] != mysqlwire.MarkOK {
			t.Fatalf("login %d: after its answer the client gets %q, %v; want OK", i, p, err)
		}
	}
}
