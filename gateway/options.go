package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/taredb/tare/gateway/switchover"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/sqlplan"
)

// TLSMode says when the backend's leg has TLS.
type TLSMode string

// The modes, by the names of --backend-tls.
const (
	TLSMirror         TLSMode = "mirror" // as the client's leg, so that every login relays verbatim
	TLSOff            TLSMode = "off"
	TLSRequired       TLSMode = "required" // with any certificate
	TLSVerifyCA       TLSMode = "verify-ca"
	TLSVerifyIdentity TLSMode = "verify-identity"
)

func (m TLSMode) required() bool {
	return m == TLSRequired || m == TLSVerifyCA || m == TLSVerifyIdentity
}

// Backend is the server that sessions are relayed to.
type Backend struct {
	Addr string // host:port
	TLS  TLSMode
	CAs  *x509.CertPool // for the verifying modes; nil: the system's
}

// Options of a Server.
type Options struct {
	Backend     Backend
	Certificate *tls.Certificate // for clients; nil: a self-signed one is made
	ClientTLS   ClientTLSMode    // "": required where the backend's leg requires TLS, otherwise preferred
	ClientCAs   *x509.CertPool   // of ClientTLSVerify

	// Standby is the server that sessions may be switched to and back from; nil when there
	// is none. Password answers the password of an account that sessions log in there with.
	Standby  *Backend
	Password func(user string) (password string, ok bool)
	Route    switchover.Side // the active side at the start

	// SaveRoute writes the address of the active side down, before anything goes there; nil
	// when a restart begins at Route again.
	SaveRoute func(addr string) error

	Planner   *sqlplan.Planner // required
	Log       *querylog.Logger // required
	Observers []Observer

	// Kill ends what the connection with this id on the server at addr is doing; nil when
	// there is no account that may.
	Kill func(addr string, connectionID uint32) error

	// Control is an account that may log in at the backend: it is used to find out whether
	// the backend is ready. Nil: a login that is denied shows as much.
	Control *Account

	// Dial opens connections to the servers, within ConnectTimeout; nil stands for net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Loops is the number of event loops that serve the sessions. New raises GOMAXPROCS above it, to leave
	// a processor to other goroutines. 0 means GOMAXPROCS-1, but at least 1. A negative number means no
	// loops: each session has a goroutine.
	Loops int

	MaxConnections        int // 0: no limit
	MaxUserConnections    int // of one user; 0: no limit
	MaxUnauthenticated    int // connections that are not logged in; 0: no limit
	MaxUnauthenticatedPer int // of one client address; 0: no limit
	OpenFiles             int // limit of the process; 0: it is asked for

	ConnectTimeout   time.Duration
	HandshakeTimeout time.Duration
	IdleTimeout      time.Duration // 0: none
	DrainTimeout     time.Duration

	// StatementMemory is how long a statement may be, in bytes, to be held whole; longer
	// ones pass through a small buffer.
	StatementMemory int

	// BufferBytes bounds the idle relay buffers that are kept.
	BufferBytes int64

	Diag *slog.Logger // required; hears of sessions that end otherwise than by their client
}

// An Account is a user of the servers.
type Account struct{ User, Password string }

// Defaults of Options.
const (
	DefaultConnectTimeout   = 5 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultDrainTimeout     = 30 * time.Second
	DefaultStatementMemory  = 1 << 20
	DefaultBufferBytes      = 16 << 20
	minStatementMemory      = 16 << 10
)

// Validate fills in the defaults and says what is wrong with o.
func (o *Options) Validate() error {
	o.Backend.TLS = cmp.Or(o.Backend.TLS, TLSMirror)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, DefaultHandshakeTimeout)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.StatementMemory = cmp.Or(o.StatementMemory, DefaultStatementMemory)
	o.OpenFiles = cmp.Or(o.OpenFiles, openFiles())
	o.BufferBytes = cmp.Or(o.BufferBytes, DefaultBufferBytes)
	o.Loops = cmp.Or(o.Loops, max(runtime.GOMAXPROCS(0)-1, 1))
	errs := []error{o.Backend.validate("backend")}
	switch {
	case o.Standby != nil:
		o.Standby.TLS = cmp.Or(o.Standby.TLS, TLSMirror)
		errs = append(errs, o.Standby.validate("standby"))
		if o.Password == nil {
			errs = append(errs, errors.New("a standby needs the accounts to log in there with"))
		}
	case o.Route != switchover.Backend:
		errs = append(errs, errors.New("the route is the standby, and there is none"))
	}
	o.ClientTLS = cmp.Or(o.ClientTLS, o.clientTLSDefault())
	errs = append(errs, o.validateClientTLS())
	if o.Planner == nil || o.Log == nil || o.Diag == nil {
		errs = append(errs, errors.New("planner, query log and diagnostics log are required"))
	}
	if o.StatementMemory < minStatementMemory || o.StatementMemory >= mysqlwire.MaxPayload {
		errs = append(errs, fmt.Errorf("statement memory of %d bytes: want %d to %d", o.StatementMemory, minStatementMemory, mysqlwire.MaxPayload-1))
	}
	if min(o.MaxConnections, o.MaxUserConnections, o.MaxUnauthenticated, o.MaxUnauthenticatedPer, o.OpenFiles) < 0 || o.BufferBytes < 0 ||
		min(o.ConnectTimeout, o.HandshakeTimeout, o.DrainTimeout) < 0 || o.IdleTimeout < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	return errors.Join(errs...)
}

func (b *Backend) validate(name string) error {
	if _, _, err := net.SplitHostPort(b.Addr); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch b.TLS {
	case TLSMirror, TLSOff, TLSRequired, TLSVerifyCA, TLSVerifyIdentity:
		return nil
	}
	return fmt.Errorf("%s TLS mode %q is unknown", name, b.TLS)
}

// tlsConfig is the configuration of the backend's leg, for when it has TLS.
func (b *Backend) tlsConfig(cas *x509.CertPool) *tls.Config {
	host, _, _ := net.SplitHostPort(b.Addr) // Validate has looked at it
	mode := b.TLS.client()
	if mode == mysqlconn.TLSPreferred {
		mode = mysqlconn.TLSRequired
	}
	return mysqlconn.ClientTLS(mode, &tls.Config{RootCAs: cas}, host)
}

// client is the mode of a connection that the gateway makes for itself.
func (m TLSMode) client() mysqlconn.TLSMode {
	switch m {
	case TLSOff:
		return mysqlconn.TLSDisabled
	case TLSRequired:
		return mysqlconn.TLSRequired
	case TLSVerifyCA:
		return mysqlconn.TLSVerifyCA
	case TLSVerifyIdentity:
		return mysqlconn.TLSVerifyIdentity
	}
	return mysqlconn.TLSPreferred
}
