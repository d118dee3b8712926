package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// LoadCAs returns the certificates of the PEM file of an option; nil when there is no file.
func LoadCAs(option, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", option, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("load %s: no certificate in %s: want PEM", option, file)
	}
	return pool, nil
}

// LoadCertificate returns the certificate of the options prefix-cert and prefix-key; nil when there are no files.
func LoadCertificate(prefix, cert, key string) (*tls.Certificate, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load %s-cert and %s-key: %w", prefix, prefix, err)
	}
	return &pair, nil
}

// LoadServerTLS returns the configuration of a server with the certificate of prefix-cert and prefix-key; nil when there are
// no files. Clients require a certificate of prefix-client-ca if that is given.
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

// ClientTLS returns the configuration of clients of servers whose certificates the authorities sign; nil stands for those of
// the system.
func ClientTLS(authorities *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
}
