package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReady checks a server that is ready, is not, requires an account, and does not exist.
func TestReady(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch user, password, _ := r.BasicAuth(); {
		case r.URL.Path != "/-/ready":
			w.WriteHeader(http.StatusNotFound)
		case user != "ops" || password != "weight":
			w.WriteHeader(http.StatusUnauthorized)
		case status != http.StatusOK:
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "not ready: backend db:3306: connection refused\n")
		default:
			_, _ = io.WriteString(w, "ready\n")
		}
	}))
	defer s.Close()
	password := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(password, []byte("weight\n"), 0o600))
	account := []string{"--user", "ops", "--password-file", password}
	for _, c := range []struct {
		status, code int
		args         []string
		says         string
	}{
		{200, 0, append([]string{"--url", s.URL}, account...), "ready"},
		{503, 1, append([]string{"--url", s.URL}, account...), "returned 503 Service Unavailable: not ready: backend db:3306: connection refused"},
		{200, 1, []string{"--url", s.URL}, "requires an account (401)"},
		{200, 1, append([]string{"--url", s.URL + "/elsewhere"}, account...), "404"},
		{200, 1, []string{"--url", "http://127.0.0.1:1"}, "connection refused"},
		{200, 64, []string{"--url", "127.0.0.1"}, "address: want host:port, http://host:port"},
		{200, 64, []string{"--user", "ops", "--password-file", password + "x"}, "read --password-file"},
	} {
		status = c.status
		var out, complaints strings.Builder
		code := run(t.Context(), append([]string{"ready"}, c.args...), &out, &complaints)
		if code != c.code || !strings.Contains(out.String()+complaints.String(), c.says) || strings.Contains(complaints.String(), "weight") {
			t.Errorf("ready %v: %d, want %d and %q:\n%s%s", c.args, code, c.code, c.says, &out, &complaints)
		}
		if (out.Len() > 0) != (code == 0) {
			t.Errorf("ready %v: %d, and %q on standard output", c.args, code, &out)
		}
	}
}
