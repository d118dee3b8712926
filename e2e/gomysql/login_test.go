package gomysql

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
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
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// Challenges in wire form: the first has a NUL byte after it.
var (
	challenge20 = append([]byte("abcdefghijklmnopqrst"), 0)
	challenge32 = []byte("abcdefghijklmnopqrstuvwxyz012345")
)

var passwords = []string{"", "a", "secret", "pässwörd", strings.Repeat("long ", 30)}

func TestScramblesAgree(t *testing.T) {
	for _, p := range passwords {
		if got, want := mysqlconn.ScrambleNative(p, challenge20), gomysql.CalcPassword(challenge20[:20], []byte(p)); !bytes.Equal(got, want) {
			t.Errorf("native %q:\n got %x\nwant %x", p, got, want)
		}
		if got, want := mysqlconn.ScrambleSHA2(p, challenge20), gomysql.CalcCachingSha2Password(challenge20[:20], p); !bytes.Equal(got, want) {
			t.Errorf("sha2 %q:\n got %x\nwant %x", p, got, want)
		}
		got, err := mysqlconn.SignEd25519(p, challenge32)
		want, wantErr := gomysql.CalcEd25519Password(challenge32, p)
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("ed25519 %q:\n got %x, %v\nwant %x, %v", p, got, err, want, wantErr)
		}
	}
}

// TestRSA decrypts passwords that go-mysql has encrypted.
func TestRSA(t *testing.T) {
	pair, err := mysqlconn.NewKeyPair()
	must(t, err)
	key, err := mysqlconn.ParsePublicKey(pair.PublicPEM())
	must(t, err)
	for _, p := range passwords {
		secret, err := gomysql.EncryptPassword(p, challenge20[:20], key)
		must(t, err)
		if got, err := pair.DecryptPassword(secret, challenge20); err != nil || got != p {
			t.Errorf("decrypt %q: got %q, %v", p, got, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// credentials are the accounts of go-mysql's server. It looks up a password only to compare it, that is, in
// full authentication, which its built-in accounts never request for caching_sha2_password.
type credentials struct {
	passwords map[string]string
	requested atomic.Int64
}

func (c *credentials) CheckUsername(user string) (bool, error) {
	_, ok := c.passwords[user]
	return ok, nil
}

func (c *credentials) GetCredential(user string) (string, bool, error) {
	c.requested.Add(1)
	p, ok := c.passwords[user]
	return p, ok, nil
}

// serverKey returns the key of all servers, which takes long to generate.
var serverKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// startServer serves logins by go-mysql's server with the given default method until the test ends.
func startServer(t *testing.T, method string, accounts *credentials) (addr string, public *rsa.PublicKey) {
	t.Helper()
	key, err := serverKey()
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "go-mysql"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	text, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	srv := server.NewServer("8.0.36", gomysql.DEFAULT_COLLATION_ID, method, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: text}),
		&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
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
				c, err := srv.NewCustomizedConn(nc, accounts, server.EmptyHandler{})
				for err == nil {
					err = c.HandleCommand()
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		testwait.Group(t, "the server's goroutines", &wg)
	})
	return l.Addr().String(), &key.PublicKey
}

// TestLogins logs in to go-mysql's server by each method, with and without TLS.
func TestLogins(t *testing.T) {
	for _, method := range []string{mysqlconn.PluginNative, mysqlconn.PluginSHA2, mysqlconn.PluginSHA256} {
		for _, mode := range []mysqlconn.TLSMode{mysqlconn.TLSDisabled, mysqlconn.TLSRequired} {
			t.Run(method+"/"+mode.String(), func(t *testing.T) {
				accounts := &credentials{passwords: map[string]string{"tare": "secret", "empty": ""}}
				addr, key := startServer(t, method, accounts)
				pair, err := mysqlconn.NewKeyPair()
				must(t, err)
				another, err := mysqlconn.ParsePublicKey(pair.PublicPEM())
				must(t, err)
				requires := method != mysqlconn.PluginNative && mode == mysqlconn.TLSDisabled
				login := func(user, password string, key mysqlconn.ServerKey) error {
					c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: addr, User: user, Password: password, TLSMode: mode, ServerKey: key})
					if err != nil {
						return err
					}
					if c.IsTLS() != (mode == mysqlconn.TLSRequired) {
						t.Errorf("tls: %t", c.IsTLS())
					}
					return errors.Join(c.Ping(t.Context()), c.Close())
				}
				err = login("tare", "secret", mysqlconn.ServerKey{})
				if _, ok := errors.AsType[*mysqlconn.ServerKeyError](err); ok != requires || err != nil && !ok {
					t.Errorf("without a key: %v", err)
				}
				addr, key = startServer(t, method, accounts) // which has not cached the password
				if err := login("tare", "secret", mysqlconn.ServerKey{Key: another}); (err == nil) == requires {
					t.Errorf("with another key: %v", err)
				}
				if err := login("tare", "secret", mysqlconn.ServerKey{Key: key}); err != nil {
					t.Errorf("with its key: %v", err)
				}
				addr, _ = startServer(t, method, accounts)
				for range 2 { // the second login of caching_sha2_password takes the fast path
					must(t, login("tare", "secret", mysqlconn.ServerKey{Request: true}))
				}
				// MySQL's client sends a NUL byte as the empty password of sha256_password; go-mysql's server
				// takes it for RSA without TLS.
				if method != mysqlconn.PluginSHA256 || mode != mysqlconn.TLSDisabled {
					if err := login("empty", "", mysqlconn.ServerKey{}); err != nil {
						t.Errorf("empty password: %v", err)
					}
				}
				err = login("tare", "wrong", mysqlconn.ServerKey{Request: true})
				if refused, ok := errors.AsType[*mysqlconn.ServerError](err); !ok || refused.Number != mysqlwire.ErrnoAccessDenied {
					t.Errorf("wrong password: got %v, want error 1045", err)
				}
			})
		}
	}
}

// startGateway runs a gateway in front of a server until the test ends.
func startGateway(t *testing.T, backend string, mode mysqlconn.TLSMode) (addr string) {
	t.Helper()
	planner, err := sqlplan.New(sqlplan.Options{})
	must(t, err)
	log, err := querylog.New(querylog.Options{RingBytes: -1})
	must(t, err)
	g, err := gateway.New(gateway.Options{
		Backend: gateway.Backend{Addr: backend, TLS: mode, Key: mysqlconn.ServerKey{Request: true}}, ClientTLS: gateway.ClientTLSPreferred,
		Planner: planner, Log: log, Diag: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		g.Shutdown(ctx)
		must(t, testwait.Receive(t, "Serve to return", served))
		must(t, log.Close(ctx))
	})
	return l.Addr().String()
}

// TestGatewayLogins logs in to go-mysql's server through a gateway by caching_sha2_password, with every combination of TLS on
// the two connections, by clients that share no code.
func TestGatewayLogins(t *testing.T) {
	const off, on = mysqlconn.TLSDisabled, mysqlconn.TLSRequired
	for _, c := range []struct {
		name   string
		client mysqlconn.TLSMode
		mode   mysqlconn.TLSMode
	}{
		{"plain, mirrored: RSA end to end", off, mysqlconn.TLSPreferred},
		{"TLS, mirrored", on, mysqlconn.TLSPreferred},
		{"TLS to plain: RSA from the gateway", on, off},
		{"plain to TLS: RSA to the gateway", off, on},
		{"plain, off", off, off},
		{"TLS, required", on, on},
	} {
		logins := map[string]func(addr, password string) (errno uint16, err error){
			"go-sql-driver": func(addr, password string) (errno uint16, err error) {
				cfg := mysql.NewConfig()
				cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = "tare", password, "tcp", addr
				if c.client == on {
					cfg.TLSConfig = "skip-verify"
				}
				connector, err := mysql.NewConnector(cfg)
				if err != nil {
					return 0, err
				}
				conn, err := connector.Connect(t.Context())
				if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
					errno = refused.Number
				}
				if err == nil {
					err = conn.Close()
				}
				return errno, err
			},
			"mysqlconn": func(addr, password string) (errno uint16, err error) {
				conn, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
					Addr: addr, User: "tare", Password: password, TLSMode: c.client, ServerKey: mysqlconn.ServerKey{Request: true},
				})
				if refused, ok := errors.AsType[*mysqlconn.ServerError](err); ok {
					errno = uint16(refused.Number)
				}
				if err == nil {
					err = errors.Join(conn.Ping(t.Context()), conn.Close())
				}
				return errno, err
			},
		}
		for driver, login := range logins {
			t.Run(c.name+"/"+driver, func(t *testing.T) {
				accounts := &credentials{passwords: map[string]string{"tare": "secret"}}
				backend, _ := startServer(t, mysqlconn.PluginSHA2, accounts)
				addr := startGateway(t, backend, c.mode)
				for _, try := range []struct {
					password  string
					requested bool // by the server: the password, not only its hash
					errno     uint16
				}{
					{"wrong", true, 1045}, {"secret", true, 0}, {"secret", false, 0}, {"wrong", false, 1045}, {"", true, 1045},
				} {
					before := accounts.requested.Load()
					errno, err := login(addr, try.password)
					if errno != try.errno || (err == nil) != (try.errno == 0) {
						t.Errorf("password %q: got %v, want error %d", try.password, err, try.errno)
					}
					if requested := accounts.requested.Load() > before; requested != try.requested {
						t.Errorf("password %q: full authentication %t, want %t", try.password, requested, try.requested)
					}
				}
			})
		}
	}
}
