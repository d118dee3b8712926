package main

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// listenedUser is a name that no ciphertext has by chance.
const listenedUser = "listened-user"

// A wiretap is a proxy between clients and a server, which records the bytes of the clients.
type wiretap struct {
	strip bool // it removes the server's offer of TLS

	mu    sync.Mutex
	heard bytes.Buffer
}

// Write implements io.Writer.
func (w *wiretap) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard.Write(b)
}

func (w *wiretap) contains(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.heard.Bytes(), []byte(text))
}

// start listens until it is stopped, which waits for the end of all connections.
func (w *wiretap) start(t *testing.T, server string) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.relay(t, client, server) })
		}
	})
	return l.Addr().String(), func() {
		t.Helper()
		_ = l.Close()
		testwait.Group(t, "the connections of the wiretap to end", &all)
	}
}

func (w *wiretap) relay(t *testing.T, client net.Conn, server string) {
	defer client.Close()
	s, err := net.Dial("tcp", server)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	c := mysqlconn.New(s)
	p, err := c.ReadExactly(1 << 16)
	var h mysqlwire.Handshake
	if err == nil {
		err = h.Decode(p)
	}
	if err != nil {
		t.Error(err)
		return
	}
	if w.strip {
		h.Capabilities &^= mysqlwire.CapSSL
	}
	if mysqlconn.New(client).WriteMessage(h.AppendTo(nil)) != nil {
		return
	}
	var other sync.WaitGroup
	other.Go(func() {
		_, _ = io.Copy(client, s)
		_ = client.Close()
	})
	_, _ = io.Copy(io.MultiWriter(w, s), client)
	_ = s.Close()
	testwait.Group(t, "the other direction to end", &other)
}

// TestWiretaps logs in through a proxy, as each account does, to a server with a certificate that it trusts. One that only
// listens gets neither the name nor the password; one that removes the offer of TLS gets nothing in a mode that requires
// TLS, and never the password.
func TestWiretaps(t *testing.T) {
	a := newAuthority(t)
	pair, err := mysqlconn.NewKeyPair()
	must(t, err)
	for _, mode := range []mysqlconn.TLSMode{mysqlconn.TLSPreferred, mysqlconn.TLSRequired, mysqlconn.TLSVerifyCA, mysqlconn.TLSVerifyIdentity} {
		for _, strip := range []bool{false, true} {
			for _, method := range testscript.Methods {
				i := &testscript.Impostor{Certificate: a.sign(t, "db.example"), Method: method, Password: accountPassword, Key: pair}
				w := &wiretap{strip: strip}
				addr, stop := w.start(t, i.Start(t))
				l := leg{mode: mode, authorities: a.pool}
				cfg := l.server(config.ControlURL{User: listenedUser, Password: config.NewSecret(accountPassword), Addr: config.Address(addr)})
				if mode == mysqlconn.TLSVerifyIdentity {
					cfg.TLS = cfg.TLS.Clone()
					cfg.TLS.ServerName = "db.example"
				}
				c, err := mysqlconn.Dial(t.Context(), cfg)
				stop()
				if err == nil {
					_ = c.Close()
					t.Errorf("%v, %s: the server let the client in", mode, method)
					continue
				}
				if w.contains(accountPassword) || strings.Contains(err.Error(), accountPassword) {
					t.Errorf("%v, stripped %t, %s: the password is visible; %v", mode, strip, method, err)
				}
				if named := w.contains(listenedUser); named != (strip && !mode.Required()) {
					t.Errorf("%v, stripped %t, %s: the name is visible: %t", mode, strip, method, named)
				}
				if learned, _ := i.Learned(); strip && mode.Required() && learned != testscript.LearnedNothing {
					t.Errorf("%v, stripped, %s: the server learns %s", mode, method, learned)
				}
			}
		}
	}
}

// TestInjectedPlainText puts bytes before a TLS handshake, in both directions: they never count as sent through TLS.
func TestInjectedPlainText(t *testing.T) {
	t.Run("to a client", func(t *testing.T) {
		self, err := mysqlconn.SelfSignedCertificate("127.0.0.1")
		must(t, err)
		i := &testscript.Impostor{Certificate: &self, Method: mysqlconn.PluginNative, Password: accountPassword}
		server := i.Start(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		go func() {
			client, err := l.Accept()
			if err != nil {
				return
			}
			defer client.Close()
			s, err := net.Dial("tcp", server)
			if err != nil {
				return
			}
			defer s.Close()
			greeting, err := mysqlconn.New(s).ReadExactly(1 << 16)
			if err != nil {
				return
			}
			if _, err := client.Write(append(testscript.Packets(0, greeting), testscript.Packets(3, testscript.OK())...)); err != nil {
				return
			}
			go func() { _, _ = io.Copy(client, s) }()
			_, _ = io.Copy(s, client)
		}()
		c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: l.Addr().String(), User: listenedUser, Password: accountPassword, TLSMode: mysqlconn.TLSRequired})
		if err == nil {
			_ = c.Close()
			t.Error("the client takes the injected OK for one of the server")
		}
	})
	t.Run("to the gateway", func(t *testing.T) {
		logins := make(chan []byte, 10)
		backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
			if c.WriteMessage(testscript.Greeting()) != nil {
				return
			}
			if p, err := c.ReadMessage(1 << 16); err == nil {
				logins <- bytes.Clone(p)
			}
		})
		s := gatewayOf(t, map[string]string{"backend": backend, "backend-tls": "off", "client-tls": "required", "cpus": "1"})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		go func() { _ = s.gateway.Serve(l) }()
		conn, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer conn.Close()
		must(t, conn.SetDeadline(time.Now().Add(testwait.Limit)))
		c := mysqlconn.New(conn)
		p, err := c.ReadExactly(1 << 16)
		must(t, err)
		var h mysqlwire.Handshake
		must(t, h.Decode(p))
		if !h.Capabilities.Has(mysqlwire.CapSSL) {
			t.Fatal("the gateway offers no TLS")
		}
		caps := testscript.Capabilities | mysqlwire.CapSSL
		request := mysqlwire.SSLRequest{Capabilities: caps, MaxPacket: 1 << 24, Charset: 45}
		login := mysqlwire.HandshakeResponse{Capabilities: caps, MaxPacket: 1 << 24, Charset: 45, User: []byte(listenedUser), AuthPlugin: []byte(mysqlconn.PluginNative)}
		_, err = conn.Write(append(testscript.Packets(1, request.AppendTo(nil)), testscript.Packets(2, login.AppendTo(nil))...))
		must(t, err)
		got, _ := io.ReadAll(conn) // until the gateway closes the connection
		select {
		case p := <-logins:
			t.Errorf("the backend gets the login %q", p)
		default:
		}
		if len(got) > 0 && got[0] != 0x15 && !bytes.Contains(got, []byte("TLS")) { // a TLS alert, or an error
			t.Errorf("the gateway responds %q", got)
		}
	})
}
