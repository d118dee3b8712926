package mysqlconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
)

func TestTLSModeText(t *testing.T) {
	for m := range TLSMode(len(tlsModes)) {
		if again, err := ParseTLSMode(m.String()); err != nil || again != m {
			t.Errorf("%s: got %v, %v", m, again, err)
		}
	}
	if _, err := ParseTLSMode("on"); err == nil || !strings.Contains(err.Error(), "want disabled") {
		t.Errorf("parse an unknown mode: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want string // empty: valid
	}{
		{"least", Config{Addr: "localhost:3306"}, ""},
		{"no address", Config{}, "no address"},
		{"network", Config{Addr: "x", Network: "udp"}, `unknown network "udp"`},
		{"mode", Config{Addr: "x", TLSMode: 9}, "unknown tls mode 9"},
		{"packet", Config{Addr: "x", MaxPacket: -1}, "-1 bytes"},
		{"NUL", Config{Addr: "x", User: "a\x00b"}, "NUL"},
		{"compression", Config{Addr: "x", Capabilities: mysqlwire.CapCompress}, "0x20"},
		{"identity of a socket", Config{Addr: "/s", Network: "unix", TLSMode: TLSVerifyIdentity}, "set a server name"},
		{"named socket", Config{Addr: "/s", Network: "unix", TLSMode: TLSVerifyIdentity, TLS: &tls.Config{ServerName: "db"}}, ""},
	} {
		err := c.cfg.Validate()
		if got := errText(err); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestSelfSigned performs a TLS handshake with the certificate and a client that trusts it.
func TestSelfSigned(t *testing.T) {
	cert, err := SelfSignedCertificate()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"localhost", "127.0.0.1", "elsewhere"} {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- tls.Server(server, &tls.Config{Certificates: []tls.Certificate{cert}}).Handshake() }()
		clientErr := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: name}).Handshake()
		serverErr := testwait.Receive(t, "the server's handshake", done)
		_, _ = client.Close(), server.Close()
		if ok := clientErr == nil && serverErr == nil; ok != (name != "elsewhere") {
			t.Errorf("%s: client %v, server %v", name, clientErr, serverErr)
		}
	}
	if other, err := SelfSignedCertificate("gateway.example", "10.0.0.1"); err != nil ||
		other.Leaf.VerifyHostname("gateway.example") != nil || other.Leaf.VerifyHostname("10.0.0.1") != nil {
		t.Errorf("certificate for names of its own: %v", err)
	}
}

// TestCloseAfterPeer closes a TLS connection whose peer has reset it: the undeliverable close_notify is not
// an error.
func TestCloseAfterPeer(t *testing.T) {
	cert, err := SelfSignedCertificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		err := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{cert}}).Handshake()
		_ = server.(*net.TCPConn).SetLinger(0) // closing resets the connection
		done <- errors.Join(err, server.Close())
	}()
	over := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	if err := over.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := testwait.Receive(t, "the server to reset the connection", done); err != nil {
		t.Fatal(err)
	}
	_ = client.SetReadDeadline(time.Now().Add(testwait.Limit))
	if _, err := over.Read(make([]byte, 1)); err == nil {
		t.Fatal("a connection that was reset can be read")
	}
	c := New(client)
	c.Upgrade(over)
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v, want no error", err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Close again: %v, want %v", err, net.ErrClosed)
	}
}
