package access

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecord has calls in the log that change state, with their account and status, and no others.
func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	writeFile(t, path, fmt.Sprintf("dba: {role: operator, password: %s}\nviewer: {role: viewer, password: %s}\n", hashOf(t, "correct"), hashOf(t, "other")))
	var log bytes.Buffer
	g, err := NewGate(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		need     Need
		user, pw string
		code     int
		want     string // "": no record
	}{
		{For(Operator), "dba", "correct", 200, ""},
		{For(Operator).Changing(), "dba", "correct", 200, "level=INFO msg=\"operator call\" account=dba remote=192.0.2.1:1234 method=POST path=/x status=200"},
		{For(Operator).Changing(), "dba", "correct", 409, "level=WARN msg=\"operator call\" account=dba remote=192.0.2.1:1234 method=POST path=/x status=409"},
		{For(Operator).Changing(), "viewer", "other", 403, "level=WARN msg=\"operator call\" account=viewer remote=192.0.2.1:1234 method=POST path=/x status=403"},
		{For(Operator).Changing(), "dba", "wrong", 401, "level=WARN msg=\"operator call\""},
	} {
		log.Reset()
		h := g.Require(tt.need, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tt.code) }),
			func(w http.ResponseWriter, r *http.Request, d Denial) { http.Error(w, d.Text(r.URL.Path), d.Status) })
		r := httptest.NewRequest(http.MethodPost, "/x", nil)
		r.SetBasicAuth(tt.user, tt.pw)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		_, line, _ := strings.Cut(log.String(), " ")
		if w.Code != tt.code || (line == "") != (tt.want == "") || !strings.Contains(line, tt.want) {
			t.Errorf("%s as %s: %d, %q; want %d, %q", tt.need, tt.user, w.Code, line, tt.code, tt.want)
		}
	}
}

// TestFilesAtStart has files with which no gate is opened.
func TestFilesAtStart(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "none"), "a: {role: admin, password: p}\n")
	for name, want := range map[string]string{"missing": "no such file", "none": `unknown role "admin"`} {
		path := filepath.Join(dir, name)
		g, err := NewGate(path, slog.New(slog.DiscardHandler))
		if err == nil || g != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", name, g, err, want)
		}
		if err := CheckFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
