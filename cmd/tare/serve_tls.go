package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
)

// certificates are the most recently read TLS files. Each is nil if it is not configured.
type certificates struct {
	own                   *tls.Certificate // for clients
	clientCAs, backendCAs *x509.CertPool
}

func loadCertificates(cfg config.Serve) (c certificates, err error) {
	if c.own, err = server.LoadCertificate("--tls", cfg.TLSCert, cfg.TLSKey); err != nil {
		return c, err
	}
	if c.clientCAs, err = server.LoadCAs("--tls-client-ca", cfg.TLSClientCA); err != nil {
		return c, err
	}
	c.backendCAs, err = server.LoadCAs("--backend-tls-ca", cfg.BackendTLSCA)
	return c, err
}

// reloadCertificates re-reads the TLS files. Open connections keep their certificates.
func (s *service) reloadCertificates() error {
	if s.cfg.TLSCert == "" && s.cfg.TLSClientCA == "" && s.cfg.BackendTLSCA == "" {
		return nil
	}
	c, err := loadCertificates(s.cfg)
	if err == nil {
		err = s.gateway.SetCertificates(c.own, c.clientCAs, c.backendCAs)
	}
	if err == nil {
		s.backendCAs.Store(c.backendCAs)
	}
	if err != nil {
		s.Log.Error("certificates not reloaded; the old ones stay in use", "error", err)
		return fmt.Errorf("reload certificates: %w", err)
	}
	s.Log.Info("certificates reloaded")
	return nil
}
