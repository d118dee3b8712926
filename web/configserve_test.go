package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate writes a certificate for localhost with a serial number, and its key.
func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: certificate}, keyFile: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConfigServes serves with and without a certificate, with HTTP/2 and without it; the file and the certificate are read for each connection.
func TestConfigServes(t *testing.T) {
	dir := t.TempDir()
	name, certFile, keyFile := filepath.Join(dir, "web.yml"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	const encrypted = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nhttp_server_config: {headers: {X-Frame-Options: deny}}\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// request returns the protocol, the serial number of the certificate (0: no TLS) and the header of a response.
	request := func(url string) (proto string, serial int64, header string, err error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true} //nolint:gosec // the serial number is compared
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get(url)
		if err != nil {
			return "", 0, "", err
		}
		defer resp.Body.Close()
		if resp.TLS != nil {
			serial = resp.TLS.PeerCertificates[0].SerialNumber.Int64()
		}
		return resp.Proto, serial, resp.Header.Get("X-Frame-Options"), nil
	}
	for _, c := range []struct {
		text, scheme, proto string
		serial              int64
		header              string
	}{
		{"", "http", "HTTP/1.1", 0, ""},
		{encrypted, "https", "HTTP/2.0", 1, "deny"},
		{strings.Replace(encrypted, "headers:", "http2: false, headers:", 1), "https", "HTTP/1.1", 1, "deny"},
	} {
		writeCertificate(t, certFile, keyFile, 1)
		write(c.text)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Minute}
		served := make(chan error, 1)
		go func() { served <- configFile(name).serve(l, s) }()
		url := c.scheme + "://" + l.Addr().String()
		if proto, serial, header, err := request(url); err != nil || proto != c.proto || serial != c.serial || header != c.header {
			t.Errorf("%q: %s, certificate %d, header %q, %v", c.text, proto, serial, header, err)
		}
		if c.serial > 0 {
			writeCertificate(t, certFile, keyFile, 2)
			if proto, serial, _, err := request(url); err != nil || proto != c.proto || serial != 2 {
				t.Errorf("%q, another certificate: %s, certificate %d, %v", c.text, proto, serial, err)
			}
			for _, text := range []string{"", "nonsense: 1\n"} {
				write(text)
				if proto, _, _, err := request(url); err == nil {
					t.Errorf("%q became %q: %s", c.text, text, proto)
				}
			}
			write(c.text)
			if _, _, _, err := request(url); err != nil {
				t.Errorf("%q again: %v", c.text, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
	write(encrypted)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if err := configFile(name).serve(nil, new(http.Server)); err == nil {
		t.Error("served without a key")
	}
}
