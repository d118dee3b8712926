package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A wiretap is a proxy in front of a server that records all bytes.
type wiretap struct {
	addr string

	mu             sync.Mutex
	sent, received []byte // by and to the connecting side; under mu
}

func startWiretap(t *testing.T, to string) *wiretap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &wiretap{addr: l.Addr().String()}
	var wg sync.WaitGroup
	copyTo := func(dst, src net.Conn, kept *[]byte) {
		defer dst.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			p.mu.Lock()
			*kept = append(*kept, buf[:n]...)
			p.mu.Unlock()
			if err != nil {
				return
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			onward, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			wg.Go(func() { copyTo(onward, from, &p.sent) })
			wg.Go(func() { copyTo(from, onward, &p.received) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		testwait.Group(t, "the server's goroutines", &wg)
	})
	return p
}

// take returns the bytes recorded since the last call.
func (p *wiretap) take() (sent, received []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent, received = p.sent, p.received
	p.sent, p.received = nil, nil
	return sent, received
}

// hasPacket reports whether a plain-text stream contains a packet with this short payload.
func hasPacket(stream []byte, payload ...byte) bool {
	for i := range stream {
		if rest := stream[i:]; len(rest) >= 4+len(payload) && rest[0] == byte(len(payload)) &&
			rest[1] == 0 && rest[2] == 0 && bytes.Equal(rest[4:4+len(payload)], payload) {
			return true
		}
	}
	return false
}

// pingers returns logins by caching_sha2_password from two clients that share no code.
func pingers(addr string, security mysqlconn.TLSMode) map[string]func(ctx context.Context, password string) error {
	return map[string]func(ctx context.Context, password string) error{
		"go-sql-driver": func(ctx context.Context, password string) error {
			cfg := mysql.NewConfig()
			cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = "tare", password, "tcp", addr
			if security == mysqlconn.TLSRequired {
				cfg.TLSConfig = "skip-verify"
			}
			connector, err := mysql.NewConnector(cfg)
			if err != nil {
				return err
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			return db.PingContext(ctx)
		},
		"mysqlconn": func(ctx context.Context, password string) error {
			c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: addr, User: "tare", Password: password, TLSMode: security, ServerKey: mysqlconn.ServerKey{Request: true}})
			if err != nil {
				return err
			}
			return errors.Join(c.Ping(ctx), c.Close())
		},
	}
}

const secret = "correct horse battery staple"

// TestLoginCachingSHA2 logs in with every combination of TLS on the two connections. The bytes of a
// plain-text connection show which path was taken, and must never contain the password.
func TestLoginCachingSHA2(t *testing.T) {
	const off, on = mysqlconn.TLSDisabled, mysqlconn.TLSRequired
	subject := testscript.NewSHA2Server(t, "tare", secret)
	for _, c := range []struct {
		name       string
		client     mysqlconn.TLSMode
		mode       mysqlconn.TLSMode
		backendTLS bool
	}{
		{"plain, mirrored: RSA end to end", off, mysqlconn.TLSPreferred, false},
		{"TLS, mirrored", on, mysqlconn.TLSPreferred, true},
		{"TLS to plain: RSA from the gateway", on, mysqlconn.TLSDisabled, false},
		{"plain to TLS: RSA to the gateway", off, mysqlconn.TLSRequired, true},
		{"plain, off", off, mysqlconn.TLSDisabled, false},
		{"TLS, required", on, mysqlconn.TLSRequired, true},
	} {
		for driver := range pingers("", off) {
			t.Run(c.name+"/"+driver, func(t *testing.T) {
				back := startWiretap(t, subject.Start(t))
				g := startGateway(t, back.addr, func(o *gateway.Options) {
					o.Backend.TLS, o.Backend.Key.Request, o.ClientTLS = c.mode, true, gateway.ClientTLSPreferred
				})
				front := startWiretap(t, g.addr)
				login := pingers(front.addr, c.client)[driver]

				legs := func(wantFull bool) {
					t.Helper()
					for leg, p := range map[string]*wiretap{"client": front, "backend": back} {
						sent, received := p.take()
						if bytes.Contains(sent, []byte(secret)) || bytes.Contains(received, []byte(secret)) {
							t.Errorf("the %s's leg shows the password", leg)
						}
						if plain := leg == "client" && c.client == off || leg == "backend" && !c.backendTLS; plain {
							if got := hasPacket(received, mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth); got != wantFull {
								t.Errorf("the %s's leg: full authentication %t, want %t", leg, got, wantFull)
							}
							if got := hasPacket(sent, mysqlwire.SHA2RequestKey); got != wantFull {
								t.Errorf("the %s's leg: the public key is asked for %t, want %t", leg, got, wantFull)
							}
							fast := hasPacket(received, mysqlwire.MarkAuthMore, mysqlwire.SHA2FastOK)
							if !wantFull && !fast {
								t.Errorf("the %s's leg: not the fast path", leg)
							}
						} else if bytes.Contains(sent, []byte("caching_sha2_password\x00")) {
							t.Errorf("the %s's leg has a login in clear, want TLS", leg)
						}
					}
				}
				denied := func(password string) {
					t.Helper()
					err := login(t.Context(), password)
					n := errorOf(err).Number
					if e, ok := testscript.ServerError(err); ok {
						n = uint16(e.Number)
					}
					if n != 1045 {
						t.Errorf("password %q: got %v, want error 1045", password, err)
					}
				}

				denied("wrong") // by full authentication
				legs(true)
				asked := subject.Full()
				must(t, login(t.Context(), secret))
				if n := subject.Full() - asked; n == 0 {
					t.Error("the first login did not take the full path")
				}
				legs(true)
				asked = subject.Full()
				must(t, login(t.Context(), secret))
				if n := subject.Full() - asked; n != 0 {
					t.Error("the second login did not take the fast path")
				}
				legs(false)
				denied("wrong") // of which no hash is cached
				denied("")
			})
		}
	}
}

// TestClientLeavesWhenAsked has a client over TLS leave when it is asked for its password in clear: the backend gets neither a password nor a
// request for its public key.
func TestClientLeavesWhenAsked(t *testing.T) {
	back := startWiretap(t, testscript.NewSHA2Server(t, "tare", secret).Start(t))
	g := startGateway(t, back.addr, func(o *gateway.Options) {
		o.Backend.TLS, o.Backend.Key.Request, o.ClientTLS = mysqlconn.TLSDisabled, true, gateway.ClientTLSPreferred
	})
	c, _ := newcomer(t, g.addr)
	caps := testscript.Capabilities&^mysqlwire.CapConnectWithDB | mysqlwire.CapSSL
	must(t, c.WriteMessage(mysqlwire.SSLRequest{Capabilities: caps, MaxPacket: 1 << 24, Charset: 45}.AppendTo(nil)))
	conn := tls.Client(c.NetConn(), &tls.Config{InsecureSkipVerify: true})
	must(t, conn.Handshake())
	c.Upgrade(conn)
	wrong := make([]byte, 32)
	p := respond(t, c, mysqlwire.HandshakeResponse{Capabilities: caps, MaxPacket: 1 << 24, Charset: 45, User: []byte("tare"), AuthPlugin: []byte("caching_sha2_password"), AuthResponse: wrong})
	if p[0] == mysqlwire.MarkEOF { // with another challenge
		must(t, c.WriteMessage(wrong))
		var err error
		p, err = c.ReadMessage(1 << 16)
		must(t, err)
	}
	if !bytes.Equal(p, []byte{mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth}) {
		t.Fatalf("the client is not asked for its password: %q", p)
	}
	_ = c.Close() // with an alert, which the gateway reads
	testwait.Equal(t, "the session to end", 0, g.Sessions)
	if sent, _ := back.take(); hasPacket(sent, mysqlwire.SHA2RequestKey) {
		t.Error("the gateway asked for the public key")
	}
}

// TestForeignPublicKey logs in a client that has the backend's public key in a file, in a configuration where
// the gateway has to decrypt the password.
func TestForeignPublicKey(t *testing.T) {
	subject := testscript.NewSHA2Server(t, "tare", secret)
	g := startGateway(t, subject.Start(t), func(o *gateway.Options) {
		o.Backend.TLS, o.ClientTLS = mysqlconn.TLSRequired, gateway.ClientTLSPreferred
	})
	key, err := mysqlconn.ParsePublicKey(subject.Key.PublicPEM())
	must(t, err)
	_, err = mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: g.addr, User: "tare", Password: secret, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Key: key},
	})
	if e, ok := testscript.ServerError(err); !ok || e.Number != mysqlwire.ErrnoAccessDenied || !strings.Contains(e.Message, "must ask for the public key") {
		t.Errorf("got %v, want error 1045 that says what to do", err)
	}
}
