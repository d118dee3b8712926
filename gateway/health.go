package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	mysqlsession "github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// health records whether a server lets the gateway's clients log in, by the outcome of its last login. Logins
// of clients report their outcome; Ready logs in itself when the last outcome is old.
type health struct {
	mu    sync.Mutex
	known bool
	err   error     // nil: the server decided the last login
	at    time.Time // of the last outcome
	doubt bool      // a session has lost its connection since

	probe sync.Mutex // one at a time
}

// Maximum ages of an outcome that Ready returns.
const (
	readyLife       = 5 * time.Second  // ready, with a control account for the next probe
	readyLifeDenied = 30 * time.Second // ready; without an account each probe is a denied login in the server's log
	unreadyLife     = time.Second      // also after the loss of a connection
)

// report records the outcome of a login at t, or of the attempt to connect, and logs changes.
func (s *Server) report(t *target, err error) {
	h := &t.health
	h.mu.Lock()
	changed := !h.known || (h.err == nil) != (err == nil)
	first := !h.known
	h.known, h.err, h.at, h.doubt = true, err, time.Now(), false
	h.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		s.opts.Diag.Warn("backend unreachable", "addr", t.Addr, "error", err)
	case !first:
		s.opts.Diag.Info("backend reachable again", "addr", t.Addr)
	}
}

// lost records that the server closed the connection of a session: it may be down.
func (h *health) lost() {
	h.mu.Lock()
	h.doubt = true
	h.mu.Unlock()
}

// last returns the last outcome, and false if it is too old.
func (h *health) last(life time.Duration) (err error, ok bool) { //nolint:revive // the error is the answer
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil || h.doubt {
		life = unreadyLife
	}
	return h.err, h.known && time.Since(h.at) < life
}

// Ready reports whether the active server lets clients log in. It returns the outcome of a recent login, or
// logs in. A nil error means ready.
func (s *Server) Ready(ctx context.Context) error {
	t := s.targets[sideOf(s.gate.Load()&^gatePaused)]
	life := readyLifeDenied
	if s.opts.Control != nil {
		life = readyLife
	}
	if err, ok := t.health.last(life); ok {
		return s.notReady(t, err)
	}
	t.health.probe.Lock()
	defer t.health.probe.Unlock()
	if err, ok := t.health.last(life); ok { // another caller probed meanwhile
		return s.notReady(t, err)
	}
	err := s.probe(ctx, t)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.report(t, err)
	return s.notReady(t, err)
}

func (s *Server) notReady(t *target, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("backend %s: %w", t.Addr, err)
}

// probe logs in at t. A login that is denied shows that the server decides logins.
func (s *Server) probe(ctx context.Context, t *target) error {
	if s.opts.Control == nil {
		g, err := s.acquire(ctx, t)
		if err != nil {
			return err
		}
		return g.dismiss()
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.ConnectTimeout+s.opts.HandshakeTimeout)
	defer cancel()
	cfg := mysqlconn.Config{
		Addr: t.Addr, User: s.opts.Control.User, Password: s.opts.Control.Password,
		TLSMode: t.TLS, TLS: &tls.Config{RootCAs: t.tls.Load().RootCAs}, ServerKey: t.Key, DialFunc: s.opts.Dial,
	}
	if mode := s.opts.Control.TLS; mode != nil {
		cfg.TLSMode = *mode
	}
	c, err := mysqlsession.OpenBare(ctx, cfg)
	if refused, ok := errors.AsType[*mysqlconn.ServerError](err); ok && refused.Number == mysqlwire.ErrnoAccessDenied {
		s.deniedControl.Do(func() {
			s.opts.Diag.Warn("the control account is denied at the backend", "addr", t.Addr, "error", err)
		})
		return nil
	}
	if err != nil {
		return err
	}
	err = c.Ping(ctx)
	return errors.Join(err, c.Close())
}
