package web

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/serverstats"
)

// fakeSessions are a session that waits for a lock, and its idle holder, whose names are hostile. Kills are appended to killed.
func fakeSessions(now time.Time, killed *[]gateway.Kill, fail error) *SessionSource {
	list := []gateway.SessionInfo{
		{
			Number: 7, Command: 3, Connection: 70, User: `<b>x"`, Client: netip.MustParseAddrPort("127.0.0.1:99"), Activity: gateway.ActivityBackend,
			Name: "Query", Since: now.Add(-12 * time.Second), Digest: [16]byte{2, 15: 9}, Text: secretText, TextCut: true, Rows: 1234,
		},
		{Number: 8, Command: 2, Connection: 80, User: "batch", Activity: gateway.ActivityTransaction, Since: now.Add(-time.Minute), Transaction: now.Add(-2 * time.Minute)},
	}
	return &SessionSource{
		Busy: func(limit int, age time.Duration) gateway.Busy {
			b := gateway.Busy{At: now, Sessions: append([]gateway.SessionInfo(nil), list[:min(limit, len(list))]...)}
			b.Counts[gateway.ActivityBackend], b.Counts[gateway.ActivityTransaction] = 1, 1
			return b
		},
		Kill: func(k gateway.Kill) (gateway.SessionInfo, error) {
			*killed = append(*killed, k)
			return list[0], fail
		},
		Blocked: func() (time.Time, map[uint32]serverstats.Block) {
			return now.Add(-time.Second), map[uint32]serverstats.Block{70: {Holder: 80, Kind: serverstats.RowLock, Table: "shop.orders"}}
		},
	}
}

// TestSessions shows sessions by the API and on both pages, with and without the right to see texts.
func TestSessions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var killed []gateway.Kill
	for name, texts := range map[string]bool{"texts": true, "no texts": false} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{
				Title: "tare serve", Gatherer: prometheus.NewRegistry(), Statements: &fakeStatements{rows: 1}, Sessions: fakeSessions(now, &killed, nil),
				Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
			})
			get := func(path string) string {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				v := &view{r: r, query: r.URL.Query(), now: now, texts: texts, account: access.Account{Name: "a", Role: access.Viewer, Texts: texts}}
				d := s.parts.sessions.rows(v, 10, 0)
				body, err := s.pages.execute(&page{template: "sessions", fixed: true}, v, d)
				if err != nil {
					t.Fatal(err)
				}
				return string(body)
			}
			s.Handler()
			body := get("/sessions")
			for _, want := range []string{"12 s", "1,234", "waits for a row lock on shop.orders of connection 80 (batch, idle-in-transaction)", "2 min", "Idle in transaction"} {
				if !strings.Contains(body, want) {
					t.Errorf("the page lacks %q", want)
				}
			}
			regions := regexp.MustCompile(`role="region" aria-label="[^"]*"`).FindAllString(body, -1)
			if slices.Sort(regions); len(regions) < 2 || len(slices.Compact(regions)) != len(regions) {
				t.Errorf("the regions' labels are not unique: %q", regions)
			}
			if strings.Contains(body, "secret") != texts || strings.Contains(body, "text cut") != texts {
				t.Errorf("texts %t, but the page's are not", texts)
			}
			if strings.Contains(body, "<b>x") || strings.Contains(body, "/sessions/kill") {
				t.Error("the page has a user's markup, or buttons for a viewer")
			}
			out, err := json.Marshal(s.parts.sessions.list(10, 0, texts))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(out), "secret") != texts || !strings.Contains(string(out), `"waits_for":{"kind":"row","table":"shop.orders","connection":80,"session":8,"user":"batch","state":"idle-in-transaction"}`) {
				t.Errorf("the response is %s", out)
			}
		})
	}
}

// TestUnknownHolder shows sessions that wait for a lock whose holder the server does not report, and the reason.
func TestUnknownHolder(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o, _ := pageOptions()
	o.Now = func() time.Time { return now }
	o.Counts = fakeCounts{locks: []serverstats.LockWait{{From: now.Add(-9 * time.Second), To: now, Kind: serverstats.GlobalLock, Waiters: 2, Longest: 9 * time.Second}}}
	o.Sessions = fakeSessions(now, new([]gateway.Kill), nil)
	o.Sessions.Blocked = func() (time.Time, map[uint32]serverstats.Block) {
		return now, map[uint32]serverstats.Block{70: {Kind: serverstats.GlobalLock}}
	}
	h := New(o).Handler()
	const problem = "The holders of metadata locks are unknown."
	for path, want := range map[string][]string{
		"/sessions":        {"waits for a global lock of an unknown connection<", problem},
		"/":                {"waits for a global lock of an unknown connection<", "An unknown connection holds a global lock; 2 sessions wait, up to 9 s."},
		"/api/v1/sessions": {`"waits_for":{"kind":"global","table":"","connection":0}`, `"lock_problem":"` + problem + `"`},
	} {
		_, body := browse(t, h, path, "dba")
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s lacks %s:\n%s", path, text, body)
			}
		}
	}
	o.Sessions = fakeSessions(now, new([]gateway.Kill), nil)
	if _, body := browse(t, New(o).Handler(), "/sessions", "dba"); strings.Contains(body, problem) {
		t.Error("the page has the reason without a session that waits for an unknown one")
	}
}

// TestSessionLimit has the parameters of the API on the page too.
func TestSessionLimit(t *testing.T) {
	o, _ := pageOptions()
	var asked [][2]any
	o.Sessions = fakeSessions(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), new([]gateway.Kill), nil)
	busy := o.Sessions.Busy
	o.Sessions.Busy = func(limit int, age time.Duration) gateway.Busy {
		asked = append(asked, [2]any{limit, age})
		return busy(limit, age)
	}
	h := New(o).Handler()
	for query, want := range map[string][2]any{"": {100, time.Duration(0)}, "?limit=1": {1, time.Duration(0)}, "?limit=1000&age=2s": {1000, 2 * time.Second}} {
		for _, path := range []string{"/sessions", "/api/v1/sessions"} {
			asked = nil
			if code, body := browse(t, h, path+query, "dba"); code != http.StatusOK || len(asked) == 0 || asked[0] != want {
				t.Errorf("%s%s: %d, asked %v, want %v:\n%.300s", path, query, code, asked, want, body)
			}
		}
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?age=-1s", "?age=1"} {
		for _, path := range []string{"/sessions", "/api/v1/sessions"} {
			if code, _ := browse(t, h, path+query, "dba"); code != http.StatusBadRequest {
				t.Errorf("%s%s: %d", path, query, code)
			}
		}
	}
	for query, want := range map[string]string{"?limits=1": `unknown parameter "limits": want limit or age`, "?age=1s&age=2s": "age is given 2 times"} {
		if code, body := browse(t, h, "/api/v1/sessions"+query, "dba"); code != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}

// TestKillRequests kills by the API and by the form. Malformed requests kill nothing.
func TestKillRequests(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		body   string
		fail   error
		status int
		want   gateway.Kill
	}{
		{`{"session":7,"command":3,"what":"statement"}`, nil, 200, gateway.Kill{Session: 7, Command: 3}},
		{`{"session":7,"what":"session"}`, nil, 200, gateway.Kill{Session: 7, Whole: true}},
		{`{"session":7,"command":3,"what":"statement"}`, gateway.ErrOtherNow, 409, gateway.Kill{Session: 7, Command: 3}},
		{`{"session":7,"command":3,"what":"statement"}`, gateway.ErrNoSession, 404, gateway.Kill{Session: 7, Command: 3}},
		{`{"session":7,"command":3,"what":"statement"}`, gateway.ErrNoKill, 501, gateway.Kill{Session: 7, Command: 3}},
		{`{"session":7,"what":"statement"}`, nil, 400, gateway.Kill{}},
		{`{"session":7,"command":3}`, nil, 400, gateway.Kill{}},
		{`{"session":-7,"command":3,"what":"session"}`, nil, 400, gateway.Kill{}},
		{`{"session":7,"command":3,"what":"session","user":"x"}`, nil, 400, gateway.Kill{}},
		{``, nil, 400, gateway.Kill{}},
	} {
		var killed []gateway.Kill
		var trace []string
		source := fakeSessions(now, &killed, c.fail)
		source.Killed = func(account, what string) { trace = append(trace, account+": "+what) }
		s := New(Options{Title: "tare serve", Gatherer: prometheus.NewRegistry(), Sessions: source, Log: slog.New(slog.DiscardHandler)})
		h := s.Handler()
		send := func(path, kind, body string) int {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			_, _ = io.Copy(io.Discard, w.Result().Body)
			return w.Code
		}
		if got := send(killPath, "application/json", c.body); got != c.status {
			t.Errorf("%s, %v: status %d, want %d", c.body, c.fail, got, c.status)
		}
		if c.want == (gateway.Kill{}) && len(killed) > 0 || c.want != (gateway.Kill{}) && (len(killed) != 1 || killed[0] != c.want) {
			t.Errorf("%s: killed %+v", c.body, killed)
		}
		if traced := len(trace) == 1 && strings.Contains(trace[0], "from 127.0.0.1:99, connection 70"); traced != (c.status == 200) {
			t.Errorf("%s: the trace is %q", c.body, trace)
		}
		if c.status == 200 {
			form := url.Values{"session": {"7"}, "command": {"3"}, "what": {"session"}}
			if got := send("/sessions/kill", "application/x-www-form-urlencoded", form.Encode()); got != http.StatusSeeOther || !killed[1].Whole {
				t.Errorf("the form: status %d, %+v", got, killed)
			}
			if got := send("/sessions/kill", "application/x-www-form-urlencoded", "session=7&command=x&what=session"); got != 400 || len(killed) != 2 {
				t.Errorf("a malformed form: status %d, %+v", got, killed)
			}
			if got := send(killPath, "text/plain", c.body); got != 415 || len(killed) != 2 {
				t.Errorf("another type: status %d, %+v", got, killed)
			}
		}
	}
}
