package access

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/testwait"
)

func from(addr string, change func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		r.RemoteAddr = addr + ":4711"
		change(r)
	}
}

// TestWrongPasswords checks that an address with many wrong passwords is refused without a check, that others are not,
// and that passwords which were accepted before still are.
func TestWrongPasswords(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	writeFile(t, path, "dba: {role: viewer, password: "+hashOf(t, "correct")+"}\nlate: {role: viewer, password: "+hashOf(t, "late")+"}\n")
	g, err := NewGate(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	const attacker, other = "192.0.2.1", "192.0.2.2"
	want := func(step, addr, user, password string, code int) {
		t.Helper()
		if got, _ := call(g, For(Viewer), from(addr, basic(user, password))); got != code {
			t.Errorf("%s: %d, want %d", step, got, code)
		}
	}
	want("before", attacker, "dba", "correct", 200)
	for range loginBurst {
		want("wrong", attacker, "dba", "guess", 401)
	}
	want("one too many", attacker, "dba", "guess", 429)
	want("another name", attacker, "x\n\x1b[2J", "guess", 429)
	want("right and known, same address", attacker, "dba", "correct", 200)
	want("right, another address", other, "late", "late", 200)
	want("wrong, another address", other, "late", "guess", 401)
	if n, err := testutil.GatherAndCount(gatherer(t, g)); err != nil || n != 3 {
		t.Errorf("%d metrics, %v", n, err)
	}
	if wrongs, refused := g.logins.counts[wrong].Load(), g.logins.counts[throttled].Load(); wrongs != loginBurst+1 || refused != 2 {
		t.Errorf("counted %d wrong and %d refused", wrongs, refused)
	}
	text := log.String()
	if !strings.Contains(text, "remote=192.0.2.1:4711 account=dba checked=true") || strings.Contains(text, "guess") || strings.Contains(text, "\x1b") {
		t.Errorf("log: %s", text)
	}
}

// TestLoginQueue checks that an address has a bounded number of checks that wait.
func TestLoginQueue(t *testing.T) {
	var l logins
	l.init(slog.New(slog.DiscardHandler))
	addr := address(t, "192.0.2.1")
	started, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		l.check(t.Context(), addr, func() bool { close(started); <-end; return true })
	})
	testwait.Receive(t, "the first check", started)
	results := make(chan verdict, 3*loginQueue)
	for range cap(results) {
		all.Go(func() { results <- l.check(t.Context(), addr, func() bool { return true }) })
	}
	for range cap(results) - (loginQueue - 1) { // those for which there is no room end at once
		if v := testwait.Receive(t, "a refused check", results); v != crowded {
			t.Errorf("a check ended before the running one with %v", v)
		}
	}
	close(end)
	testwait.Group(t, "all checks", &all)
	for range loginQueue - 1 {
		if v := testwait.Receive(t, "a waiting check", results); v != accepted {
			t.Errorf("a waiting check ended with %v", v)
		}
	}
}

// TestForgottenAddresses checks that addresses are bounded, and that those with a running check stay.
func TestForgottenAddresses(t *testing.T) {
	var l logins
	l.init(slog.New(slog.DiscardHandler))
	busy := address(t, "192.0.2.1")
	c, _ := l.enter(busy)
	for i := range 2 * maxClients {
		a := address(t, "10.0.0.0").As4()
		a[1], a[2], a[3] = byte(i>>16), byte(i>>8), byte(i)
		other, _ := l.enter(addrFrom4(a))
		other.wrong.Allow()
		l.leave(other)
	}
	if len(l.clients) > maxClients || l.clients[busy] != c {
		t.Errorf("%d addresses, busy one kept: %t", len(l.clients), l.clients[busy] == c)
	}
}

// TestUsersGate checks accounts of a web configuration: operators, and never none again.
func TestUsersGate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yml")
	users := map[string]string{}
	writeFile(t, path, "one")
	g, err := NewUsersGate(path, func([]byte) (map[string]string, error) { return users, nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	want := func(step string, change func(*http.Request), code int) {
		t.Helper()
		if got, _ := call(g, For(Operator).WithTexts(), change); got != code {
			t.Errorf("%s: %d, want %d", step, got, code)
		}
	}
	want("no accounts", header(), 200)
	users = map[string]string{"a": hashOf(t, "one")}
	writeFile(t, path, "another size")
	want("accounts, no credentials", header(), 401)
	want("accounts", basic("a", "one"), 200)
	users = nil
	writeFile(t, path, "yet another size")
	want("no accounts any more, no credentials", header(), 401)
	want("no accounts any more", basic("a", "one"), 200)
}

func address(t *testing.T, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func addrFrom4(a [4]byte) netip.Addr { return netip.AddrFrom4(a) }

func gatherer(t *testing.T, c prometheus.Collector) prometheus.Gatherer {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	return r
}
