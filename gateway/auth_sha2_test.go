package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/server"
	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// credentials are the accounts of go-mysql's server. It looks up a password only to compare it, that is, in
// full authentication.
type credentials struct {
	passwords map[string]string
	asked     atomic.Int64
}

func (c *credentials) CheckUsername(user string) (bool, error) {
	_, ok := c.passwords[user]
	return ok, nil
}

func (c *credentials) GetCredential(user string) (string, bool, error) {
	c.asked.Add(1)
	p, ok := c.passwords[user]
	return p, ok, nil
}

// goMySQLKey creates the certificate and the PEM public key of go-mysql's server.
func goMySQLKey(t *testing.T) (*tls.Config, []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "go-mysql"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
}

// startGoMySQL serves logins by caching_sha2_password until the test ends.
func startGoMySQL(t *testing.T, conf *tls.Config, public []byte, subject *credentials) (addr string) {
	t.Helper()
	srv := server.NewServer("8.0.36", gomysql.DEFAULT_COLLATION_ID, gomysql.AUTH_CACHING_SHA2_PASSWORD, public, conf)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				c, err := srv.NewCustomizedConn(nc, subject, server.EmptyHandler{})
				if err != nil {
					return
				}
				for c.HandleCommand() == nil {
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		testwait.Group(t, "the server's goroutines", &wg)
	})
	return l.Addr().String()
}

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
	conf, public := goMySQLKey(t)
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
				subject := &credentials{passwords: map[string]string{"tare": secret}}
				back := startWiretap(t, startGoMySQL(t, conf, public, subject))
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
				asked := subject.asked.Load()
				must(t, login(t.Context(), secret))
				if n := subject.asked.Load() - asked; n == 0 {
					t.Error("the first login did not take the full path")
				}
				legs(true)
				asked = subject.asked.Load()
				must(t, login(t.Context(), secret))
				if n := subject.asked.Load() - asked; n != 0 {
					t.Error("the second login did not take the fast path")
				}
				legs(false)
				denied("wrong") // by the fast path
				denied("")
			})
		}
	}
}

// TestForeignPublicKey logs in a client that has the backend's public key in a file, in a configuration where
// the gateway has to decrypt the password.
func TestForeignPublicKey(t *testing.T) {
	conf, public := goMySQLKey(t)
	subject := &credentials{passwords: map[string]string{"tare": secret}}
	g := startGateway(t, startGoMySQL(t, conf, public, subject), func(o *gateway.Options) {
		o.Backend.TLS, o.ClientTLS = mysqlconn.TLSRequired, gateway.ClientTLSPreferred
	})
	key, err := mysqlconn.ParsePublicKey(public)
	must(t, err)
	_, err = mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: g.addr, User: "tare", Password: secret, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Key: key},
	})
	if e, ok := testscript.ServerError(err); !ok || e.Number != mysqlwire.ErrnoAccessDenied || !strings.Contains(e.Message, "must ask for the public key") {
		t.Errorf("got %v, want error 1045 that says what to do", err)
	}
}
