package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"
)

// TestReadFile has files at the bounds of size and mode.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		size int
		mode fs.FileMode
		want string
	}{
		{"empty", 0, 0o600, ""},
		{"largest", 1 << 20, 0o664, ""},
		{"larger", 1<<20 + 1, 0o600, "is larger than 1048576 bytes"},
		{"of every user", 1, 0o602, "can be written by every user (mode 0602): chmod o-w it"},
		{"read and executed by every user", 1, 0o775, ""},
	} {
		path := filepath.Join(dir, c.name)
		writeFile(t, path, strings.Repeat("x", c.size))
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		text, err := ReadFile(path)
		if c.want == "" && (err != nil || len(text) != c.size) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d bytes, %v, want %q", c.name, len(text), err, c.want)
		}
	}
	if _, err := ReadFile(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestHashes has accounts whose hashes are just good, or just not.
func TestHashes(t *testing.T) {
	hash := hashOf(t, "x")
	for text, want := range map[string]string{
		"a: {role: viewer, password: " + strings.Replace(hash, "$04$", "$14$", 1) + "}": "",
		"a: {role: viewer, password: " + strings.Replace(hash, "$04$", "$15$", 1) + "}": "with a cost up to 14",
		"a: {role: viewer, token_sha256: " + tokenHash("x") + "}":                       "",
		"a: {role: viewer, token_sha256: " + tokenHash("x")[2:] + "}":                   "no SHA-256 hash",
		"a: {role: viewer, token_sha256: " + tokenHash("x") + "00}":                     "no SHA-256 hash",
		"a: {role: viewer, token_sha256: z" + tokenHash("x")[1:] + "}":                  "no SHA-256 hash",
		"anonymous: {role: viewer}":                                                     "",
		"anonymous: {role: viewer, token_sha256: " + tokenHash("x") + "}":               "have no password or token",
		"a: {role: viewer}\nb: {role: viewer, password: " + hash + "}":                  `account "a"`,
		"a: {role: viewer, password: " + hash + "}\nb: {role: viewer}":                  `account "b"`,
	} {
		_, err := parse([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestUsersGateRefuses has web configurations with which no gate is opened.
func TestUsersGateRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yml")
	writeFile(t, path, "x")
	good := hashOf(t, "x")
	for _, c := range []struct {
		users map[string]string
		err   error
		want  string
	}{
		{nil, errors.New("line 3 is wrong"), "line 3 is wrong"},
		{map[string]string{"a": "text"}, nil, `account "a": password is no bcrypt hash`},
		{map[string]string{"a": "text", "b": good}, nil, `account "a": password is no bcrypt hash`},
		{map[string]string{"": good}, nil, "empty name"},
	} {
		g, err := NewUsersGate(path, func([]byte) (map[string]string, error) { return c.users, c.err }, slog.New(slog.DiscardHandler))
		if g != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.users, err, c.want)
		}
	}
}

// TestOpenGate serves each client as an operator, unless the endpoint has no Need.
func TestOpenGate(t *testing.T) {
	g := NewOpenGate(slog.New(slog.DiscardHandler))
	if !g.Open() {
		t.Error("it is not open")
	}
	for name, change := range map[string]func(*http.Request){"no credentials": header(), "any credentials": basic("a", "b")} {
		if code, seen := call(g, For(Operator).WithTexts(), change); code != 200 || seen != (Account{Anonymous, Operator, true}) {
			t.Errorf("%s: %d as %+v", name, code, seen)
		}
		if code, _ := call(g, Need{}, change); code != 401 {
			t.Errorf("%s, an endpoint without a Need: %d", name, code)
		}
	}
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	writeFile(t, path, "a: {role: viewer, token_sha256: "+tokenHash("x")+"}")
	g, err := NewGate(path, slog.New(slog.DiscardHandler))
	if err != nil || g.Open() {
		t.Errorf("a gate with an account is open (%v)", err)
	}
	if code, _ := call(g, For(Metrics), basic("a", "x")); code != 401 {
		t.Errorf("a password where no account has one: %d", code)
	}
	if n := len(g.logins.clients); n != 0 {
		t.Errorf("a password was checked where no account has one")
	}
}

// TestDenials has the status, headers and text of each refusal.
func TestDenials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	writeFile(t, path, fmt.Sprintf("dba: {role: operator, password: %s}\ngrafana: {role: viewer, password: %s}\n", hashOf(t, "correct"), hashOf(t, "other")))
	g, err := NewGate(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		need         Need
		user, pw     string
		tries        int
		code         int
		prompt, wait string
		text         string
	}{
		{For(Viewer), "", "", 1, 401, `Basic realm="tare", charset="UTF-8"`, "", "/x requires an account with the role viewer."},
		{For(Viewer), "dba", "wrong", 1, 401, `Basic realm="tare", charset="UTF-8"`, "", "/x requires an account with the role viewer."},
		{For(Operator), "grafana", "other", 1, 403, "", "", `/x requires the role operator; the account "grafana" has the role viewer.`},
		{For(Operator).WithTexts(), "grafana", "other", 1, 403, "", "", `/x requires the role operator with statement texts; the account "grafana" has the role viewer.`},
		{For(Viewer).WithTexts(), "grafana", "other", 1, 403, "", "", `/x requires the role viewer with statement texts; the account "grafana" sees no statement texts.`},
		{For(Metrics).WithTexts(), "dba", "correct", 1, 403, "", "", `/x requires the role metrics with statement texts; the account "dba" sees no statement texts.`},
		{For(Viewer), "dba", "wrong", loginBurst, 429, "", "3", "Too many wrong passwords came from this address: try again in 3s."},
	} {
		var w *httptest.ResponseRecorder
		for range c.tries {
			w = httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/x", nil)
			if c.user != "" {
				r.SetBasicAuth(c.user, c.pw)
			}
			g.Require(c.need, http.NotFoundHandler(), func(w http.ResponseWriter, r *http.Request, d Denial) {
				w.WriteHeader(d.Status)
				_, _ = w.Write([]byte(d.Text(r.URL.Path))) // to memory
			}).ServeHTTP(w, r)
		}
		if w.Code != c.code || w.Header().Get("WWW-Authenticate") != c.prompt || w.Header().Get("Retry-After") != c.wait || w.Body.String() != c.text {
			t.Errorf("%v as %s: %d %v %s, want %d %s", c.need, c.user, w.Code, w.Header(), w.Body, c.code, c.text)
		}
	}
}

// TestRecordedStatus has the status that the log gets from each kind of handler.
func TestRecordedStatus(t *testing.T) {
	var log bytes.Buffer
	g := NewOpenGate(slog.New(slog.NewTextHandler(&log, nil)))
	certificate := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "ops"}}}}}
	for _, c := range []struct {
		name   string
		handle func(w http.ResponseWriter)
		tls    *tls.ConnectionState
		want   string
	}{
		{"nothing sent", func(http.ResponseWriter) {}, nil, "level=INFO msg=\"operator call\" account=anonymous remote=192.0.2.1:1234 method=POST path=/x status=200\n"},
		{"text", func(w http.ResponseWriter) { _, _ = w.Write(nil) }, nil, "status=200\n"},
		{"text, then a status", func(w http.ResponseWriter) { _, _ = w.Write(nil); w.WriteHeader(500) }, nil, "status=200\n"},
		{"text, then a panic", func(w http.ResponseWriter) { _, _ = w.Write(nil); panic(http.ErrAbortHandler) }, nil, "status=200\n"},
		{"a panic", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, nil, "level=WARN msg=\"operator call\" account=anonymous remote=192.0.2.1:1234 method=POST path=/x status=500\n"},
		{"a hint first", func(w http.ResponseWriter) { w.WriteHeader(199); w.WriteHeader(201) }, nil, "level=INFO msg=\"operator call\" account=anonymous remote=192.0.2.1:1234 method=POST path=/x status=201\n"},
		{"the least final status", func(w http.ResponseWriter) { w.WriteHeader(200); w.WriteHeader(500) }, nil, "status=200\n"},
		{"the last good one", func(w http.ResponseWriter) { w.WriteHeader(399) }, nil, "level=INFO msg=\"operator call\" account=anonymous remote=192.0.2.1:1234 method=POST path=/x status=399\n"},
		{"the first bad one", func(w http.ResponseWriter) { w.WriteHeader(400) }, nil, "level=WARN msg=\"operator call\" account=anonymous remote=192.0.2.1:1234 method=POST path=/x status=400\n"},
		{"TLS", func(http.ResponseWriter) {}, &tls.ConnectionState{}, "status=200\n"},
		{"a certificate", func(http.ResponseWriter) {}, certificate, "status=200 certificate=\"CN=ops\"\n"},
	} {
		log.Reset()
		h := g.Require(For(Operator).Changing(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.handle(w) }), nil)
		func() {
			defer func() { _ = recover() }()
			r := httptest.NewRequest(http.MethodPost, "/x", nil)
			r.TLS = c.tls
			h.ServeHTTP(discardWriter{http.Header{}}, r)
		}()
		if !strings.HasSuffix(log.String(), c.want) {
			t.Errorf("%s: %s, want %s", c.name, log.String(), c.want)
		}
	}
	w := httptest.NewRecorder()
	if (&StatusWriter{ResponseWriter: w}).Unwrap() != http.ResponseWriter(w) {
		t.Error("another writer is unwrapped")
	}
}

// A discardWriter takes any status at any time.
type discardWriter struct{ header http.Header }

func (w discardWriter) Header() http.Header       { return w.header }
func (discardWriter) WriteHeader(int)             {}
func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }

// TestLoginTurns has an address with several checks wait: they take one place, and one of another address that came later runs before them.
func TestLoginTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logins
		l.init(slog.New(slog.DiscardHandler))
		order, end := make(chan string, 8), make(chan struct{})
		start := func(from string, matches func() bool) {
			go l.check(t.Context(), address(t, from), matches)
			synctest.Wait()
		}
		start("192.0.2.3", func() bool { <-end; return true })
		for range 2 {
			start("192.0.2.1", func() bool { order <- "many"; return false })
		}
		start("192.0.2.2", func() bool { order <- "other"; return true })
		close(end)
		synctest.Wait()
		if a, b, c := <-order, <-order, <-order; a != "other" || b != "many" || c != "many" {
			t.Errorf("order: %s, %s, %s", a, b, c)
		}
	})
}

// TestLoginBudget uses up the wrong passwords of an address: those that wait meanwhile are not checked, and one is every 3 s.
func TestLoginBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logins
		l.init(slog.New(slog.DiscardHandler))
		from, checked := address(t, "192.0.2.1"), 0
		check := func() verdict { return l.check(t.Context(), from, func() bool { checked++; return false }) }
		for i := range loginBurst - 1 {
			if v := check(); v != wrong {
				t.Errorf("check %d: %v", i, v)
			}
		}
		end, results := make(chan struct{}), make(chan verdict, 2)
		go func() { results <- l.check(t.Context(), from, func() bool { <-end; return false }) }()
		synctest.Wait()
		go func() { results <- check() }()
		synctest.Wait()
		checked = 0
		close(end)
		synctest.Wait()
		if a, b := <-results, <-results; a != wrong || b != throttled || checked != 0 {
			t.Errorf("the last ones: %v, %v, %d checked after them", a, b, checked)
		}
		for _, c := range []struct {
			pause time.Duration
			want  verdict
		}{{0, throttled}, {loginPause - time.Millisecond, throttled}, {time.Millisecond, wrong}, {0, throttled}, {2 * loginPause, wrong}, {0, wrong}, {0, throttled}} {
			time.Sleep(c.pause) // of the bubble
			if v := check(); v != c.want {
				t.Errorf("%v later: %v, want %v", c.pause, v, c.want)
			}
		}
		time.Sleep(time.Hour)
		for range loginBurst {
			if v := l.check(t.Context(), from, func() bool { return true }); v != accepted {
				t.Errorf("a right password: %v", v)
			}
		}
		if v := check(); v != wrong {
			t.Errorf("after right passwords: %v", v)
		}
	})
}

// TestLoginLeft has clients leave while they wait: they are not checked, and others can wait afterwards.
func TestLoginLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logins
		l.init(slog.New(slog.DiscardHandler))
		from, end := address(t, "192.0.2.1"), make(chan struct{})
		go l.check(t.Context(), address(t, "192.0.2.2"), func() bool { <-end; return true })
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		results := make(chan verdict, loginQueue)
		for range loginQueue {
			go func() {
				results <- l.check(ctx, from, func() bool { t.Error("checked after it has left"); return true })
			}()
		}
		synctest.Wait()
		leave()
		for range loginQueue {
			if v := <-results; v != throttled {
				t.Errorf("a client that left: %v", v)
			}
		}
		for range loginQueue {
			go func() { results <- l.check(t.Context(), from, func() bool { return true }) }()
		}
		close(end)
		for range loginQueue {
			if v := <-results; v != accepted {
				t.Errorf("a later client: %v", v)
			}
		}
	})
}

// TestBusyAddresses keeps addresses with checks beyond their bound, and removes one without for each new one.
func TestBusyAddresses(t *testing.T) {
	var l logins
	l.init(slog.New(slog.DiscardHandler))
	addr := func(i int) [4]byte { return [4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)} }
	var first *loginClient
	for i := range maxClients {
		if c, _ := l.enter(addrFrom4(addr(i))); i == 0 {
			first = c
		}
	}
	if len(l.clients) != maxClients {
		t.Errorf("%d addresses, want %d", len(l.clients), maxClients)
	}
	l.enter(addrFrom4(addr(maxClients)))
	if len(l.clients) != maxClients+1 {
		t.Errorf("%d addresses with checks, want %d", len(l.clients), maxClients+1)
	}
	l.leave(first)
	l.enter(addrFrom4(addr(maxClients + 1)))
	if _, ok := l.clients[addrFrom4(addr(0))]; ok || len(l.clients) != maxClients+1 {
		t.Errorf("%d addresses, the one without checks among them: %t", len(l.clients), ok)
	}
}

// TestFailedLog has lines about failures with the beginning of the name, and the number of those between without one.
func TestFailedLog(t *testing.T) {
	var log bytes.Buffer
	g := NewOpenGate(slog.New(slog.NewTextHandler(&log, nil)))
	l := &g.logins
	fail := func(limit rate.Limit, name string, v verdict, want string) {
		t.Helper()
		log.Reset()
		l.logged.Limiter = rate.NewLimiter(limit, 0)
		l.failed("192.0.2.1:1", name, v)
		if got := log.String(); (got == "") != (want == "") || !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	fail(rate.Inf, "", wrong, "msg=\"HTTP login failed\" remote=192.0.2.1:1 account=\"\" checked=true\n")
	fail(0, "a", wrong, "")
	fail(0, "a", throttled, "")
	fail(rate.Inf, "a", throttled, "account=a checked=false suppressed=2\n")
	fail(rate.Inf, strings.Repeat("a", 64), wrong, "account="+strings.Repeat("a", 64)+" checked=true\n")
	fail(rate.Inf, strings.Repeat("b", 65), wrong, "account="+strings.Repeat("b", 64)+" checked=true\n")
	if err := testutil.CollectAndCompare(g, strings.NewReader(`
# HELP tare_http_login_failures_total HTTP requests with wrong credentials; unchecked: too many wrong (throttled), at once (crowded).
# TYPE tare_http_login_failures_total counter
tare_http_login_failures_total{reason="crowded"} 0
tare_http_login_failures_total{reason="throttled"} 2
tare_http_login_failures_total{reason="wrong"} 4
`)); err != nil {
		t.Error(err)
	}
}

// TestCachedLogins bounds the credentials that are known; they are those of one user, hash and password.
func TestCachedLogins(t *testing.T) {
	g := NewOpenGate(slog.New(slog.DiscardHandler))
	g.cached.keys = map[[32]byte]struct{}{}
	for i := range cachedLogins {
		g.cache(g.key(fmt.Sprint(i), nil, "p"))
	}
	if !g.isCached(g.key("0", nil, "p")) || len(g.cached.keys) != cachedLogins {
		t.Errorf("%d are known, want %d", len(g.cached.keys), cachedLogins)
	}
	for _, other := range [][3]string{{"0p", "", ""}, {"0", "p", ""}, {"", "0", "p"}, {"0", "", "q"}, {"00", "", "p"}, {"0", "x", "p"}} {
		if g.isCached(g.key(other[0], []byte(other[1]), other[2])) {
			t.Errorf("%q are known", other)
		}
	}
	last := g.key("last", nil, "p")
	if g.cache(last); !g.isCached(last) || g.isCached(g.key("0", nil, "p")) {
		t.Errorf("one more: %d are known", len(g.cached.keys))
	}
}

// TestNeeds has the parts and the text of needs and roles.
func TestNeeds(t *testing.T) {
	for _, r := range Roles() {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	if _, err := ParseRole("none"); err == nil || Role(0).String() != "none" || Operator.String() != "operator" || Viewer.String() != "viewer" || Metrics.String() != "metrics" {
		t.Error("names of roles")
	}
	for _, n := range []struct {
		Need
		texts, changes, declared bool
		text                     string
	}{
		{Need{}, false, false, false, "the role none"},
		{For(Viewer), false, false, true, "the role viewer"},
		{For(Viewer).WithTexts(), true, false, true, "the role viewer with statement texts"},
		{For(Viewer).Changing(), false, true, true, "the role viewer"},
	} {
		if n.Texts() != n.texts || n.Changes() != n.changes || n.Declared() != n.declared || n.String() != n.text || n.declared && n.Role() != Viewer {
			t.Errorf("%+v", n)
		}
	}
	if a := Of(t.Context()); a != (Account{}) || SeesTexts(t.Context()) {
		t.Errorf("without a gate: %+v", a)
	}
}

// TestSharedCheck has many requests with the same credentials come at once: one is checked, for all of them, and a wrong password counts once. If its
// client leaves before its turn, another one is checked. Other credentials are bounded.
func TestSharedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logins
		l.init(slog.New(slog.DiscardHandler))
		from := address(t, "192.0.2.1")
		end := make(chan struct{})
		go l.check(t.Context(), address(t, "192.0.2.2"), func() bool { <-end; return true })
		synctest.Wait()
		const many = 10 * loginQueue
		checked, results := 0, make(chan verdict, many)
		start := func(ctx context.Context, n int, credentials byte, right bool) {
			for range n {
				go func() {
					results <- l.checkOnce(ctx, sharedKey{from, [sha256.Size]byte{credentials}}, func() bool { checked++; return right })
				}()
			}
			synctest.Wait()
		}
		count := func(n int, want verdict) {
			t.Helper()
			for range n {
				if v := <-results; v != want {
					t.Errorf("verdict %v, want %v", v, want)
				}
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		start(ctx, 1, 0, true)
		start(t.Context(), many-1, 0, true)
		leave()
		count(1, throttled)
		for other := range byte(loginQueue - 1) {
			start(t.Context(), 1, other+1, true)
		}
		start(t.Context(), 1, 255, true)
		count(1, crowded)
		close(end)
		count(many-1+loginQueue-1, accepted)
		if checked != loginQueue || len(l.shared) != 0 {
			t.Errorf("%d checks, want %d; %d are left", checked, loginQueue, len(l.shared))
		}
		checked, end = 0, make(chan struct{})
		go l.check(t.Context(), address(t, "192.0.2.2"), func() bool { <-end; return true })
		synctest.Wait()
		start(t.Context(), many, 0, false)
		close(end)
		count(many, wrong)
		if left := l.clients[from].wrong.Tokens(); checked != 1 || left != loginBurst-1 {
			t.Errorf("%d checks, %v further wrong passwords are checked", checked, left)
		}
	})
	if text := (Denial{Status: http.StatusTooManyRequests, crowded: true}).Text("/x"); text != "Too many passwords from this address are being checked: try again in 3s." {
		t.Error(text)
	}
}
