package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// writeCertificate writes a new self-signed certificate and its key.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	c, err := mysqlconn.SelfSignedCertificate()
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	must(t, err)
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// TestReloadCertificates replaces the TLS files: a reload uses the new ones, and keeps the old ones if one of
// the files is damaged.
func TestReloadCertificates(t *testing.T) {
	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	writeCertificate(t, cert, key)
	writeCertificate(t, ca, filepath.Join(dir, "ca-key.pem"))
	var log strings.Builder
	s := newService(config.Serve{Backend: "127.0.0.1:3306", TLSCert: cert, TLSKey: key, TLSClientCA: ca, BackendTLSCA: ca}, slog.New(slog.NewTextHandler(&log, nil)))
	must(t, s.OpenQueryLog())
	var err error
	s.planner, err = sqlplan.New(sqlplan.Options{CacheBytes: 1 << 20})
	must(t, err)
	certs, err := loadCertificates(s.cfg)
	must(t, err)
	s.gateway, err = gateway.New(gateway.Options{
		Backend: gateway.Backend{Addr: string(s.cfg.Backend), TLS: mysqlconn.TLSVerifyCA, CAs: certs.backendCAs}, Certificate: certs.own,
		ClientTLS: gateway.ClientTLSVerify, ClientCAs: certs.clientCAs, Planner: s.planner, Log: s.Queries, Diag: s.Log,
	})
	must(t, err)
	t.Cleanup(func() {
		s.gateway.Shutdown(context.Background())
		must(t, server.Close(s))
	})
	reload := func(want string) {
		t.Helper()
		log.Reset()
		_ = s.reloadCertificates() // logged
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is %q, want %q", log.String(), want)
		}
	}
	served := func() string { return string(s.gateway.CertificateForClients().Certificate[0]) }
	inFile := func() string {
		t.Helper()
		c, err := tls.LoadX509KeyPair(cert, key)
		must(t, err)
		return string(c.Certificate[0])
	}
	first := served()
	writeCertificate(t, cert, key)
	reload("certificates reloaded")
	if got := served(); got == first || got != inFile() {
		t.Error("the gateway serves the old certificate")
	}
	second := served()
	for _, file := range []string{key, ca} {
		good, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, []byte("damaged"), 0o600))
		reload("certificates not reloaded; the old ones stay in use")
		if served() != second {
			t.Errorf("with a damaged %s the certificate is replaced", filepath.Base(file))
		}
		must(t, os.WriteFile(file, good, 0o600))
	}
	must(t, os.Remove(ca))
	reload("certificates not reloaded")
}

// TestWarnIfInClear checks that the log warns about a listener for MySQL clients that other machines reach
// without TLS.
func TestWarnIfInClear(t *testing.T) {
	for _, c := range []struct {
		ip    string
		mode  gateway.ClientTLSMode
		warns bool
	}{
		{"127.0.0.1", gateway.ClientTLSOff, false},
		{"::1", gateway.ClientTLSOff, false},
		{"0.0.0.0", gateway.ClientTLSOff, true},
		{"192.0.2.1", gateway.ClientTLSOff, true},
		{"0.0.0.0", gateway.ClientTLSPreferred, false},
		{"0.0.0.0", "", false},
	} {
		var log strings.Builder
		warnIfInClear(slog.New(slog.NewTextHandler(&log, nil)), &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 3316}, c.mode)
		if got := strings.Contains(log.String(), `level=WARN msg="MySQL listener without TLS is open to other machines`); got != c.warns {
			t.Errorf("%s with --client-tls %s: %s", c.ip, c.mode, log.String())
		}
	}
}
