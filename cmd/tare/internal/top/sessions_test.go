package top

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func someSessions() *Sessions {
	return &Sessions{
		Dropped: 3,
		Sessions: []Session{
			{
				Session: 7, Command: 40, Connection: 70, User: "app", Client: "10.0.0.7:4711", Schema: "shop", State: "waiting-for-backend", Name: "Query", Seconds: 12.5, Text: "UPDATE t\x1b[2J", TextCut: true, Transaction: 30,
				Waits: &Block{Kind: "row", Table: "shop.t", Connection: 80, User: "batch", State: "idle-in-transaction"},
			},
			{Session: 8, Command: 2, Connection: 80, User: "batch", State: "idle-in-transaction", Seconds: 900, Digest: "02ab", Transaction: 1000},
		},
		Transactions: []Session{{Session: 8, Command: 2, Connection: 80, User: "batch", State: "idle-in-transaction", Seconds: 900, Digest: "02ab", Transaction: 1000}},
	}
}

// TestLockWords describes locks of all kinds, with and without a known holder.
func TestLockWords(t *testing.T) {
	for want, b := range map[string]Block{
		"row lock on a.b of connection 7 (x, idle in transaction)": {Kind: "row", Table: "a.b", Connection: 7, User: "x", State: "idle-in-transaction"},
		"global lock of connection 7":                              {Kind: "global", Connection: 7},
		"global lock of an unknown connection":                     {Kind: "global"},
		"metadata lock on a.b of an unknown connection":            {Kind: "metadata", Table: "a.b"},
	} {
		if got := b.words(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSessionsScreen shows sessions, and kills a statement or a session after a confirmation.
func TestSessionsScreen(t *testing.T) {
	m := NewModel(ModelOptions{Host: "db1:8316", Window: time.Minute, By: ByLoad})
	press := func(keys ...string) (last Action) {
		for _, k := range keys {
			last = m.Key(k)
		}
		return last
	}
	shows := func(parts ...string) {
		t.Helper()
		view := m.View()
		for _, p := range parts {
			if !strings.Contains(view, p) {
				t.Errorf("there is no %q in\n%s", p, view)
			}
		}
		for line := range strings.SplitSeq(view, "\n") {
			if utf8.RuneCountInString(line) > m.width || strings.Contains(line, "\x1b") {
				t.Errorf("a line of %d columns, or an escape sequence: %q", utf8.RuneCountInString(line), line)
			}
		}
		if n := strings.Count(view, "\n") + 1; n > m.height {
			t.Errorf("%d lines on a screen of %d", n, m.height)
		}
	}
	press("n")
	shows("asking") // no frame yet
	m.Show(&Frame{})
	shows("does not list sessions")
	m.Show(&Frame{Sessions: someSessions()})
	for _, size := range [][2]int{{80, 24}, {160, 24}, {200, 8}, {20, 3}, {1, 1}} {
		m.Resize(size[0], size[1])
		shows()
	}
	m.Resize(220, 24)
	if lines := strings.Split(m.View(), "\n"); !strings.HasPrefix(lines[2], "Statements in flight") {
		t.Errorf("the third line is %q", lines[2])
	}
	shows("> ", "12.5 s", "30.0 s", "[waits for a row lock on shop.t of connection 80 (batch, idle in transaction)]", "(cut)", "2, and 3 younger ones", "02ab")
	if press("x") != None || m.ToKill() != nil {
		t.Error("a statement is killed without a confirmation")
	}
	shows("kill the statement of connection 70 (app from 10.0.0.7:4711)?")
	if press("j") != None || m.ToKill() != nil || m.session != 0 {
		t.Error("another key than y confirms")
	}
	if press("x", "y") != KillSession || *m.ToKill() != (Kill{7, 40, "statement"}) {
		t.Errorf("killed is %+v", m.ToKill())
	}
	m.Killed(errors.New("the session executes another command now"))
	shows("not killed: the session executes another command now")
	press("j", "x")
	shows("no statement runs in this session")
	if press("y") != None {
		t.Error("a statement of an idle session is killed")
	}
	if press("X", "y") != KillSession || *m.ToKill() != (Kill{8, 2, "session"}) {
		t.Errorf("killed is %+v", m.ToKill())
	}
	m.Killed(nil)
	shows("killed")
	press("t")
	shows("Longest transactions: 1", "1000 s", "esc back")
	m.Show(&Frame{Sessions: &Sessions{}}) // all have ended
	if press("x", "y", "j", "k"); m.ToKill() != nil {
		t.Error("a session is killed that is not listed")
	}
	press("esc")
	shows("statements/s")
}

// TestKill expects the request of the API, and its errors.
func TestKill(t *testing.T) {
	var got Kill
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/sessions/kill", func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, %s", err, r.Header)
		}
		if got.What == "session" {
			http.Error(w, "the account is viewer", http.StatusForbidden)
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	client, err := NewClient(ClientOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	want := Kill{7, 40, "statement"}
	if err := client.Kill(t.Context(), want); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if err := client.Kill(t.Context(), Kill{7, 0, "session"}); err == nil || !strings.Contains(err.Error(), "the account is viewer") {
		t.Errorf("the refusal is %v", err)
	}
}

// TestSessionsPrinted prints what has run longer than a second, each session once.
func TestSessionsPrinted(t *testing.T) {
	s := someSessions()
	s.Sessions = append(s.Sessions, Session{Session: 9, Seconds: 0.2, Text: "SELECT 1", Name: "Query"})
	text := plain(ModelOptions{}, &Frame{Sessions: s})
	if strings.Count(text, "02ab") != 1 || strings.Count(text, "UPDATE t") != 1 || strings.Contains(text, "SELECT 1") || strings.Contains(text, "\x1b") {
		t.Errorf("printed is\n%s", text)
	}
}
