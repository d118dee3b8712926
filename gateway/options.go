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
	"time"

	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// Backend is the server that sessions are relayed to.
type Backend struct {
	Addr string            // host:port
	TLS  mysqlconn.TLSMode // TLSPreferred: like the client's connection, so that every login relays verbatim
	CAs  *x509.CertPool    // for the verifying modes; nil: the system's

	// Key encrypts passwords that clients send over TLS to a server without.
	Key mysqlconn.ServerKey
}

// Options configures a Server.
type Options struct {
	Backend     Backend
	Certificate *tls.Certificate // for clients; nil: a self-signed one is created
	ClientTLS   ClientTLSMode    // "": required if the backend connection requires TLS, otherwise preferred
	ClientCAs   *x509.CertPool   // for ClientTLSVerify

	// Standby is the server that sessions may be switched to and back from; nil if there is none. Password
	// returns the password of an account that sessions log in there with.
	Standby  *Backend
	Password func(user string) (password string, ok bool)
	Route    switchover.Side // the active side at start

	// SaveRoute persists the address of the active side before a session moves there. nil: a restart begins
	// at Route.
	SaveRoute func(addr string) error

	// Pool has sessions share connections; nil: each has its own.
	Pool *PoolOptions

	Planner   *sqlplan.Planner // required
	Log       *querylog.Logger // required
	Observers []Observer

	// Kill stops the statement of the connection with this id on the server at addr; nil if no account has
	// the privilege.
	Kill func(addr string, connectionID uint32) error

	// KillQuery is Kill for the statement only: the connection stays.
	KillQuery func(addr string, connectionID uint32) error

	// Control is an account that may log in at the backend: Ready uses it to probe the backend. If it is nil,
	// Ready accepts a denied login as proof that the server is up.
	Control *Account

	// Dial opens connections to the servers, within ConnectTimeout; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Loops is the number of event loops that serve the sessions. New raises GOMAXPROCS to more than twice the
	// number, so that loops do not wait for other goroutines. 0 means GOMAXPROCS-1, as of the start of the
	// process, but at least 1. A negative number means no loops: each session has a goroutine.
	Loops int

	MaxConnections        int // 0: no limit
	MaxUserConnections    int // per user; 0: no limit
	MaxUnauthenticated    int // connections before login; 0: no limit
	MaxUnauthenticatedPer int // per client address; 0: no limit
	OpenFiles             int // limit of the process; 0: New queries it

	ConnectTimeout   time.Duration
	HandshakeTimeout time.Duration
	IdleTimeout      time.Duration // 0: none
	DrainTimeout     time.Duration

	// StatementMemory is the longest statement that is buffered whole, in bytes; longer ones pass through a
	// small buffer.
	StatementMemory int

	// BufferBytes bounds the idle relay buffers that the pool keeps.
	BufferBytes int64

	Diag *slog.Logger // required; receives the ends of sessions that their clients did not close
}

// PoolOptions have the sessions of some users share connections to the backend: a session has one for a transaction, or for as long
// as a pin keeps it there.
type PoolOptions struct {
	// Password returns the password of a user whose sessions share connections. The gateway authenticates its clients itself, and logs
	// in at the backend as the same user. It may be nil if Learn is set.
	Password func(user string) (password string, ok bool)

	// Learn has other users share connections too, with the passwords with which the backend has let in clients by
	// caching_sha2_password or mysql_clear_password over TLS. They are in memory only.
	Learn bool

	Max, Min   int           // connections per user, and how many of them stay open while they are idle
	Depth      int           // short reads of different sessions in flight on one connection; at most 1: none
	Statements int           // prepared statements per connection; 0: 100
	Lifetime   time.Duration // of a connection; 0: no limit
	IdleAge    time.Duration // a connection above Min is closed after this time without use; 0: never
	Wait       time.Duration // how long a command waits for a connection; 0: 10 s
}

// Defaults of PoolOptions.
const (
	defaultPoolStatements = 100
	defaultPoolWait       = 10 * time.Second
	defaultLearnedLife    = time.Hour // without Lifetime
)

func (o *PoolOptions) validate() error {
	switch {
	case o.Password == nil && !o.Learn:
		return errors.New("shared connections need the accounts to log in with")
	case o.Statements < 0:
		return errors.New("the number of prepared statements of shared connections is negative")
	case o.Depth < 0:
		return errors.New("the number of statements in flight on a shared connection is negative")
	case o.Max < 1 || o.Min < 0 || o.Min > o.Max:
		return fmt.Errorf("%d to %d shared connections per user: want at least one, and no minimum above the maximum", o.Min, o.Max)
	case min(o.Lifetime, o.IdleAge, o.Wait) < 0:
		return errors.New("a time limit of shared connections is negative")
	}
	return nil
}

// listed returns the password of a user of Password.
func (o *PoolOptions) listed(user string) (password string, ok bool) {
	if o.Password == nil {
		return "", false
	}
	return o.Password(user)
}

// An Account is a user of the servers.
type Account struct {
	User, Password string
	TLS            *mysqlconn.TLSMode // nil: that of the server
}

// Defaults of Options.
const (
	defaultConnectTimeout   = 5 * time.Second
	defaultHandshakeTimeout = 10 * time.Second
	defaultDrainTimeout     = 30 * time.Second
	defaultStatementMemory  = 1 << 20
	defaultBufferBytes      = 16 << 20
	minStatementMemory      = 16 << 10
)

// Validate fills in the defaults and returns an error if o is invalid.
func (o *Options) Validate() error {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, defaultConnectTimeout)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, defaultHandshakeTimeout)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	o.StatementMemory = cmp.Or(o.StatementMemory, defaultStatementMemory)
	o.OpenFiles = cmp.Or(o.OpenFiles, connlimit.OpenFiles())
	o.BufferBytes = cmp.Or(o.BufferBytes, defaultBufferBytes)
	o.Loops = cmp.Or(o.Loops, max(netloop.CPUs()-1, 1))
	errs := []error{o.Backend.validate("backend")}
	switch {
	case o.Standby != nil:
		errs = append(errs, o.Standby.validate("standby"))
		if o.Password == nil {
			errs = append(errs, errors.New("a standby needs the accounts to log in there with"))
		}
	case o.Route != switchover.Backend:
		errs = append(errs, errors.New("the route is the standby, and there is none"))
	}
	if o.Pool != nil {
		o.Pool.Wait, o.Pool.Statements = cmp.Or(o.Pool.Wait, defaultPoolWait), cmp.Or(o.Pool.Statements, defaultPoolStatements)
		errs = append(errs, o.Pool.validate())
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
	if !b.TLS.Valid() {
		return fmt.Errorf("%s: unknown %v", name, b.TLS)
	}
	return nil
}

// tlsConfig returns the TLS configuration of backend connections.
func (b *Backend) tlsConfig(cas *x509.CertPool) *tls.Config {
	host, _, _ := net.SplitHostPort(b.Addr) // checked by Validate
	return mysqlconn.ClientTLS(b.TLS, &tls.Config{RootCAs: cas}, host)
}
