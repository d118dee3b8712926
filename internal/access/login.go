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
	throttled                // not checked: too many wrong passwords from this address
	crowded                  // not checked: too many checks of this address at once
)

const (
	loginBurst = 10              // wrong passwords of an address before further ones are not checked
	loginPause = 3 * time.Second // after which one more is checked
	loginQueue = 8               // checks of an address that wait or run
	maxClients = 4096            // addresses with wrong passwords that are remembered, and likewise with right ones
)

// logins bounds the checks of passwords. A check takes a CPU for up to a second: one runs at a time, one of each
// address waits for it, and an address with many wrong ones is refused without a check. See turns for their order.
type logins struct {
	log *slog.Logger

	mu      sync.Mutex
	clients map[netip.Addr]*loginClient
	shared  map[sharedKey]*sharedCheck
	turns   turns

	// networks with a wrong password, and addresses with a right one since the start
	suspect map[netip.Prefix]struct{}
	known   map[netip.Addr]struct{}

	logged struct { // lines about failures
		*rate.Limiter
		suppressed atomic.Uint64
	}
	counts [crowded + 1]atomic.Uint64
}

// A loginClient is an address with checks that run, or with wrong passwords.
type loginClient struct {
	turn   chan struct{} // held by the check that waits for logins.turns or runs
	checks int           // that wait or run
	wrong  *rate.Limiter // of wrong passwords
}

func (l *logins) init(log *slog.Logger) {
	l.log = log
	l.clients, l.shared = make(map[netip.Addr]*loginClient), make(map[sharedKey]*sharedCheck)
	l.suspect, l.known = make(map[netip.Prefix]struct{}), make(map[netip.Addr]struct{})
	l.logged.Limiter = rate.NewLimiter(rate.Every(time.Second), 10)
}

// check calls matches when it is the turn of a client's address, and returns its result as a verdict.
func (l *logins) check(ctx context.Context, from netip.Addr, matches func() bool) verdict {
	c, v := l.enter(from)
	if v != accepted {
		return v
	}
	defer l.leave(c)
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return throttled
	}
	if !l.acquire(ctx, from) {
		return throttled
	}
	defer l.release()
	if c.wrong.Tokens() < 1 { // used up while this one waited
		return throttled
	}
	right := matches()
	l.record(from, right)
	if right {
		return accepted
	}
	c.wrong.Allow()
	return wrong
}

// acquire blocks until it is the turn of an address.
func (l *logins) acquire(ctx context.Context, from netip.Addr) bool {
	l.mu.Lock()
	w := l.turns.enter(l.trust(from))
	l.mu.Unlock()
	if w == nil {
		return true
	}
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.turns.remove(w) { // it has its turn meanwhile
		l.turns.next()
	}
	return false
}

func (l *logins) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.next()
}

// trust returns how trustworthy an address is. The caller holds l.mu.
func (l *logins) trust(from netip.Addr) trust {
	if _, ok := l.known[from]; ok {
		return trustKnown
	}
	if _, ok := l.suspect[network(from)]; ok {
		return trustSuspect
	}
	return trustFresh
}

// record records the result of a check. When there are too many networks or addresses, an arbitrary one is forgotten.
func (l *logins) record(from netip.Addr, right bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if right {
		addBounded(l.known, from)
	} else {
		addBounded(l.suspect, network(from))
	}
}

func addBounded[K comparable](m map[K]struct{}, key K) {
	if _, ok := m[key]; !ok && len(m) >= maxClients {
		for other := range m {
			delete(m, other)
			break
		}
	}
	m[key] = struct{}{}
}

// network returns the addresses that one party is likely to have: a /24 of IPv4, a /48 of IPv6.
func network(a netip.Addr) netip.Prefix {
	bits := 48
	if a = a.Unmap(); a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // not valid for no address, which is a network too
	return p
}

// enter counts a check of an address, unless the address has too many of them or of wrong passwords.
func (l *logins) enter(from netip.Addr) (*loginClient, verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[from]
	if c == nil {
		l.forget()
		c = &loginClient{turn: make(chan struct{}, 1), wrong: rate.NewLimiter(rate.Every(loginPause), loginBurst)}
		l.clients[from] = c
	}
	switch {
	case c.wrong.Tokens() < 1:
		return nil, throttled
	case c.checks >= loginQueue:
		return nil, crowded
	}
	c.checks++
	return c, accepted
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
	"HTTP requests with wrong credentials; unchecked: too many wrong (throttled), at once (crowded).",
	[]string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (g *Gate) Describe(ch chan<- *prometheus.Desc) { ch <- failuresDesc }

// Collect implements prometheus.Collector.
func (g *Gate) Collect(ch chan<- prometheus.Metric) {
	for v, reason := range map[verdict]string{wrong: "wrong", throttled: "throttled", crowded: "crowded"} {
		ch <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(g.logins.counts[v].Load()), reason)
	}
}
