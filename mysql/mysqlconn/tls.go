package mysqlconn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A TLSMode specifies whether a client connection uses TLS and which checks it performs, with the names of
// MySQL's --ssl-mode.
type TLSMode uint8

// The modes, from the default on. Only the last two protect against an active attacker.
const (
	TLSPreferred      TLSMode = iota // TLS if the server offers it and it is not a unix socket
	TLSDisabled                      // never
	TLSRequired                      // TLS with any certificate
	TLSVerifyCA                      // TLS, and the certificate's chain leads to a trusted authority
	TLSVerifyIdentity                // TLS, the chain, and the certificate names the host
)

var tlsModes = [...]string{
	TLSPreferred: "preferred", TLSDisabled: "disabled", TLSRequired: "required",
	TLSVerifyCA: "verify-ca", TLSVerifyIdentity: "verify-identity",
}

// Valid reports whether m is one of the modes.
func (m TLSMode) Valid() bool { return int(m) < len(tlsModes) }

// Required reports whether connections without TLS fail.
func (m TLSMode) Required() bool { return m >= TLSRequired }

// String returns the mode's name.
func (m TLSMode) String() string {
	if m.Valid() {
		return tlsModes[m]
	}
	return fmt.Sprintf("tls mode %d", uint8(m))
}

// ParseTLSMode returns the mode with the given name.
func ParseTLSMode(s string) (TLSMode, error) {
	for m, name := range tlsModes {
		if s == name {
			return TLSMode(m), nil
		}
	}
	return 0, fmt.Errorf("unknown tls mode %q: want disabled, preferred, required, verify-ca or verify-identity", s)
}

// ClientTLS returns the TLS configuration of a mode based on base, which may be nil. host is the name that
// the certificate must have under TLSVerifyIdentity.
func ClientTLS(mode TLSMode, base *tls.Config, host string) *tls.Config {
	c := &tls.Config{}
	if base != nil {
		c = base.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = host
	}
	if c.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	switch mode {
	case TLSVerifyIdentity:
		c.InsecureSkipVerify = false
	case TLSVerifyCA:
		// crypto/tls checks both chain and name or neither: it is configured to check neither, and the chain
		// is checked here.
		c.InsecureSkipVerify = true
		roots := c.RootCAs
		c.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, roots) }
	default:
		c.InsecureSkipVerify = true
	}
	return c
}

func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("verify the server's certificate: it sent none")
	}
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := s.PeerCertificates[0].Verify(o); err != nil {
		return fmt.Errorf("verify the server's certificate: %w", err)
	}
	return nil
}

// A TLSError reports that a server does not have TLS as required: none, or another certificate.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *TLSError) Unwrap() error { return e.Err }

// StartTLS starts TLS on a client connection: it sends the SSLRequest, which must be the next packet, and
// performs the TLS handshake. Bytes that the server sent before are an error: they did not come through TLS.
func (c *Conn) StartTLS(ctx context.Context, r mysqlwire.SSLRequest, config *tls.Config) error {
	if len(c.Buffered()) > 0 {
		return errors.New("start tls: the server sent data before the TLS handshake")
	}
	if err := c.WriteMessage(r.AppendTo(nil)); err != nil {
		return fmt.Errorf("request tls: %w", err)
	}
	t := tls.Client(c.NetConn(), config)
	if err := t.HandshakeContext(ctx); err != nil {
		return &TLSError{fmt.Errorf("tls handshake: %w", err)}
	}
	c.Upgrade(t)
	return nil
}

// selfSignedLife is the validity of a self-signed certificate; a gateway creates a new one at each start.
const selfSignedLife = 10 * 365 * 24 * time.Hour

// SelfSignedCertificate creates a certificate for a gateway without a configured one: an ECDSA key that
// exists in memory only. It lets clients encrypt, but not verify the gateway's identity. names are its host
// names and addresses; none means localhost.
func SelfSignedCertificate(names ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a TLS key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a TLS certificate: %w", err)
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "tare self-signed"},
		NotBefore:    now.Add(-time.Hour), // allows for clock skew
		NotAfter:     now.Add(selfSignedLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(names) == 0 {
		names = []string{"localhost", "127.0.0.1", "::1"}
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a TLS certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a TLS certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
