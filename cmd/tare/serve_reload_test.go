package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/config"
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
