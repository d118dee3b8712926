package mysqlconn

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/server"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlwire"
)

// credentials makes go-mysql's server use its password cache; with its built-in provider it never requests
// the full authentication of caching_sha2_password.
type credentials map[string]string

func (c credentials) CheckUsername(user string) (bool, error) {
	_, ok := c[user]
	return ok, nil
}

func (c credentials) GetCredential(user string) (string, bool, error) {
	p, ok := c[user]
	return p, ok, nil
}

// startGoMySQL serves logins by go-mysql's server with the given default method until the test ends.
func startGoMySQL(t *testing.T, method string) (addr string, own *rsa.PublicKey) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "go-mysql"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	srv := server.NewServer("8.0.36", gomysql.DEFAULT_COLLATION_ID, method,
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), conf)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				c, err := srv.NewCustomizedConn(nc, credentials{"tare": "secret", "empty": ""}, server.EmptyHandler{})
				if err != nil {
					return
				}
				for c.HandleCommand() == nil {
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

func TestLoginGoMySQL(t *testing.T) {
	for _, method := range []string{PluginNative, PluginSHA2, PluginSHA256} {
		for _, mode := range []TLSMode{TLSDisabled, TLSRequired} {
			t.Run(method+"/"+mode.String(), func(t *testing.T) {
				addr, key := startGoMySQL(t, method)
				own, err := NewKeyPair()
				if err != nil {
					t.Fatal(err)
				}
				requires := method != PluginNative && mode == TLSDisabled
				login := func(key ServerKey) error {
					c, err := Dial(t.Context(), Config{Addr: addr, User: "tare", Password: "secret", TLSMode: mode, ServerKey: key})
					if err != nil {
						return err
					}
					return c.Close()
				}
				err = login(ServerKey{})
				if _, ok := errors.AsType[*ServerKeyError](err); ok != requires || err != nil && !ok {
					t.Errorf("without a key: %v", err)
				}
				addr, key = startGoMySQL(t, method) // which has not cached the password
				if err := login(ServerKey{Key: &own.private.PublicKey}); (err == nil) == requires {
					t.Errorf("with another key: %v", err)
				}
				if err := login(ServerKey{Key: key}); err != nil {
					t.Errorf("with its key: %v", err)
				}
				addr, _ = startGoMySQL(t, method)
				// The second login of caching_sha2_password takes the fast path.
				for range 2 {
					c, err := Dial(t.Context(), Config{Addr: addr, User: "tare", Password: "secret", TLSMode: mode, ServerKey: ServerKey{Request: true}})
					if err != nil {
						t.Fatal(err)
					}
					if c.IsTLS() != (mode == TLSRequired) {
						t.Errorf("tls: %t", c.IsTLS())
					}
					if err := c.Ping(t.Context()); err != nil {
						t.Error(err)
					}
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
				// MySQL's client sends a NUL byte as the empty password of sha256_password; go-mysql's server
				// takes it for RSA without TLS.
				if method != PluginSHA256 || mode != TLSDisabled {
					c, err := Dial(t.Context(), Config{Addr: addr, User: "empty", TLSMode: mode})
					if err != nil {
						t.Errorf("empty password: %v", err)
					} else if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
				_, err = Dial(t.Context(), Config{Addr: addr, User: "tare", Password: "wrong", TLSMode: mode, ServerKey: ServerKey{Request: true}})
				var refused *ServerError
				if !errors.As(err, &refused) || refused.Number != mysqlwire.ErrnoAccessDenied {
					t.Errorf("wrong password: got %v, want error 1045", err)
				}
			})
		}
	}
}
