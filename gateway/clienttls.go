package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// ClientTLSMode is the policy for TLS on client connections.
type ClientTLSMode string

// The modes by their names in --client-tls.
const (
	ClientTLSOff       ClientTLSMode = "off"       // not offered
	ClientTLSPreferred ClientTLSMode = "preferred" // offered; with TLSPreferred to the server, only if the server offers it
	ClientTLSRequired  ClientTLSMode = "required"  // clients without TLS are refused
	ClientTLSVerify    ClientTLSMode = "verify"    // and those without a certificate of Options.ClientCAs
)

func (m ClientTLSMode) required() bool { return m == ClientTLSRequired || m == ClientTLSVerify }

// clientTLSDefault returns the mode used if none is configured. A server that the gateway reaches over TLS
// sees every login as secure, so it cannot refuse a client without TLS whose account requires TLS: the
// gateway has to.
func (o *Options) clientTLSDefault() ClientTLSMode {
	if o.Backend.TLS.Required() || o.Standby != nil && o.Standby.TLS.Required() {
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

// SetCertificates replaces the certificates for future TLS handshakes: the certificate for clients, unless it
// is nil, and the authorities of Options.ClientCAs and Backend.CAs. Open connections keep theirs.
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

// CertificateForClients returns the certificate used by future TLS handshakes of clients.
func (s *Server) CertificateForClients() tls.Certificate { return s.clientTLS.Load().Certificates[0] }

// config returns the TLS configuration for client connections. A client's certificate is requested here and
// verified after the login is read, because clients do not show the error of a failed TLS handshake.
func (m ClientTLSMode) config(cert *tls.Certificate, cas *x509.CertPool) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}}
	if m == ClientTLSVerify {
		c.ClientAuth, c.ClientCAs = tls.RequestClientCert, cas
	}
	return c
}

// checkClient refuses clients that lack the required TLS or certificate.
func (l *login) checkClient() error {
	mode := l.srv.opts.ClientTLS
	if mode.required() && !l.clientSecure() {
		l.srv.metrics.refusedInsecure.Add(1)
		return l.refuse(&clientError{errno: mysqlwire.ErrnoSecureTransport, msg: fmt.Sprintf(
			"Connections using insecure transport are prohibited: Tare requires TLS (option client-tls %s)", mode)})
	}
	if mode != ClientTLSVerify {
		return nil
	}
	if err := l.verifyClient(); err != nil {
		l.srv.metrics.refusedCertificate.Add(1)
		return l.refuse(&clientError{
			errno:  mysqlwire.ErrnoAccessDenied,
			msg:    "Access denied: Tare requires a client certificate that option tls-client-ca verifies (option client-tls verify)",
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

// A recordConn is a client's connection below TLS. It follows the records that the client sends: crypto/tls does not report
// whether the last one was the notice of the end (close_notify).
type recordConn struct {
	net.Conn
	header [recordHeader]byte // of the current record, or of the last one
	read   int                // bytes of header
	left   int                // bytes of the current record after the header
}

// Sizes and types of TLS records.
const (
	recordHeader = 5 // type, version, length
	recordAlert  = 21
	recordData   = 23
	sealedAlert  = 2 + 1 + 16 // an alert of TLS 1.3: level and description, its type, the tag
)

// Read implements net.Conn.
func (c *recordConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		if c.left == 0 && c.read == recordHeader {
			c.read = 0
		}
		k := copy(c.header[c.read:], b)
		c.read, b = c.read+k, b[k:]
		if k > 0 && c.read == recordHeader {
			c.left = int(binary.BigEndian.Uint16(c.header[3:]))
		}
		k = min(c.left, len(b))
		c.left, b = c.left-k, b[k:]
	}
	return n, err
}

// endsWithAlert reports whether the last record is complete and an alert. No record of a command is as short as TLS 1.3's.
func (c *recordConn) endsWithAlert() bool {
	if c.left > 0 || c.read < recordHeader {
		return false
	}
	return c.header[0] == recordAlert || c.header[0] == recordData && binary.BigEndian.Uint16(c.header[3:]) == sealedAlert
}
