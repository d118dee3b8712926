package gateway_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// serveRaw runs a server of another protocol until the test ends.
func serveRaw(t *testing.T, serve func(net.Conn)) (addr string) {
	return testscript.Start(t, func(_ int, c *mysqlconn.Conn) { serve(c.NetConn()) })
}

// TestBackendIsNoMySQL connects to servers of other protocols: in bounded time the client and the log get a sentence that
// says what is wrong, without the backend's address for the client.
func TestBackendIsNoMySQL(t *testing.T) {
	send := func(text string) func(net.Conn) {
		return func(nc net.Conn) {
			_, _ = io.WriteString(nc, text)
			_, _ = io.Copy(io.Discard, nc)
		}
	}
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ReadTimeout = 50 * time.Millisecond // it closes a connection without a request
	web.Start()
	t.Cleanup(web.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for _, c := range []struct{ name, addr, client, log string }{
		{"silent", serveRaw(t, send("")), "it sent nothing within", "is it a MySQL server?"},
		{"closes", serveRaw(t, func(net.Conn) {}), "it closed the connection before its greeting", ""},
		{"HTTP that closes", web.Listener.Addr().String(), "Tare got no greeting from its backend", ""},
		{"HTTP that complains", serveRaw(t, send("HTTP/1.1 408 Request Timeout\r\n\r\n")), "an HTTP server", "408 Request Timeout"},
		{"HTTPS", secure.Listener.Addr().String(), "it sent nothing within", ""},
		{"SSH", serveRaw(t, send("SSH-2.0-OpenSSH_9.2p1\r\n")), "an SSH server", "SSH-2.0-OpenSSH"},
		{"SMTP", serveRaw(t, send("220 mail ESMTP\r\n")), "an FTP or SMTP server", "220 mail"},
		{"TLS alert", serveRaw(t, send("\x15\x03\x01\x00\x02\x02\x0a")), "a TLS server", ""},
		{"X Protocol", serveRaw(t, send("\x05\x00\x00\x00\x0b\x08\x05\x1a\x00")), "X Protocol: use the port of the classic protocol", ""},
		{"garbage", serveRaw(t, send("\xde\xad\xbe\xef and more")), "a server of an unknown protocol", ""},
		{"half a greeting", serveRaw(t, send("\x4a\x00\x00\x00\x0a8.4")), "it sent nothing within", ""},
		{"an error packet of no form", serveRaw(t, send("\x02\x00\x00\x00\xff\x10")), "a server of an unknown protocol", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			g := startGateway(t, c.addr, func(o *gateway.Options) {
				o.HandshakeTimeout, o.Diag = time.Second, slog.New(slog.NewTextHandler(&log, nil))
			})
			_, err := testscript.Connect(t, g.addr)
			e, ok := testscript.ServerError(err)
			if !ok || e.Number != mysqlwire.ErrnoNetRead || !strings.Contains(e.Message, c.client) || strings.Contains(e.Message, c.addr) {
				t.Errorf("the client gets %v, want error 1158 with %q", err, c.client)
			}
			testwait.UntilState(t, "the log to name the backend and the reason", func() (string, bool) {
				text := log.String()
				return text, strings.Contains(text, "backend unreachable") && strings.Contains(text, c.addr) && strings.Contains(text, c.log)
			})
		})
	}
}
