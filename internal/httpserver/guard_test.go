package httpserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGuardNamesHost expects that the response to a refused name has the name and the option, and that every
// byte of it is printable.
func TestGuardNamesHost(t *testing.T) {
	h := newGuard([]string{"tare.example.com"}).wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	refused := func(host, origin string) string {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/query", nil)
		r.Host = host
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "option http-allowed-hosts") {
			t.Errorf("Host %q, Origin %q: %d %s", host, origin, w.Code, w.Body)
		}
		var e struct{ Status, ErrorType, Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Status != "error" || e.ErrorType != "forbidden" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("Host %q, Origin %q: %v %v %s", host, origin, err, w.Header(), w.Body)
		}
		return e.Error
	}
	for _, c := range []struct{ host, origin, want string }{
		{"metrics.internal:8317", "", `Host header "metrics.internal:8317"`},
		{"db-3", "http://db-3", `Host header "db-3"`},
		{"tare.example.com", "https://grafana.example.com", `Origin header "https://grafana.example.com"`},
		{"tare.example.com", "null", `Origin header "null"`},
		{"a\r\nb", "", `Host header "a\r\nb"`},
		{"a\x1b[2Jb", "", `Host header "a\x1b[2Jb"`},
		{"caf\u00e9", "", `Host header "caf\u00e9"`},
	} {
		if body := refused(c.host, c.origin); !strings.Contains(body, c.want) {
			t.Errorf("Host %q, Origin %q: %q lacks %q", c.host, c.origin, body, c.want)
		}
	}
	for b := range 256 {
		name := "x" + string([]byte{byte(b)}) + ".example"
		for _, body := range []string{refused(name, ""), refused("tare.example.com", "http://"+name)} {
			if i := strings.IndexFunc(strings.TrimSuffix(body, "\n"), func(c rune) bool { return c < ' ' || c > '~' }); i >= 0 {
				t.Errorf("the response to byte %#x has %q", b, body[i])
			}
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/statements", nil)
	r.Host = "db-3"
	if h.ServeHTTP(w, r); !strings.HasPrefix(w.Body.String(), `refuse the request: its Host header "db-3"`) || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("a page: %v %s", w.Header(), w.Body)
	}
	if body := refused(strings.Repeat("a", 1<<20), ""); len(body) > 1000 {
		t.Errorf("the response to a name of 1 MiB has %d bytes", len(body))
	}
}
