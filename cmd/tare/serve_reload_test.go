package main

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/web"
)

// TestReload reloads a configuration over HTTP, and shows what changed on the weight page. A reload that fails leaves the
// rules in force and succeeds after the file was corrected.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	file, accounts := filepath.Join(dir, "tare.yaml"), filepath.Join(dir, "accounts")
	write := func(path, text string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	options := "serve:\n  listen: 127.0.0.1:0\n  http: 127.0.0.1:0\n  data-dir: " + filepath.Join(dir, "data") +
		"\n  standby: mysql://127.0.0.1:1\n  standby-accounts: " + accounts + "\n"
	const rule = "    - {name: a, action: block, types: [ddl]}\n"
	write(accounts, "app: secret\n")
	write(file, options+"  rules:\n"+rule)
	o := config.NewServe()
	_, err := o.Load(config.Input{Flags: map[string]string{"config": file, "max-user-connections": "5"}})
	must(t, err)
	s := opened(t, newService(*o, slog.New(slog.DiscardHandler)))
	call := func(method, path string) (int, string) {
		t.Helper()
		w := httptest.NewRecorder()
		s.Web.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w.Code, w.Body.String()
	}
	reload := func(status int, failure string, want web.Reload) {
		t.Helper()
		code, body := call("POST", "/-/reload")
		var got web.Reload
		must(t, json.Unmarshal([]byte(body), &got))
		if code != status || got.Time.IsZero() || strings.Contains(body, "null") || !strings.Contains(got.Error, failure) || (failure == "") != (got.Error == "") {
			t.Errorf("status %d, body %s; want %d, error %q", code, body, status, failure)
		}
		got.Time, got.Error = want.Time, ""
		for _, list := range []*[]string{&want.Added, &want.Removed, &want.Changed, &want.Restart} {
			*list = append([]string{}, *list...)
		}
		if d := diff.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	onPage := func(text string) { // pages are cached for a second
		t.Helper()
		testwait.Until(t, text, func() bool { _, page := call("GET", "/weight"); return strings.Contains(page, text) })
	}
	reload(http.StatusOK, "", web.Reload{Rules: 1})
	write(file, options+"  rules-dry-run: true\n  max-user-connections: 9\n  rules:\n"+
		"    - {name: b, action: block, types: [do]}\n    - {name: a, action: block, types: [set]}\n")
	reload(http.StatusOK, "", web.Reload{Rules: 2, Added: []string{"b"}, Changed: []string{"a"}, Restart: []string{"rules-dry-run"}})
	onPage("<code>--rules-dry-run</code>")
	for text, failure := range map[string]string{
		"": "write rules: []", options: "write rules: []", options + "  rules:\n    - {name: a, action: block, effects: [fly]}\n": `unknown effect "fly"`,
	} {
		write(file, text)
		reload(http.StatusInternalServerError, failure, web.Reload{Rules: 2})
	}
	onPage("failed")
	write(file, options+"  rules:\n"+rule)
	write(accounts, "app: [\n")
	reload(http.StatusInternalServerError, "reload --standby-accounts", web.Reload{Rules: 1, Removed: []string{"b"}, Changed: []string{"a"}})
	write(accounts, "app: secret\n")
	write(file, options+"  rules: []\n")
	reload(http.StatusOK, "", web.Reload{Removed: []string{"a"}})
	if code, _ := call("GET", "/-/reload"); code != http.StatusMethodNotAllowed && code != http.StatusNotFound {
		t.Errorf("GET has the status %d", code)
	}
}

// TestReloadBothAccounts reloads the accounts of a gateway whose clients share connections, and of its standby: each file is re-read,
// also if the other one is broken.
func TestReloadBothAccounts(t *testing.T) {
	dir := t.TempDir()
	standby, shared := filepath.Join(dir, "standby"), filepath.Join(dir, "shared")
	write := func(path, text string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(standby, "app: a\n")
	write(shared, "app: b\n")
	o := config.NewServe()
	_, err := o.Load(config.Input{Flags: map[string]string{
		"listen": "127.0.0.1:0", "http": "127.0.0.1:0", "data-dir": filepath.Join(dir, "data"), "standby": "mysql://127.0.0.1:1", "standby-accounts": standby,
		"pool": "transaction", "pool-accounts": shared,
	}})
	must(t, err)
	s := opened(t, newService(*o, slog.New(slog.DiscardHandler)))
	check := func(wantStandby, wantShared string) {
		t.Helper()
		there, _ := passwordIn(&s.accounts)("app")
		here, _ := passwordIn(&s.poolAccounts)("app")
		if there != wantStandby || here != wantShared {
			t.Errorf("passwords %s and %s, want %s and %s", there, here, wantStandby, wantShared)
		}
	}
	check("a", "b")
	write(standby, "app: c\n")
	write(shared, "app: d\n")
	must(t, s.reloadAccounts())
	check("c", "d")
	write(standby, "app: [\n")
	write(shared, "app: e\n")
	if err := s.reloadAccounts(); err == nil || !strings.Contains(err.Error(), "--standby-accounts") {
		t.Error(err)
	}
	check("c", "e")
}

// TestReloadIsNotForAll reloads as several accounts and from pages of other origins: only an operator's own request
// changes the rules.
func TestReloadIsNotForAll(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tare.yaml")
	options := "serve:\n  listen: 127.0.0.1:0\n  http: 127.0.0.1:0\n  web-accounts-file: " + accountsFile(t) + "\n"
	must(t, os.WriteFile(file, []byte(options+"  rules:\n    - {name: a, action: block, types: [ddl]}\n"), 0o600))
	o := config.NewServe()
	_, err := o.Load(config.Input{Flags: map[string]string{"config": file}})
	must(t, err)
	s := opened(t, newService(*o, slog.New(slog.DiscardHandler)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = s.Web.Serve(l) }() // until the service is closed
	must(t, os.WriteFile(file, []byte(options+"  rules: []\n"), 0o600))
	for _, c := range []struct {
		user, password string
		header         []string
		want           int
	}{
		{"", "", nil, http.StatusUnauthorized},
		{"dba", "wrong", nil, http.StatusUnauthorized},
		{"nobody", "weight", nil, http.StatusUnauthorized},
		{"guest", "weight", nil, http.StatusForbidden},
		{"viewer", "weight", nil, http.StatusForbidden},
		{"metrics", "weight", nil, http.StatusForbidden},
		{"dba", "weight", []string{"Origin", "https://elsewhere.example"}, http.StatusForbidden},
		{"dba", "weight", []string{"Origin", "null"}, http.StatusForbidden},
		{"dba", "weight", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"dba", "weight", nil, http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/-/reload", nil)
		must(t, err)
		if c.user != "" {
			r.SetBasicAuth(c.user, c.password)
		}
		if c.header != nil {
			r.Header.Set(c.header[0], c.header[1])
		}
		response, err := http.DefaultClient.Do(r)
		must(t, err)
		must(t, response.Body.Close())
		if rules := s.planner.HasRules(); response.StatusCode != c.want || rules != (c.want != http.StatusOK) {
			t.Errorf("as %q with %q: %s, want %d; rules in force %v", c.user, c.header, response.Status, c.want, rules)
		}
	}
}
