package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func hashOf(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// call requests an endpoint with a Need and returns the status and the account in the handler's context.
func call(g *Gate, n Need, change func(*http.Request)) (int, Account) {
	var seen Account
	h := g.Require(n, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = Of(r.Context()) }),
		func(w http.ResponseWriter, r *http.Request, d Denial) { http.Error(w, d.Text(r.URL.Path), d.Status) })
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	change(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, seen
}

func basic(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

func header(values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header["Authorization"] = values }
}

func TestCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	writeFile(t, path, fmt.Sprintf(`
dba: {role: operator, texts: true, password: %s}
grafana: {role: viewer, password: %s}
scraper: {role: metrics, token_sha256: %s}
`, hashOf(t, "correct"), hashOf(t, "other"), tokenHash("a-long-token")))
	g, err := NewGate(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		need   Need
		code   int
		want   Account
	}{
		{"password", basic("dba", "correct"), For(Operator).WithTexts(), 200, Account{"dba", Operator, true}},
		{"password again, from the cache", basic("dba", "correct"), For(Viewer), 200, Account{"dba", Operator, true}},
		{"wrong password", basic("dba", "other"), For(Metrics), 401, Account{}},
		{"empty password", basic("dba", ""), For(Metrics), 401, Account{}},
		{"the hash as the password", basic("dba", hashOf(t, "correct")), For(Metrics), 401, Account{}},
		{"unknown account", basic("nobody", "correct"), For(Metrics), 401, Account{}},
		{"account of a token", basic("scraper", "a-long-token"), For(Metrics), 401, Account{}},
		{"no texts", basic("grafana", "other"), For(Viewer).WithTexts(), 403, Account{}},
		{"role too low", basic("grafana", "other"), For(Operator), 403, Account{}},
		{"role high enough", basic("grafana", "other"), For(Metrics), 200, Account{"grafana", Viewer, false}},
		{"token", header("Bearer a-long-token"), For(Metrics), 200, Account{"scraper", Metrics, false}},
		{"token, scheme in lower case", header("bearer a-long-token"), For(Metrics), 200, Account{"scraper", Metrics, false}},
		{"token of a low role", header("Bearer a-long-token"), For(Viewer), 403, Account{}},
		{"wrong token", header("Bearer a-long-toke"), For(Metrics), 401, Account{}},
		{"the token's hash", header("Bearer " + tokenHash("a-long-token")), For(Metrics), 401, Account{}},
		{"empty token", header("Bearer "), For(Metrics), 401, Account{}},
		{"two headers", header("Bearer a-long-token", "Bearer a-long-token"), For(Metrics), 401, Account{}},
		{"another scheme", header("Digest a-long-token"), For(Metrics), 401, Account{}},
		{"no credentials", header(), For(Metrics), 401, Account{}},
		{"an endpoint without a Need", basic("dba", "correct"), Need{}, 403, Account{}},
	} {
		if code, seen := call(g, c.need, c.change); code != c.code || seen != c.want {
			t.Errorf("%s: %d as %+v, want %d as %+v", c.name, code, seen, c.code, c.want)
		}
	}
}

// TestAnonymous checks that an entry of that name applies to requests without credentials, never to wrong
// ones.
func TestAnonymous(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	writeFile(t, path, "anonymous: {role: metrics}\ndba: {role: operator, password: "+hashOf(t, "correct")+"}\n")
	g, err := NewGate(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		need   Need
		code   int
	}{
		"within the role":   {header(), For(Metrics), 200},
		"above the role":    {header(), For(Viewer), 401}, // so that browsers prompt
		"wrong credentials": {basic("dba", "wrong"), For(Metrics), 401},
		"by name":           {basic(Anonymous, ""), For(Metrics), 401},
	} {
		if code, _ := call(g, c.need, c.change); code != c.code {
			t.Errorf("%s: %d, want %d", name, code, c.code)
		}
	}
}

// TestReload changes, breaks and repairs the file of a running gate.
func TestReload(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	at := time.Now()
	write := func(text string) {
		t.Helper()
		writeFile(t, path, text)
		at = at.Add(time.Second) // independent of the file system's time resolution
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("a: {role: viewer, password: " + hashOf(t, "one") + "}\n")
	g, err := NewGate(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	want := func(step, password string, code int) {
		t.Helper()
		if got, _ := call(g, For(Viewer), basic("a", password)); got != code {
			t.Errorf("%s: %q: %d, want %d", step, password, got, code)
		}
	}
	want("start", "one", 200)
	write("a: {role: viewer, password: " + hashOf(t, "two") + "}\n")
	want("another password", "one", 401)
	want("another password", "two", 200)
	write("a: {role: admin, password: secret-by-mistake}\n")
	want("broken", "two", 200)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("removed", "two", 200)
	want("removed", "two", 200)
	write("a: {role: metrics, password: " + hashOf(t, "two") + "}\n")
	want("demoted", "two", 403)
	text := log.String()
	if strings.Count(text, "level=ERROR") != 2 || strings.Count(text, "reloaded") != 2 || strings.Contains(text, "secret-by-mistake") || strings.Contains(text, "$2") {
		t.Errorf("log: %s", text)
	}
}

// TestBadFiles checks that each problem is reported without any hash of the file.
func TestBadFiles(t *testing.T) {
	hash := hashOf(t, "x")
	for text, want := range map[string]string{
		"":                               "not a map of accounts",
		"[]":                             "line 1: want lines",
		"{}":                             "no accounts",
		"a:":                             `account "a": unknown role ""`,
		"a: {role: admin, password: p}":  `account "a": unknown role "admin": want metrics, viewer or operator`,
		"a: {role: viewer}":              "want either password, a bcrypt hash, or token_sha256",
		"a: {role: viewer, password: p}": "password is no bcrypt hash",
		"a: {role: viewer, password: \"" + strings.Replace(hash, "$04$", "$31$", 1) + "\"}":         "with a cost up to 14",
		"a: {role: viewer, token_sha256: abcd}":                                                     "no SHA-256 hash",
		"a: {role: viewer, password: " + hash + ", token_sha256: " + tokenHash("y") + "}":           "want either password",
		"a: {role: viewer, text: true, password: " + hash + "}":                                     "line 1: want lines",
		"a: {role: viewer, password: " + hash + "}\na: {role: operator, password: " + hash + "}":    "line 2: want lines",
		"a: {role: viewer, texts: secret-value, password: " + hash + "}":                            "line 1: want lines",
		"a: {role: viewer, password: " + hash + "}\n---\nb: {role: viewer, password: " + hash + "}": "more than one YAML document",
		"anonymous: {role: viewer, password: " + hash + "}":                                         "have no password or token",
		"\"\": {role: viewer, password: " + hash + "}":                                              "empty name",
	} {
		_, err := parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
			continue
		}
		if strings.Contains(err.Error(), "$2a") || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s: the error has a value of the file: %v", text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	writeFile(t, path, "a: {role: viewer, password: "+hash+"}\n")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := CheckFile(path); err == nil || !strings.Contains(err.Error(), "can be written by every user") {
		t.Errorf("a file that every user may write: %v", err)
	}
}

// TestNeedsAreOrdered checks that a higher role includes the lower ones, and that texts are independent of
// roles.
func TestNeedsAreOrdered(t *testing.T) {
	for _, have := range append(Roles(), 0) {
		for _, need := range append(Roles(), 0) {
			for _, texts := range []bool{false, true} {
				a := Account{Role: have, Texts: texts}
				if got, want := a.May(For(need)), need != 0 && have >= need; got != want {
					t.Errorf("%v for %v: %t, want %t", have, need, got, want)
				}
				if got, want := a.May(For(need).WithTexts()), need != 0 && have >= need && texts; got != want {
					t.Errorf("%v, texts %t, for %v with texts: %t, want %t", have, texts, need, got, want)
				}
			}
		}
	}
}

// TestUnknownAccountsTakeAsLong checks that the hash compared for an unknown name has the highest cost of the
// file.
func TestUnknownAccountsTakeAsLong(t *testing.T) {
	expensive, err := bcrypt.GenerateFromPassword([]byte("x"), 6)
	if err != nil {
		t.Fatal(err)
	}
	a, err := parse([]byte("a: {role: viewer, password: " + hashOf(t, "x") + "}\nb: {role: viewer, password: " + string(expensive) + "}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a.cost != 6 {
		t.Errorf("cost %d, want 6", a.cost)
	}
}
