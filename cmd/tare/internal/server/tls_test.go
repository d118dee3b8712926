package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// writeCertificate writes a self-signed certificate and its key.
func writeCertificate(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "store"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReloadingServerTLS replaces the files of a certificate between connections, also by ones that do not fit.
func TestReloadingServerTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key, 1)
	var text bytes.Buffer
	c, err := ReloadingServerTLS("--grpc-tls", cert, key, "", slog.New(slog.NewTextHandler(&text, nil)))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		client, server := net.Pipe()
		defer client.Close()
		done := make(chan error, 1)
		go func() { done <- tls.Server(server, c).Handshake() }()
		conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // only the serial number is checked
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := testwait.Receive(t, "the server's handshake", done); err != nil {
			t.Fatal(err)
		}
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Errorf("certificate %d, want 1", n)
	}
	writeCertificate(t, cert, key, 2)
	if n := serial(); n != 2 {
		t.Errorf("after the replacement: certificate %d, want 2", n)
	}
	writeCertificate(t, filepath.Join(dir, "other.pem"), key, 3) // the key of another certificate
	for range 2 {
		if n := serial(); n != 2 {
			t.Errorf("with files that do not fit: certificate %d, want 2", n)
		}
	}
	if n := strings.Count(text.String(), "level=WARN"); n != 1 || !strings.Contains(text.String(), "--grpc-tls-cert") {
		t.Errorf("%d warnings: %s", n, text.String())
	}
	writeCertificate(t, cert, key, 4)
	if n := serial(); n != 4 {
		t.Errorf("with fitting files: certificate %d, want 4", n)
	}
	writeCertificate(t, filepath.Join(dir, "other.pem"), key, 5)
	if n := serial(); n != 4 {
		t.Errorf("with files that do not fit again: certificate %d, want 4", n)
	}
	if n := strings.Count(text.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings after the second error: %s", n, text.String())
	}
	if none, err := ReloadingServerTLS("--grpc-tls", "", "", "", nil); none != nil || err != nil {
		t.Errorf("without files: %v, %v", none, err)
	}
	if _, err := ReloadingServerTLS("--grpc-tls", "absent.pem", key, "", nil); err == nil {
		t.Error("a missing file is accepted at the start")
	}
}
