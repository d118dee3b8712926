package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// secureServers runs servers of both products with one account that requires TLS and one that requires a
// certificate.
func secureServers(t *testing.T, use func(t *testing.T, s *testmysql.Server)) {
	for _, product := range []struct {
		name string
		opts []testmysql.Option
	}{
		{"MariaDB", nil},
		{"MySQL", []testmysql.Option{testmysql.WithMySQL()}},
	} {
		t.Run(product.name, func(t *testing.T) {
			opts := append(product.opts, testmysql.WithTLS(), testmysql.WithSetup(
				"CREATE USER IF NOT EXISTS secure@'%' IDENTIFIED BY 'tare-test' REQUIRE SSL",
				"CREATE USER IF NOT EXISTS certified@'%' IDENTIFIED BY 'tare-test' REQUIRE X509"))
			s := testmysql.StartOrSkip(t, opts...)
			use(t, s)
		})
	}
}

// dialAs logs in as a user, and returns the server's or the gateway's error.
func dialAs(t *testing.T, addr, user string, mode mysqlconn.TLSMode, certs ...tls.Certificate) error {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: addr, User: user, Password: testmysql.Password, TLSMode: mode, ServerKey: mysqlconn.ServerKey{Request: true}, TLS: &tls.Config{Certificates: certs},
	})
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(t.Context()), c.Close())
}

// TestRequireSSL logs in to an account with REQUIRE SSL through a gateway whose backend connection uses TLS:
// a client without TLS is refused in the same way as by MySQL with require_secure_transport. (MariaDB 10.11
// denies the login with error 1045, which clients report as a wrong password; 11.8 uses MySQL's number with
// the SQLSTATE 08004.)
func TestRequireSSL(t *testing.T) {
	secureServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("SET GLOBAL require_secure_transport = ON"))
		own, ok := testscript.ServerError(dialAs(t, s.Addr, testmysql.AppUser, mysqlconn.TLSDisabled))
		must(t, s.Exec("SET GLOBAL require_secure_transport = OFF"))
		if !ok || own.Number != mysqlwire.ErrnoAccessDenied && own.Number != mysqlwire.ErrnoSecureTransport {
			t.Fatalf("the server refuses a client without TLS by %v", own)
		}
		for _, c := range []struct {
			name       string
			backend    mysqlconn.TLSMode
			client     gateway.ClientTLSMode
			plain, tls mysqlwire.Errno // outcome of the login without and with TLS; 0: it succeeds
		}{
			{"mirror", mysqlconn.TLSPreferred, "", mysqlwire.ErrnoAccessDenied, 0},
			{"backend required", mysqlconn.TLSRequired, "", mysqlwire.ErrnoSecureTransport, 0},
			{"backend verified", mysqlconn.TLSVerifyIdentity, "", mysqlwire.ErrnoSecureTransport, 0},
			{"mirror, client required", mysqlconn.TLSPreferred, gateway.ClientTLSRequired, mysqlwire.ErrnoSecureTransport, 0},
			{"explicitly preferred", mysqlconn.TLSRequired, gateway.ClientTLSPreferred, 0, 0}, // the server cannot see that the client has no TLS
			{"explicitly off", mysqlconn.TLSRequired, gateway.ClientTLSOff, 0, 1},
			{"backend off, client required", mysqlconn.TLSDisabled, gateway.ClientTLSRequired, mysqlwire.ErrnoSecureTransport, mysqlwire.ErrnoAccessDenied},
		} {
			t.Run(c.name, func(t *testing.T) {
				g := startGateway(t, s.Addr, func(o *gateway.Options) {
					o.Backend.TLS, o.Backend.CAs, o.ClientTLS = c.backend, s.CA, c.client
				})
				err := dialAs(t, g.addr, "secure", mysqlconn.TLSDisabled)
				checkErrno(t, "without TLS", err, c.plain)
				if e, ok := testscript.ServerError(err); ok && c.plain == mysqlwire.ErrnoSecureTransport {
					if e.State != "HY000" || !strings.HasPrefix(e.Message, "Connections using insecure transport are prohibited") {
						t.Errorf("refused by %v, a server refuses by %v", e, own)
					}
					if n := g.metric(t, "tare_connections_refused_total", "insecure-transport"); n != 1 {
						t.Errorf("%d refusals are counted, want 1", n)
					}
				}
				err = dialAs(t, g.addr, "secure", mysqlconn.TLSRequired)
				if c.client == gateway.ClientTLSOff {
					if _, ok := testscript.ServerError(err); ok || err == nil {
						t.Errorf("with TLS, which is not offered: got %v", err)
					}
					return
				}
				checkErrno(t, "with TLS", err, c.tls)
				// The certificate of the backend connection would be the gateway's, not the client's.
				checkErrno(t, "REQUIRE X509", dialAs(t, g.addr, "certified", mysqlconn.TLSRequired), mysqlwire.ErrnoAccessDenied)
			})
		}
	})
}

func checkErrno(t *testing.T, what string, err error, want mysqlwire.Errno) {
	t.Helper()
	e, ok := testscript.ServerError(err)
	if want == 0 && err != nil || want != 0 && (!ok || e.Number != want) {
		t.Errorf("%s: got %v, want error %d", what, err, want)
	}
}

// TestRequiredWithoutBackendTLS requires TLS of clients in front of a backend without: the gateway cannot
// mirror TLS and returns an error.
func TestRequiredWithoutBackendTLS(t *testing.T) {
	back := testscript.Start(t, func(_ int, c *mysqlconn.Conn) { testscript.Serve(c) })
	g := startGateway(t, back, func(o *gateway.Options) { o.ClientTLS = gateway.ClientTLSRequired })
	_, err := testscript.Connect(t, g.addr)
	if e, ok := testscript.ServerError(err); !ok || !strings.Contains(e.Message, "set option backend-tls to off") {
		t.Errorf("got %v, want the reason and what to do", err)
	}
	g = startGateway(t, back, func(o *gateway.Options) {
		o.ClientTLS, o.Backend.TLS = gateway.ClientTLSRequired, mysqlconn.TLSDisabled
	})
	must(t, dialAs(t, g.addr, "app", mysqlconn.TLSRequired))
	_, err = testscript.Connect(t, g.addr)
	checkErrno(t, "without TLS", err, mysqlwire.ErrnoSecureTransport)
}

// An issuer signs client certificates.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issuer"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return issuer{cert, key}
}

func (i issuer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(i.cert)
	return p
}

func (i issuer) issue(t *testing.T, name string, until time.Time, usage x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, i.cert, key.Public(), i.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestClientCertificates verifies client certificates, before and after the authority and the gateway's
// certificate are replaced.
func TestClientCertificates(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithTLS())
	old, fresh := newIssuer(t), newIssuer(t)
	hour := time.Now().Add(time.Hour)
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.ClientTLS, o.ClientCAs = gateway.ClientTLSVerify, old.pool() })
	login := func(certs ...tls.Certificate) error {
		return dialAs(t, g.addr, testmysql.AppUser, mysqlconn.TLSRequired, certs...)
	}
	client := old.issue(t, "client", hour, x509.ExtKeyUsageClientAuth)
	must(t, login(client))
	refused := []struct {
		name  string
		certs []tls.Certificate
	}{
		{"none", nil},
		{"of another authority", []tls.Certificate{fresh.issue(t, "client", hour, x509.ExtKeyUsageClientAuth)}},
		{"expired", []tls.Certificate{old.issue(t, "client", time.Now().Add(-time.Minute), x509.ExtKeyUsageClientAuth)}},
		{"a server's", []tls.Certificate{old.issue(t, "client", hour, x509.ExtKeyUsageServerAuth)}},
	}
	for _, c := range refused {
		err := login(c.certs...)
		checkErrno(t, "certificate: "+c.name, err, mysqlwire.ErrnoAccessDenied)
		if err != nil && !strings.Contains(err.Error(), "client certificate") {
			t.Errorf("certificate: %s: the client reads %v", c.name, err)
		}
	}
	if n := g.metric(t, "tare_connections_refused_total", "client-certificate"); n != uint64(len(refused)) {
		t.Errorf("%d refusals are counted, want %d", n, len(refused))
	}
	checkErrno(t, "without TLS", dialAs(t, g.addr, testmysql.AppUser, mysqlconn.TLSDisabled), mysqlwire.ErrnoSecureTransport)

	open := &tls.Config{Certificates: []tls.Certificate{client}}
	kept, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: g.addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSRequired, TLS: open})
	must(t, err)
	defer kept.Close()
	server := fresh.issue(t, "localhost", hour, x509.ExtKeyUsageServerAuth)
	must(t, g.SetCertificates(&server, fresh.pool(), nil))
	checkErrno(t, "the old authority's", login(client), mysqlwire.ErrnoAccessDenied)
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: g.addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSVerifyIdentity,
		TLS: &tls.Config{ServerName: "localhost", RootCAs: fresh.pool(), Certificates: []tls.Certificate{fresh.issue(t, "client", hour, x509.ExtKeyUsageClientAuth)}},
	})
	must(t, err)
	c.Close()
	must(t, kept.Ping(t.Context())) // sessions continue
	if g.SetCertificates(&server, nil, nil) == nil {
		t.Error("the authorities of clients are taken away")
	}
}

// TestBackendCAsReload replaces the authorities for verifying the backend.
func TestBackendCAsReload(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithTLS())
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Backend.TLS, o.Backend.CAs = mysqlconn.TLSVerifyCA, newIssuer(t).pool() })
	err := dialAs(t, g.addr, testmysql.AppUser, mysqlconn.TLSRequired)
	if e, ok := testscript.ServerError(err); !ok || !strings.Contains(e.Message, "certificate") {
		t.Errorf("got %v: a client on TLS reads why the backend's TLS failed", err)
	}
	must(t, g.SetCertificates(nil, nil, s.CA))
	must(t, dialAs(t, g.addr, testmysql.AppUser, mysqlconn.TLSRequired))
}

// TestUnixSocketClients serves clients on a Unix socket. The socket counts as secure, as it does for servers
// and clients, so a password may arrive in clear text, but the gateway does not forward it in clear text.
func TestUnixSocketClients(t *testing.T) {
	subject := testscript.NewSHA2Server(t, "tare", secret)
	for _, c := range []struct {
		name    string
		backend mysqlconn.TLSMode
		client  gateway.ClientTLSMode
		want    mysqlwire.Errno
	}{
		{"mirror", mysqlconn.TLSPreferred, "", 0},
		{"backend required", mysqlconn.TLSRequired, "", 0},
		{"backend off", mysqlconn.TLSDisabled, gateway.ClientTLSRequired, 0},
		{"verify", mysqlconn.TLSRequired, gateway.ClientTLSVerify, mysqlwire.ErrnoAccessDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			back := startWiretap(t, subject.Start(t))
			g := startGateway(t, back.addr, func(o *gateway.Options) {
				o.Backend.TLS, o.ClientTLS, o.ClientCAs = c.backend, c.client, x509.NewCertPool()
				o.Backend.Key.Request = true
			})
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", path)
			must(t, err)
			var accepting sync.WaitGroup
			accepting.Go(func() {
				for {
					nc, err := l.Accept()
					if err != nil {
						return
					}
					g.Accept(nc)
				}
			})
			for range 2 { // by full authentication, then by the fast path
				client, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Network: "unix", Addr: path, User: "tare", Password: secret})
				checkErrno(t, "login", err, c.want)
				if err == nil {
					must(t, client.Ping(t.Context()))
					client.Close()
				}
			}
			if sent, _ := back.take(); strings.Contains(string(sent), secret) {
				t.Error("the backend's leg shows the password")
			}
			l.Close()
			testwait.Group(t, "the listener to close", &accepting)
		})
	}
}

// TestClearMethodsOfPlainClients has a backend with TLS request a password of a client without TLS: the
// gateway does not request it over the insecure connection.
func TestClearMethodsOfPlainClients(t *testing.T) {
	cert, err := mysqlconn.SelfSignedCertificate()
	must(t, err)
	for _, method := range []string{"mysql_clear_password", "sha256_password", "dialog"} {
		back := testscript.Start(t, func(_ int, b *mysqlconn.Conn) {
			h := mysqlwire.Handshake{
				ProtocolVersion: 10, ServerVersion: []byte("8.4.0-script"), AuthData: []byte("12345678901234567890"),
				Capabilities: testscript.Capabilities | mysqlwire.CapSSL, Charset: 45, AuthPlugin: []byte("mysql_native_password"),
			}
			if b.WriteMessage(h.AppendTo(nil)) != nil {
				return
			}
			if p, err := b.ReadExactly(1 << 16); err != nil || !mysqlwire.IsSSLRequest(p) {
				return
			}
			over := tls.Server(b.Socket(), &tls.Config{Certificates: []tls.Certificate{cert}})
			if over.Handshake() != nil {
				return
			}
			b.Upgrade(over)
			if _, err := b.ReadMessage(1 << 16); err == nil {
				asks(b, mysqlwire.AuthSwitchRequest{Plugin: []byte(method), Data: []byte("abcdefghijklmnopqrst\x00")}.AppendTo(nil))
			}
		})
		g := startGateway(t, back, func(o *gateway.Options) {
			o.Backend.TLS, o.ClientTLS = mysqlconn.TLSRequired, gateway.ClientTLSPreferred
		})
		_, err := testscript.Connect(t, g.addr)
		checkErrno(t, method, err, mysqlwire.ErrnoSecureTransport)
		if err != nil && !strings.Contains(err.Error(), method) {
			t.Errorf("got %v, which does not name the method", err)
		}
	}
}
