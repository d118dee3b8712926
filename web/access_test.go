package web

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/taredb/tare/internal/access"
)

// testPassword is the password of every account of testGate.
const testPassword = "weight"

// testGate returns a gate with an account of each role with and without texts: "operator", "operator-blind"
// and so on, and dba and guest, an operator with texts and a viewer without.
func testGate(t *testing.T, log *slog.Logger) *access.Gate {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(testPassword), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	account := func(name string, role access.Role, texts bool) {
		fmt.Fprintf(&text, "%s: {role: %s, texts: %t, password: %s}\n", name, role, texts, hash)
	}
	for _, role := range access.Roles() {
		account(role.String(), role, true)
		account(role.String()+"-blind", role, false)
	}
	account("dba", access.Operator, true)
	account("guest", access.Viewer, false)
	file := filepath.Join(t.TempDir(), "accounts.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := NewGate("", file, log)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestEveryRouteDeclaresARole calls every endpoint with every account and compares with the declaration of
// the endpoint.
func TestEveryRouteDeclaresARole(t *testing.T) {
	o, _ := pageOptions()
	o.Gate = testGate(t, slog.New(slog.DiscardHandler))
	o.Routes = []Route{
		NewRoute(access.For(access.Operator).Changing(), "POST /api/v1/change", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "changed") })),
	}
	s := New(o)
	h := s.Handler()
	seen, attempts := make(map[access.Need]int), 0
	for _, e := range s.Endpoints() {
		if strings.HasSuffix(e.Path, "/profile") || strings.HasSuffix(e.Path, "/trace") {
			continue // they take seconds
		}
		seen[e.Need]++
		path := strings.ReplaceAll(e.Path, "{digest}", someDigest)
		for _, role := range access.Roles() {
			for name, texts := range map[string]bool{role.String(): true, role.String() + "-blind": false} {
				r := httptest.NewRequest(e.Method, path, nil)
				r.SetBasicAuth(name, testPassword)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				may := access.Account{Name: name, Role: role, Texts: texts}.May(e.Need)
				if denied := w.Code == http.StatusForbidden; denied == may {
					t.Errorf("%s %s as %s: %d, although it requires %s", e.Method, path, name, w.Code, e.Need)
				}
				if !may && !strings.Contains(w.Body.String(), e.Need.String()) {
					t.Errorf("%s %s as %s: the response does not have %q: %s", e.Method, path, name, e.Need, w.Body)
				}
			}
		}
		for _, wrong := range []string{"", "nobody", "dba"} {
			attempts++
			r := httptest.NewRequest(e.Method, path, nil)
			r.RemoteAddr = fmt.Sprintf("198.18.%d.%d:4711", attempts/250, attempts%250) // wrong passwords are limited per address
			if wrong != "" {
				r.SetBasicAuth(wrong, "guess")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" || !strings.Contains(w.Body.String(), e.Need.String()) {
				t.Errorf("%s %s with wrong credentials of %q: %d %q", e.Method, path, wrong, w.Code, w.Body)
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("endpoints require %v, want five different Needs", seen)
	}
}

// TestRouteWithoutRole expects registration of an endpoint without a role to fail immediately, and the zero
// Need to admit no account.
func TestRouteWithoutRole(t *testing.T) {
	h := http.NotFoundHandler()
	viewer := access.For(access.Viewer)
	for name, r := range map[string]Route{
		"no role": NewRoute(access.Need{}, "GET /x", h), "no handler": NewRoute(viewer, "GET /x", nil), "no method": NewRoute(viewer, "/x", h), "zero": {},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: registered", name)
				}
			}()
			o := testOptions()
			o.Routes = []Route{r}
			New(o)
		}()
	}
}

// TestChangesAreLogged expects one log line per modifying call with its account, remote address and result,
// without the data that was sent.
func TestChangesAreLogged(t *testing.T) {
	var log bytes.Buffer
	o := testOptions()
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Gate = testGate(t, o.Log)
	changed := 0
	o.Routes = []Route{
		NewRoute(access.For(access.Operator).Changing(), "POST /api/v1/route/switch", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			changed++
			if r.URL.RawQuery == "fail" {
				plain(w, http.StatusConflict, "no")
			}
		})),
		NewRoute(access.For(access.Viewer), "POST /api/v1/query", http.NotFoundHandler()),
	}
	h := New(o).Handler()
	for _, c := range []struct {
		user, path string
		code       int
		want       string
	}{
		{"dba", "/api/v1/route/switch", 200, "level=INFO msg=\"operator call\" account=dba remote=192.0.2.1:1234 method=POST path=/api/v1/route/switch status=200"},
		{"dba", "/api/v1/route/switch?fail", 409, "level=WARN msg=\"operator call\" account=dba remote=192.0.2.1:1234 method=POST path=/api/v1/route/switch status=409"},
		{"guest", "/api/v1/route/switch", 403, "level=WARN msg=\"operator call\" account=guest remote=192.0.2.1:1234 method=POST path=/api/v1/route/switch status=403"},
		{"", "/api/v1/route/switch", 401, "level=WARN msg=\"operator call\" account=anonymous remote=192.0.2.1:1234 method=POST path=/api/v1/route/switch status=401"},
		{"dba", "/api/v1/query", 404, ""},
	} {
		log.Reset()
		r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(`{"token": "secret"}`))
		if c.user != "" {
			r.SetBasicAuth(c.user, testPassword)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		_, line, _ := strings.Cut(strings.TrimSpace(log.String()), " ") // after the time
		if w.Code != c.code || line != c.want {
			t.Errorf("%s as %q: %d, logged %q, want %d and %q", c.path, c.user, w.Code, line, c.code, c.want)
		}
	}
	if changed != 2 {
		t.Errorf("%d changes, want the two of dba", changed)
	}
}

// TestWarnIfOpen expects a warning in the log of a server that other machines reach without accounts or
// without TLS, and the scheme of its address.
func TestWarnIfOpen(t *testing.T) {
	dir := t.TempDir()
	config := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const open, clear = "without accounts is open to other machines", "without TLS is open to other machines"
	certificate := config("tls.yaml", "tls_server_config: {cert_file: a.pem, key_file: b.pem}\n")
	both := config("both.yaml", "tls_server_config: {cert_file: a.pem, key_file: b.pem}\nbasic_auth_users: {dba: "+testHash+"}\n")
	clients := config("clients.yaml", "tls_server_config: {cert_file: a.pem, key_file: b.pem, client_auth_type: RequireAndVerifyClientCert}\n")
	for _, c := range []struct {
		ip, config string
		gate       bool
		want       string
	}{
		{"127.0.0.1", "", false, ""},
		{"::1", "", false, ""},
		{"192.0.2.1", "", false, open},
		{"::", "", false, open},
		{"0.0.0.0", certificate, false, open},
		{"0.0.0.0", both, false, ""},
		{"0.0.0.0", clients, false, ""},
		{"0.0.0.0", config("users.yaml", "basic_auth_users: {dba: "+testHash+"}\n"), false, clear},
		{"0.0.0.0", "", true, clear},
		{"0.0.0.0", certificate, true, ""},
	} {
		var log bytes.Buffer
		o := testOptions()
		o.Log, o.ConfigFile = slog.New(slog.NewTextHandler(&log, nil)), c.config
		if c.gate {
			o.Gate = testGate(t, o.Log)
		}
		at, server := &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 8316}, New(o)
		server.warnIfOpen(at)
		if got, clear := server.URL(at), c.config == "" || strings.HasSuffix(c.config, "users.yaml"); strings.HasPrefix(got, "http://") != clear || !strings.HasSuffix(got, "://"+at.String()) {
			t.Errorf("%s, %q: the address is %s", c.ip, c.config, got)
		}
		if got := log.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) || got != "" && !strings.Contains(got, "level=WARN") {
			t.Errorf("%s, %q, accounts %t: logged %q, want %q", c.ip, c.config, c.gate, got, c.want)
		}
	}
}

// TestCheckConfig expects accounts in only one of the two files.
func TestCheckConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	users := write("users.yaml", "basic_auth_users:\n  dba: "+testHash+"\n")
	accounts := write("accounts.yaml", "dba: {role: operator, password: "+testHash+"}\n")
	others := write("others.yaml", "")
	if err := os.Chmod(others, 0o602); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ config, accounts, want string }{
		{"", "", ""},
		{users, "", ""},
		{"", accounts, ""},
		{users, accounts, "excludes basic_auth_users"},
		{"nope.yaml", "", "option web-config-file: "},
		{"", "nope.yaml", "option web-accounts-file: read accounts: "},
		{write("typo.yaml", "basic_auth_user: {dba: secret}\n"), "", "line 1: want the web configuration"},
		{others, "", "can be written by every user"},
	} {
		err := CheckConfig(c.config, c.accounts)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q and %q: %v, want %q", c.config, c.accounts, err, c.want)
		}
	}
	g, err := NewGate(users, "", slog.New(slog.DiscardHandler))
	if err != nil || g.Open() {
		t.Errorf("a gate with accounts of a web configuration: %v", err)
	}
}

// testHash is a bcrypt hash.
const testHash = "$2a$10$lJ1ERyKhvJ6lVMCIQVGFVe5scJESI0VG/AMrRa45Kq9Tw3N17y9c."
