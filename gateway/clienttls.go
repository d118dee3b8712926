package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysqlwire"
)

// ClientTLSMode says whether clients use TLS.
type ClientTLSMode string

// The modes, by the names of --client-tls.
const (
	ClientTLSOff       ClientTLSMode = "off"       // not offered
	ClientTLSPreferred ClientTLSMode = "preferred" // offered: by TLSMirror, if the server does
	ClientTLSRequired  ClientTLSMode = "required"  // clients without TLS are refused
	ClientTLSVerify    ClientTLSMode = "verify"    // and those without a certificate of Options.ClientCAs
)

func (m ClientTLSMode) required() bool { return m == ClientTLSRequired || m == ClientTLSVerify }

// clientTLSDefault is the mode of clients where none is given. A server that the gateway reaches
// by TLS sees every login as secure, so that it cannot refuse a client without TLS whose account
// requires it.
func (o *Options) clientTLSDefault() ClientTLSMode {
	if o.Backend.TLS.required() || o.Standby != nil && o.Standby.TLS.required() {
		return ClientTLSRequired
	}
	return ClientTLSPreferred
}

func (o *Options) validateClientTLS() error {
	switch o.ClientTLS {
	case ClientTLSOff, ClientTLSPreferred, ClientTLSRequired:
		return nil
	case ClientTLSVerify:
		if o.ClientCAs == nil {
			return fmt.Errorf("client TLS mode %s requires CA certificates", o.ClientTLS)
		}
		return nil
	}
	return fmt.Errorf("client TLS mode %q is unknown", o.ClientTLS)
}

// SetCertificates replaces what the next TLS handshakes use: the certificate for clients, unless
// it is nil, and the authorities of Options.ClientCAs and Backend.CAs. Sessions are not touched.
func (s *Server) SetCertificates(cert *tls.Certificate, clientCAs, backendCAs *x509.CertPool) error {
	if s.opts.ClientTLS == ClientTLSVerify && clientCAs == nil {
		return fmt.Errorf("set certificates: client TLS mode %s requires CA certificates", s.opts.ClientTLS)
	}
	if cert == nil {
		cert = s.opts.Certificate
	}
	s.clientTLS.Store(s.opts.ClientTLS.config(cert, clientCAs))
	for _, t := range s.targets {
		if t != nil {
			t.tls.Store(t.tlsConfig(backendCAs))
		}
	}
	return nil
}

// CertificateForClients is the certificate that the next TLS handshakes of clients use.
func (s *Server) CertificateForClients() tls.Certificate { return s.clientTLS.Load().Certificates[0] }

// config is the configuration of the clients' TLS. A client's certificate is requested here and
// verified after the login is read: a failed TLS handshake has no error that clients show.
func (m ClientTLSMode) config(cert *tls.Certificate, cas *x509.CertPool) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}}
	if m == ClientTLSVerify {
		c.ClientAuth, c.ClientCAs = tls.RequestClientCert, cas
	}
	return c
}

// clientSecure reports whether no one between the client and the gateway can read what the client
// sends: it uses TLS, or a Unix socket, which clients and servers take for secure.
func (s *session) clientSecure() bool { return s.client.IsTLS() || s.local }

// checkClient refuses clients without the TLS or the certificate that is required of them.
func (l *login) checkClient() error {
	mode := l.srv.opts.ClientTLS
	if mode.required() && !l.clientSecure() {
		l.srv.metrics.refusedInsecure.Add(1)
		return l.refuse(&clientError{errno: mysqlwire.ErrnoSecureTransport, msg: fmt.Sprintf(
			"Connections using insecure transport are prohibited: Tare requires TLS (--client-tls %s)", mode)})
	}
	if mode != ClientTLSVerify {
		return nil
	}
	if err := l.verifyClient(); err != nil {
		l.srv.metrics.refusedCertificate.Add(1)
		return l.refuse(&clientError{
			errno:  mysqlwire.ErrnoAccessDenied,
			msg:    "Access denied: Tare requires a client certificate that --tls-client-ca verifies (--client-tls verify)",
			detail: err,
		})
	}
	return nil
}

// verifyClient verifies the client's certificate.
func (l *login) verifyClient() error {
	conn, ok := l.client.NetConn().(*tls.Conn)
	if !ok {
		return errors.New("verify the client's certificate: the connection has no TLS")
	}
	chain := conn.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return errors.New("verify the client's certificate: the client sent none")
	}
	o := x509.VerifyOptions{Roots: l.clientCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(o); err != nil {
		return fmt.Errorf("verify the client's certificate: %w", err)
	}
	return nil
}
