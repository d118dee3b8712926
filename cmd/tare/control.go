package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// killTimeout bounds one KILL, including connecting.
const killTimeout = 5 * time.Second

// maxControlPacket bounds a row that the control account reads, in bytes.
const maxControlPacket = 16 << 20

// errnoNoSuchThread is the server's error for a KILL of a connection that does not exist.
const errnoNoSuchThread = 1094

// A leg is how connections to a kind of server are protected.
type leg struct {
	mode        mysqlconn.TLSMode
	authorities *x509.CertPool // nil: the system's
	key         mysqlconn.ServerKey
	heap        *atomic.Int64 // counts the heap bytes of connections; nil: they are not counted
}

// loadLeg returns a leg with the authorities of an option's file, and a key.
func loadLeg(mode mysqlconn.TLSMode, option, file string, key *config.ServerKey) (l leg, err error) {
	l.mode = mode
	if l.authorities, err = server.LoadCAs(option, file); err != nil {
		return l, err
	}
	l.key, err = key.Load()
	return l, err
}

// server returns how to log in to a server.
func (l leg) server(u config.ControlURL) mysqlconn.Config {
	return mysqlconn.Config{
		Addr: string(u.Addr), User: u.User, Password: u.Password.Reveal(),
		TLSMode: l.mode, TLS: server.ClientTLS(l.authorities), ServerKey: l.key, MaxPacket: 1 << 30, Heap: l.heap,
	}
}

// controlAt returns the login of the control account at a server: at the account's address for the backend, at the
// server's for another one.
func (s *service) controlAt(addr string) mysqlconn.Config {
	cfg := leg{mode: s.cfg.SideTLS(s.cfg.ControlTLS), authorities: s.backendCAs.Load(), key: s.options.Backend.Key}.server(s.cfg.Control)
	cfg.MaxPacket = maxControlPacket
	if addr != string(s.cfg.Backend) {
		cfg.Addr = addr
	}
	return cfg
}

// newKiller returns a function that kills a connection on a server, or its statement, through the control account. A
// connection that no longer exists is not an error.
func newKiller(controlAt func(addr string) mysqlconn.Config, what string) func(addr string, connectionID uint32) error {
	seen := &identities{last: make(map[string]string), several: make(map[string]bool)}
	return func(addr string, id uint32) error {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		cfg := controlAt(addr)
		conn, err := session.OpenBare(ctx, cfg)
		if err == nil {
			if err = checkServer(ctx, conn, cfg, addr); err == nil {
				err = seen.check(ctx, conn, cfg, addr)
			}
			if err == nil {
				_, err = conn.Exec(ctx, fmt.Sprintf("KILL %s %d", what, id))
			}
			err = errors.Join(err, conn.Close())
		}
		if e, ok := errors.AsType[*mysqlconn.ServerError](err); ok && e.Number == errnoNoSuchThread {
			return nil // it has ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("kill connection %d through the control account: %w", id, err)
		}
		return nil
	}
}

// identities are the servers that connections to addresses have reached. Behind one address may be several: a KILL at
// another one than a session's ends a connection of the same number, of an innocent client.
type identities struct {
	mu      sync.Mutex
	last    map[string]string // by address
	several map[string]bool   // addresses whose connections reach several servers at one time
}

// check returns an error if the address of sessions leads to several servers, or to another server than at the KILL before.
// It connects a second time. Servers without an identity pass.
func (s *identities) check(ctx context.Context, conn *mysqlconn.Client, cfg mysqlconn.Config, addr string) error {
	identity, err := session.ServerIdentity(ctx, conn)
	if err != nil {
		return nil //nolint:nilerr // servers of other vendors
	}
	cfg.Addr = addr
	other := identity
	if again, err := session.OpenBare(ctx, cfg); err == nil { // an account of an administrative port cannot log in there
		if other, err = session.ServerIdentity(ctx, again); err != nil {
			other = identity
		}
		_ = again.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.several[addr] = s.several[addr] || other != identity; s.several[addr] {
		return fmt.Errorf("%s leads to several servers, of which the session may use another one", addr)
	}
	before := s.last[addr]
	if s.last[addr] = identity; before != "" && before != identity {
		return fmt.Errorf("%s leads to another server than before, and the session may use that one", addr)
	}
	return nil
}

// checkServer returns an error if the control account is at another server than addr, whose connections it is to kill: that
// server's connection of the same number is one of another client. It trusts an account that cannot log in at addr, such as one
// of an administrative port.
func checkServer(ctx context.Context, conn *mysqlconn.Client, cfg mysqlconn.Config, addr string) error {
	if cfg.Addr == addr {
		return nil
	}
	if same, err := session.IsServer(ctx, conn, cfg, addr); err == nil && !same {
		return fmt.Errorf("the account of option control is at %s, which is another server than %s", cfg.Addr, addr)
	}
	return nil
}
