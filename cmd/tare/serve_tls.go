package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/taredb/tare/internal/config"
)

// certificates are the files of TLS as they were read last. Each is nil when it is not configured.
type certificates struct {
	own                   *tls.Certificate // for clients
	clientCAs, backendCAs *x509.CertPool
}

func loadCertificates(cfg config.Serve) (c certificates, err error) {
	if cfg.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return c, fmt.Errorf("load --tls-cert and --tls-key: %w", err)
		}
		c.own = &cert
	}
	if c.clientCAs, err = loadCAs("--tls-client-ca", cfg.TLSClientCA); err != nil {
		return c, err
	}
	c.backendCAs, err = loadCAs("--backend-tls-ca", cfg.BackendTLSCA)
	return c, err
}

// loadCAs returns the certificates of a file; nil when there is none.
func loadCAs(option, file string) (*x509.CertPool, error) {
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

// reloadCertificates reads the files of TLS again. Connections that are open keep their own.
func (s *service) reloadCertificates() {
	if s.cfg.TLSCert == "" && s.cfg.TLSClientCA == "" && s.cfg.BackendTLSCA == "" {
		return
	}
	c, err := loadCertificates(s.cfg)
	if err == nil {
		err = s.gateway.SetCertificates(c.own, c.clientCAs, c.backendCAs)
	}
	if err != nil {
		s.log.Error("certificates not reloaded; the old ones stay in use", "error", err)
		return
	}
	s.log.Info("certificates reloaded")
}
