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
	return newKillerSince(controlAt, what, time.Now)
}

// newKillerSince is newKiller with a clock.
func newKillerSince(controlAt func(addr string) mysqlconn.Config, what string, now func() time.Time) func(addr string, connectionID uint32) error {
	seen := &identities{now: now, last: make(map[string]string), several: make(map[string]*mixture)}
	return func(addr string, id uint32) error {
		probeUntil := now().Add(killTimeout / 2)
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		cfg := controlAt(addr)
		conn, err := session.OpenBare(ctx, cfg)
		if err == nil {
			if err = checkServer(ctx, conn, cfg, addr); err == nil {
				err = seen.check(ctx, conn, cfg, addr, probeUntil)
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

// An address that has led to several servers at one time is probed at this interval. It is trusted again after so many consecutive
// connections to one server. A relapse doubles their number: a balancer may send few connections to the other server. Probes count
// together, since slow connections leave time for few in one.
const (
	probeInterval       = time.Minute
	probeConnections    = 32
	maxProbeConnections = 1024
)

// identities are the servers that connections to addresses have reached. Behind one address may be several: a KILL at
// another one than a session's ends a connection of the same number, of an innocent client.
type identities struct {
	now func() time.Time

	mu      sync.Mutex
	last    map[string]string   // by address
	several map[string]*mixture // by address
}

// A mixture is an address whose connections have reached several servers at one time. After a failover between two
// connections they reach one server again.
type mixture struct {
	ended       bool      // they reach one server again
	probeAt     time.Time // the earliest next probe
	connections int       // to one server, by which it ends
	identity    string    // of the server that the last connections have reached
	reached     int       // connections of probes that have reached it
}

// check returns an error if the address of sessions leads to several servers, or to another server than at the KILL before.
// It connects a second time, or more often until the time of a probe ends. Servers without an identity pass.
func (s *identities) check(ctx context.Context, conn *mysqlconn.Client, cfg mysqlconn.Config, addr string, probeUntil time.Time) error {
	identity, err := session.ServerIdentity(ctx, conn)
	if err != nil {
		return nil //nolint:nilerr // servers of other vendors
	}
	cfg.Addr = addr
	if mixed, err := s.checkMixture(ctx, cfg, identity, probeUntil); mixed {
		return err
	}
	other, err := identityAt(ctx, cfg)
	if err != nil { // an account of an administrative port cannot log in there
		other = identity
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other != identity {
		s.mix(addr)
	}
	if m := s.several[addr]; m != nil && !m.ended {
		return m.error(addr)
	}
	before := s.last[addr]
	if s.last[addr] = identity; before != "" && before != identity {
		return fmt.Errorf("%s leads to another server than before, and the session may use that one", addr)
	}
	return nil
}

// error returns the error of a KILL at the mixture's address.
func (m *mixture) error(addr string) error {
	return fmt.Errorf("%s leads to several servers, of which the session may use another one; it is checked again at a KILL after %v, and trusted after %d consecutive connections to one server, of which it has had %d",
		addr, probeInterval, m.connections, m.reached)
}

// identityAt connects, and returns the server's identity.
func identityAt(ctx context.Context, cfg mysqlconn.Config) (string, error) {
	conn, err := session.OpenBare(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return session.ServerIdentity(ctx, conn)
}

// mix records that an address leads to several servers. s.mu is locked.
func (s *identities) mix(addr string) {
	m := s.several[addr]
	switch {
	case m == nil:
		m = &mixture{connections: probeConnections}
		s.several[addr] = m
	case m.ended:
		m.ended, m.connections = false, min(2*m.connections, maxProbeConnections)
	}
	m.reached = 0
	m.probeAt = s.now().Add(probeInterval)
}

// checkMixture returns an error if the address is mixed. When a probe is due, it connects until its time ends, and ends the mixture after
// sufficient connections to the server of the identity. That KILL fails too: its session may be of the other server.
func (s *identities) checkMixture(ctx context.Context, cfg mysqlconn.Config, identity string, probeUntil time.Time) (mixed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.several[cfg.Addr]
	if m == nil || m.ended {
		return false, nil
	}
	if m.identity != identity {
		m.identity, m.reached = identity, 0
	}
	if s.now().Before(m.probeAt) {
		return true, m.error(cfg.Addr)
	}
	m.probeAt = s.now().Add(probeInterval)
	for {
		s.mu.Unlock()
		other, err := identityAt(ctx, cfg)
		s.mu.Lock()
		if err != nil || other != identity || m.identity != identity {
			m.reached = 0
			return true, errors.Join(m.error(cfg.Addr), err)
		}
		if m.reached++; m.reached >= m.connections {
			m.ended, s.last[cfg.Addr] = true, identity
			return true, fmt.Errorf("%s led to several servers, of which the session may use another one; it leads to one again, and the next KILL is sent there", cfg.Addr)
		}
		if !s.now().Before(probeUntil) {
			return true, m.error(cfg.Addr)
		}
	}
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
