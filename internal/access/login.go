package access

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/taredb/tare/internal/visible"
)

// A verdict is the result of checking a request's credentials.
type verdict uint8

const (
	accepted  verdict = iota // also requests without credentials
	wrong                    // unknown account, wrong password or token
	throttled                // not checked: too many wrong passwords from this address, or too many at once
)

const (
	loginBurst = 10              // wrong passwords of an address before further ones are not checked
	loginPause = 3 * time.Second // after which one more is checked
	loginQueue = 8               // checks of an address that wait or run
	maxClients = 4096            // addresses with wrong passwords that are remembered
)

// logins bounds the checks of passwords. A check takes a CPU for up to a second: one runs at a time, one of each
// address waits for it, and an address with many wrong ones is refused without a check. So wrong passwords from one
// address delay a check of another by at most one.
type logins struct {
	log  *slog.Logger
	turn chan struct{} // held during a check

	mu      sync.Mutex
	clients map[netip.Addr]*loginClient

	logged struct { // lines about failures
		*rate.Limiter
		suppressed atomic.Uint64
	}
	counts [throttled + 1]atomic.Uint64
}

// A loginClient is an address with checks that run, or with wrong passwords.
type loginClient struct {
	turn   chan struct{} // held by the check that waits for logins.turn or has it
	checks int           // that wait or run
	wrong  *rate.Limiter // of wrong passwords
}

func (l *logins) init(log *slog.Logger) {
	l.log = log
	l.turn = make(chan struct{}, 1)
	l.clients = make(map[netip.Addr]*loginClient)
	l.logged.Limiter = rate.NewLimiter(rate.Every(time.Second), 10)
}

// check calls matches when it is the turn of a client's address, and returns its result as a verdict.
func (l *logins) check(ctx context.Context, from netip.Addr, matches func() bool) verdict {
	c := l.enter(from)
	if c == nil {
		return throttled
	}
	defer l.leave(c)
	for _, turn := range [...]chan struct{}{c.turn, l.turn} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return throttled
		}
	}
	if c.wrong.Tokens() < 1 { // used up while this one waited
		return throttled
	}
	if matches() {
		return accepted
	}
	c.wrong.Allow()
	return wrong
}

// enter counts a check of an address, or returns nil if the address has too many.
func (l *logins) enter(from netip.Addr) *loginClient {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[from]
	if c == nil {
		l.forget()
		c = &loginClient{turn: make(chan struct{}, 1), wrong: rate.NewLimiter(rate.Every(loginPause), loginBurst)}
		l.clients[from] = c
	}
	if c.checks >= loginQueue || c.wrong.Tokens() < 1 {
		return nil
	}
	c.checks++
	return c
}

func (l *logins) leave(c *loginClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.checks--
}

// forget makes room for another address: it removes one that has no check.
func (l *logins) forget() {
	if len(l.clients) < maxClients {
		return
	}
	for addr, c := range l.clients {
		if c.checks == 0 {
			delete(l.clients, addr)
			return
		}
	}
}

// failed counts and logs a failure. name is from the client, "" for a token.
func (l *logins) failed(remote, name string, v verdict) {
	l.counts[v].Add(1)
	if !l.logged.Allow() {
		l.logged.suppressed.Add(1)
		return
	}
	if len(name) > 64 {
		name = name[:64]
	}
	attrs := []any{"remote", remote, "account", visible.Line(name), "checked", v == wrong}
	if n := l.logged.suppressed.Swap(0); n > 0 {
		attrs = append(attrs, "suppressed", n)
	}
	l.log.Warn("HTTP login failed", attrs...)
}

var failuresDesc = prometheus.NewDesc("tare_http_login_failures_total",
	"HTTP requests with wrong credentials (wrong), or not checked after too many of them (throttled).",
	[]string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (g *Gate) Describe(ch chan<- *prometheus.Desc) { ch <- failuresDesc }

// Collect implements prometheus.Collector.
func (g *Gate) Collect(ch chan<- prometheus.Metric) {
	for v, reason := range map[verdict]string{wrong: "wrong", throttled: "throttled"} {
		ch <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(g.logins.counts[v].Load()), reason)
	}
}
