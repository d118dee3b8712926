package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
)

const accountPassword = "c0rrect-horse"

// An authority signs certificates of servers.
type authority struct {
	file string // PEM
	pool *x509.CertPool
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem"), pool: x509.NewCertPool(), cert: cert, key: key}
	a.pool.AddCert(cert)
	must(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

// sign returns the certificate of a server.
func (a *authority) sign(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// impostors returns the certificates and keys of servers that take another one's place.
func impostors(t *testing.T) (a *authority, certificates map[string]*tls.Certificate, key *mysqlconn.KeyPair) {
	t.Helper()
	a = newAuthority(t)
	self, err := mysqlconn.SelfSignedCertificate("127.0.0.1")
	must(t, err)
	key, err = mysqlconn.NewKeyPair()
	must(t, err)
	return a, map[string]*tls.Certificate{"no TLS": nil, "a self-signed certificate": &self, "another server's certificate": a.sign(t, "db.example")}, key
}

// worse returns the greater of two results of Impostor.Learned.
func worse(a, b string) string {
	order := []string{testscript.LearnedNothing, testscript.LearnedLogin, testscript.LearnedPassword}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// TestImpostors logs in to every impostor in every mode, and compares what the worst method learns with the table of
// docs/operate/tls.md.
func TestImpostors(t *testing.T) {
	a, certificates, pair := impostors(t)
	own, err := mysqlconn.NewKeyPair() // the server's
	must(t, err)
	known, err := mysqlconn.ParsePublicKey(own.PublicPEM())
	must(t, err)
	learns := func(l leg, cert *tls.Certificate) (worst string) {
		t.Helper()
		worst = testscript.LearnedNothing
		for _, method := range testscript.Methods {
			i := &testscript.Impostor{Certificate: cert, Method: method, Password: accountPassword, Key: pair}
			u := config.ControlURL{User: "app", Password: config.NewSecret(accountPassword), Addr: config.Address(i.Start(t))}
			if c, err := mysqlconn.Dial(t.Context(), l.server(u)); err == nil {
				c.Close()
				t.Errorf("%s: an impostor let the client in", method)
			} else if strings.Contains(err.Error(), accountPassword) {
				t.Errorf("%s: %v", method, err)
			}
			learned, listener := i.Learned()
			if listener {
				t.Errorf("%v, %s: a listener on the network sees the password", l.mode, method)
			}
			worst = worse(worst, learned)
		}
		return worst
	}
	var table strings.Builder
	modes := []mysqlconn.TLSMode{mysqlconn.TLSDisabled, mysqlconn.TLSPreferred, mysqlconn.TLSRequired, mysqlconn.TLSVerifyCA, mysqlconn.TLSVerifyIdentity}
	table.WriteString("| the other server has |")
	for _, m := range modes {
		fmt.Fprintf(&table, " `%v` |", m)
	}
	table.WriteString("\n|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name, cert string
		key        mysqlconn.ServerKey
	}{
		{"no TLS", "no TLS", mysqlconn.ServerKey{}},
		{"no TLS, with `…-public-key`", "no TLS", mysqlconn.ServerKey{Key: known}},
		{"no TLS, with `…-get-public-key`", "no TLS", mysqlconn.ServerKey{Request: true}},
		{"a self-signed certificate", "a self-signed certificate", mysqlconn.ServerKey{}},
		{"another server's certificate", "another server's certificate", mysqlconn.ServerKey{}},
	} {
		table.WriteString("| " + row.name + " |")
		for _, m := range modes {
			got := learns(leg{mode: m, authorities: a.pool, key: row.key}, certificates[row.cert])
			table.WriteString(" " + got + " |")
			if got == testscript.LearnedPassword && (m == mysqlconn.TLSVerifyIdentity || row.cert == "no TLS" && !row.key.Request) {
				t.Errorf("%s, %v: the password", row.name, m)
			}
		}
		table.WriteByte('\n')
	}
	text, err := os.ReadFile("../../docs/operate/tls.md")
	must(t, err)
	if !bytes.Contains(text, []byte(table.String())) {
		t.Errorf("docs/operate/tls.md has another table than\n%s", &table)
	}
}

// A tried is one combination of options and an impostor of the commands' tests.
type tried struct {
	tls, cert, method string
	getKey            bool
	want              string
}

func attempts() (all []tried) {
	for _, method := range []string{mysqlconn.PluginSHA256, mysqlconn.PluginSHA2, mysqlconn.PluginClear} {
		for _, cert := range []string{"no TLS", "a self-signed certificate", "another server's certificate"} {
			all = append(all, tried{"verify-identity", cert, method, true, testscript.LearnedNothing})
		}
	}
	return append(all,
		tried{"", "no TLS", mysqlconn.PluginSHA256, false, testscript.LearnedLogin},
		tried{"", "no TLS", mysqlconn.PluginSHA2, false, testscript.LearnedLogin},
		tried{"", "no TLS", mysqlconn.PluginSHA2, true, testscript.LearnedPassword},
		tried{"", "another server's certificate", mysqlconn.PluginClear, false, testscript.LearnedLogin},
		tried{"verify-ca", "a self-signed certificate", mysqlconn.PluginSHA256, false, testscript.LearnedNothing},
		tried{"required", "no TLS", mysqlconn.PluginSHA256, true, testscript.LearnedNothing},
	)
}

// TestImpostorsOfCommands runs the commands that log in to servers against impostors.
func TestImpostorsOfCommands(t *testing.T) {
	a, certificates, pair := impostors(t)
	s := testmysql.Shared(t)
	must(t, s.Exec("CREATE TABLE IF NOT EXISTS impostors (id INT PRIMARY KEY)"))
	table := s.Name + ".impostors"
	source := "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + s.Addr
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for name, c := range map[string]struct {
		prefix, ca string
		args       func(account string) []string
	}{
		"copy, source": {"from", "--tls-ca", func(account string) []string {
			return []string{"copy", "--from", account, "--to", "file://" + t.TempDir(), "--tables", table}
		}},
		"copy, target": {"to", "--tls-ca", func(account string) []string {
			return []string{"copy", "--from", source, "--to", account, "--tables", table, "--patience", "0"}
		}},
		"copy --verify": {"to", "--tls-ca", func(account string) []string {
			return []string{"copy", "--from", source, "--to", account, "--tables", table, "--patience", "0", "--verify"}
		}},
		"alter": {"on", "--tls-ca", func(account string) []string {
			return []string{"alter", "--on", account, "--table", table, "ADD COLUMN n INT"}
		}},
		"alter list": {"on", "--tls-ca", func(account string) []string {
			return []string{"alter", "list", "--on", account}
		}},
		"rowstream": {"from", "--from-ca", func(account string) []string {
			return []string{"rowstream", "--from", account, "--listen", "127.0.0.1:0", "--http", "off"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, try := range attempts() {
				i := &testscript.Impostor{Certificate: certificates[try.cert], Method: try.method, Password: accountPassword, Key: pair}
				args := c.args("mysql://app:" + accountPassword + "@" + i.Start(t))
				if try.tls != "" {
					args = append(args, "--"+c.prefix+"-tls", try.tls)
				}
				if strings.HasPrefix(try.tls, "verify") {
					args = append(args, c.ca, a.file)
				}
				if try.getKey {
					args = append(args, "--"+c.prefix+"-get-public-key")
				}
				var out bytes.Buffer
				code := run(t.Context(), args, &out, &out)
				if refused := code == exitUsage; code == exitOK || refused != (try.getKey && try.tls != "") { // with TLS no key is used
					t.Fatalf("%+v: exit %d: %s", try, code, &out)
				}
				learned, listener := i.Learned()
				if learned != try.want || listener || strings.Contains(out.String(), accountPassword) {
					t.Errorf("%+v: an impostor learns %s, listener %t: %s", try, learned, listener, &out)
				}
				if try.want == testscript.LearnedLogin && try.cert == "no TLS" && !strings.Contains(out.String(), "--"+c.prefix+"-get-public-key") {
					t.Errorf("%+v: the error does not say what to do: %s", try, &out)
				}
			}
		})
	}
}

// TestHostileErrors runs commands against a server whose error would change what a terminal shows.
func TestHostileErrors(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	var every strings.Builder
	for r := rune(0); r <= 0xffff; r++ {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			every.WriteRune(r)
		}
	}
	i := &testscript.Impostor{Method: mysqlconn.PluginNative, Password: accountPassword, Message: "no\n\x1b]0;owned\a\x1b[2J\rtare: all is well\n" + every.String() + "\xff"}
	account := "mysql://app:x@" + i.Start(t)
	for _, args := range [][]string{
		{"copy", "--from", account, "--to", "file://" + t.TempDir(), "--tables", "a.b"},
		{"copy", "--from", account, "--to", "file://" + t.TempDir(), "--tables", "a.b", "--json"},
		{"alter", "--on", account, "--table", "a.b", "ADD COLUMN n INT"},
		{"alter", "list", "--on", account},
		{"rowstream", "--from", account, "--listen", "127.0.0.1:0", "--http", "off"},
		{"rowstream", "--from", account, "--listen", "127.0.0.1:0", "--http", "off", "--diag-format", "json"},
		{"copy", "--from", "mysql://a@b", "--to", "file:///x", "--tables", "a.b", "--where", "\x1b[2J\u202e"}, // an argument is echoed
	} {
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code == exitOK {
			t.Errorf("%q: exit 0", args)
		}
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "tare: all") || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool {
				return r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
			}) || !utf8.ValidString(line) {
				t.Errorf("%q prints %q", args, line)
			}
		}
		if len(args) < 9 && !strings.Contains(out.String(), "owned") {
			t.Errorf("%q does not print the error: %q", args, &out)
		}
	}
}

// TestImpostorsOfServe does the same with the connections of tare serve.
func TestImpostorsOfServe(t *testing.T) {
	a, certificates, pair := impostors(t)
	for _, try := range attempts() {
		flags := func(addr string) map[string]string {
			account := "mysql://app:" + accountPassword + "@" + addr
			all := map[string]string{"backend": addr, "control": account, "copies": account, "client-tls": "preferred", "cpus": "1"} // each gateway raises GOMAXPROCS above its loops
			if try.tls != "" {
				all["backend-tls"] = try.tls
			}
			if strings.HasPrefix(try.tls, "verify") {
				all["backend-tls-ca"] = a.file
			}
			if try.getKey && try.tls == "" { // with TLS no key is used
				all["backend-get-public-key"], all["copies-get-public-key"] = "true", "true"
			}
			return all
		}
		for name, use := range map[string]func(ctx context.Context, s *service, addr string) error{
			"kill":   func(_ context.Context, s *service, addr string) error { return s.options.Kill(addr, 1) },
			"counts": func(ctx context.Context, s *service, _ string) error { return connect(ctx, s) },
			"copies": func(ctx context.Context, s *service, _ string) error {
				if c := (&copySearch{target: s.cfg.Copies, through: s.copiesLeg}).find(ctx); len(c.Problems) == 0 {
					return nil
				}
				return io.EOF
			},
			"probe": func(ctx context.Context, s *service, _ string) error {
				_ = s.gateway.Ready(ctx) // a denied login is a server that is ready
				return io.EOF
			},
			"client": func(ctx context.Context, s *service, _ string) error { return logInThrough(ctx, s) },
		} {
			i := &testscript.Impostor{Certificate: certificates[try.cert], Method: try.method, Password: accountPassword, Key: pair}
			addr := i.Start(t)
			s := gatewayOf(t, flags(addr))
			if err := use(t.Context(), s, addr); err == nil || strings.Contains(err.Error(), accountPassword) {
				t.Errorf("%s, %+v: %v", name, try, err)
			}
			want := try.want
			if name == "client" { // which sends its password in clear over its own TLS if it is asked
				switch {
				case try.tls == "" && try.cert != "no TLS":
					want = testscript.LearnedPassword // mirrored: the backend is not verified
				case try.tls == "" && try.getKey:
					want = testscript.LearnedLogin // without TLS there is none for the client either
				}
			}
			learned, listener := i.Learned()
			if worse(learned, want) != want || listener {
				t.Errorf("%s, %+v: an impostor learns %s, listener %t", name, try, learned, listener)
			}
			if name != "client" && learned != want {
				t.Errorf("%s, %+v: an impostor learns %s, want %s", name, try, learned, want)
			}
		}
	}
}

// gatewayOf returns a service with the options of flags and a running gateway.
func gatewayOf(t *testing.T, flags map[string]string) *service {
	t.Helper()
	cfg := config.NewServe()
	if _, err := cfg.Load(config.Input{Flags: flags}); err != nil {
		t.Fatal(err)
	}
	s := newService(*cfg, slog.New(slog.DiscardHandler))
	must(t, s.Check())
	must(t, s.OpenQueryLog())
	s.options.Log = s.Queries
	var err error
	s.gateway, err = gateway.New(s.options)
	must(t, err)
	t.Cleanup(func() {
		s.gateway.Shutdown(context.Background())
		must(t, server.Close(s))
	})
	return s
}

// connect connects as the readers of counts and plans do.
func connect(ctx context.Context, s *service) error {
	c := serverstats.NewClient(s.controlLogin)
	defer c.Close()
	_, err := c.Conn(ctx)
	return err
}

// logInThrough logs in through the gateway as a client that sends its password whenever it is asked.
func logInThrough(ctx context.Context, s *service) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = s.gateway.Serve(l) }()
	cfg := mysqlconn.Config{Addr: l.Addr().String(), User: "app", Password: accountPassword, AllowClearText: true}
	c, err := mysqlconn.Dial(ctx, cfg)
	if err == nil {
		c.Close()
	}
	return err
}
