package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"

	"github.com/taredb/tare/internal/localstate"
)

// LoadCAs returns the certificates of an option's PEM file; nil if the option is not set.
func LoadCAs(option, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := localstate.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", option, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("load %s: no certificate in %s: want PEM", option, file)
	}
	return pool, nil
}

// LoadCertificate returns the certificate of the options prefix-cert and prefix-key; nil if they are not set.
func LoadCertificate(prefix, cert, key string) (*tls.Certificate, error) {
	if cert == "" {
		return nil, nil
	}
	text, err := localstate.ReadFile(cert)
	var pair tls.Certificate
	if err == nil {
		var private []byte
		if private, err = localstate.ReadFile(key); err == nil {
			pair, err = tls.X509KeyPair(text, private)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("load %s-cert and %s-key: %w", prefix, prefix, err)
	}
	return &pair, nil
}

// LoadServerTLS returns the TLS configuration of a server with the certificate of prefix-cert and prefix-key;
// nil if they are not set. If prefix-client-ca is given, it requires a client certificate signed by it.
func LoadServerTLS(prefix, cert, key, clientCA string) (*tls.Config, error) {
	pair, err := LoadCertificate(prefix, cert, key)
	if pair == nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS12}
	if c.ClientCAs, err = LoadCAs(prefix+"-client-ca", clientCA); err != nil {
		return nil, err
	}
	if c.ClientCAs != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// ClientTLS returns the TLS configuration of clients for servers whose certificates the authorities signed;
// nil means the system's.
func ClientTLS(authorities *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
}

// ReloadingServerTLS returns LoadServerTLS with files that are read again for each connection. While they cannot be
// read, the last ones that could stay in use, and the log has one warning per error.
func ReloadingServerTLS(prefix, cert, key, clientCA string, log *slog.Logger) (*tls.Config, error) {
	first, err := LoadServerTLS(prefix, cert, key, clientCA)
	if first == nil {
		return nil, err
	}
	var mu sync.Mutex
	last, reported := first, ""
	c := first.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		fresh, err := LoadServerTLS(prefix, cert, key, clientCA)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			last, reported = fresh, ""
		} else if text := err.Error(); text != reported {
			log.Warn("certificate not reloaded; the previous one stays in use", "error", err)
			reported = text
		}
		return last, nil
	}
	return c, nil
}
