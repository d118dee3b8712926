package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// A gateway responds to each path with a text, and counts the requests.
type gateway struct {
	texts map[string]string // status and text by path
	asked []string
}

func newGateway() *gateway {
	return &gateway{texts: map[string]string{
		"/api/v1/live":          `200 {"seconds":10,"statements":10,"connections":3}`,
		"/api/v1/statements":    `200 {"from":"2026-03-01T12:00:00Z","to":"2026-03-01T12:01:40Z","source":"counters","matching":2,"statements":[{"digest":"d1","text":"SELECT 1","calls":100,"seconds":10,"last_seen":"2026-03-01T12:01:00Z"},{"digest":"d2","text":"SELECT 2","calls":200,"seconds":5,"last_seen":"2026-03-01T12:01:00Z"}]}`,
		"/api/v1/sessions":      `200 {"sessions":[{"session":7,"command":9,"connection":5,"user":"app","name":"Query","seconds":3,"text":"SELECT SLEEP(9)"}]}`,
		"/api/v1/events":        `200 {"events":[{"time":"2026-03-01T12:01:00Z","title":"older"},{"time":"2026-03-01T12:01:10Z","title":"newest"}]}`,
		"/api/v1/sessions/kill": "200 ",
		"/-/ready":              "200  ready\x1b[2J\n",
	}}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.asked = append(g.asked, r.Method+" "+r.URL.Path)
	status, text, _ := strings.Cut(g.texts[r.URL.Path], " ")
	code := http.StatusNotFound
	_, _ = fmt.Sscan(status, &code)
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}

func (g *gateway) client(t *testing.T) *Client {
	t.Helper()
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	c, err := NewClient(ClientOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestReadFails has each response of a gateway be missing, refused or something else: a reading requires statements, and does without the others.
func TestReadFails(t *testing.T) {
	for _, path := range []string{"", "/api/v1/live", "/api/v1/statements", "/api/v1/sessions", "/api/v1/events", "/api/v1/sessions/kill", "/-/ready"} {
		for _, text := range []string{"404 none", "500 broken", "200 <html>", `200 {"statements":[{"digest":1}],"seconds":"x","sessions":1,"events":1}`, `200 {"statements":[{"calls":"x"}],"seconds":"x","sessions":[1],"events":[1]}`} {
			g := newGateway()
			if path != "" {
				g.texts[path] = text
			}
			c := g.client(t)
			r, err := c.Read(t.Context(), Ask{By: ByLoad, Limit: 5})
			required := path == "/api/v1/live" || path == "/api/v1/statements"
			if (err != nil) != required {
				t.Errorf("%s is %s: %v", path, text, err)
			}
			if err != nil && !strings.Contains(err.Error(), map[bool]string{true: path, false: "500"}[!strings.HasPrefix(text, "500")]) {
				t.Errorf("%s is %s: %v", path, text, err)
			}
			if err == nil && ((r.Sessions == nil) != (path == "/api/v1/sessions") || (r.Event == nil) != (path == "/api/v1/events") || r.Event != nil && r.Event.Title != "newest" || len(r.Statements.Statements) != 2 || r.Live.Connections != 3) {
				t.Errorf("%s is %s: %+v", path, text, r)
			}
			fails := path != "" && !strings.HasPrefix(text, "200")
			if err := c.Kill(t.Context(), Kill{7, 9, "statement"}); (err != nil) != (fails && path == "/api/v1/sessions/kill") {
				t.Errorf("kill with %s: %v", text, err)
			}
			if ready, err := c.Ready(t.Context()); (err != nil) != (fails && path == "/-/ready") || err == nil && path != "/-/ready" && ready != "ready⟨U+001B⟩[2J" {
				t.Errorf("ready with %s: %q, %v", text, ready, err)
			}
		}
	}
}

// A full has room for a number of writes.
type full struct {
	room int
	text bytes.Buffer
}

var errFull = errors.New("no space")

func (f *full) Write(p []byte) (int, error) {
	if f.room--; f.room < 0 {
		return 0, errFull
	}
	return f.text.Write(p)
}

// TestPrints prints frames as text and as JSON, once and again, to outputs that take some of them, of gateways that respond or not.
func TestPrints(t *testing.T) {
	o := Options{Model: ModelOptions{Host: "h", Every: time.Millisecond, Window: time.Minute, By: ByLoad}, Limit: 1}
	for _, tt := range []struct {
		once, json bool
		room       int
		frames     int // printed
	}{{true, false, 1, 1}, {true, false, 0, 0}, {true, true, 1, 1}, {true, true, 0, 0}, {false, true, 3, 3}, {false, false, 1, 1}, {false, false, 2, 1}, {false, false, 3, 2}, {false, false, 0, 0}} {
		out := &full{room: tt.room}
		o.Once, o.JSON, o.Stdout, o.Client = tt.once, tt.json, out, newGateway().client(t)
		err := Run(t.Context(), o)
		if tt.once && tt.room > 0 != (err == nil) || err != nil && (!errors.Is(err, errFull) || !strings.Contains(err.Error(), "print: ") && !tt.json) {
			t.Errorf("%+v: %v", tt, err)
		}
		text := out.text.String()
		if n := strings.Count(text, "SELECT 1"); n != tt.frames || strings.Contains(text, "SELECT 2") {
			t.Errorf("%+v: %d frames:\n%s", tt, n, text)
		}
		if !tt.json && strings.HasPrefix(text, "\n") || !tt.json && tt.room == 3 && !strings.Contains(text, "\n\n") {
			t.Errorf("%+v:\n%s", tt, text)
		}
	}
	g := newGateway()
	g.texts["/api/v1/live"] = "500 broken"
	for _, once := range []bool{false, true} {
		o.Once, o.JSON, o.Stdout, o.Client = once, false, &full{room: 9}, g.client(t)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("once %t: %v", once, err)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(stopped, o); err == nil { // once
		t.Error("one table without a gateway")
	}
	o.Once = false
	if err := Run(stopped, o); err != nil {
		t.Errorf("stopped: %v", err)
	}
}

// TestShell has messages of a terminal and of a gateway come to a shell.
func TestShell(t *testing.T) {
	g := newGateway()
	s := &shell{ctx: t.Context(), client: g.client(t), every: time.Millisecond, model: NewModel(ModelOptions{Host: "h", Window: time.Minute, By: ByLoad})}
	send := func(msg tea.Msg) (next tea.Msg) {
		t.Helper()
		_, cmd := s.Update(msg)
		if cmd == nil {
			return nil
		}
		return cmd()
	}
	shows := func(want bool, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if strings.Contains(s.View().Content, text) != want {
				t.Errorf("%q is shown: %t\n%s", text, !want, s.View().Content)
			}
		}
	}
	press := func(names ...string) (next tea.Msg) {
		t.Helper()
		for _, name := range names {
			key := tea.Key{Code: rune(name[0]), Text: name}
			switch name {
			case "enter":
				key = tea.Key{Code: tea.KeyEnter}
			case "esc":
				key = tea.Key{Code: tea.KeyEscape}
			case " ":
				key = tea.Key{Code: tea.KeySpace, Text: " "}
			}
			next = send(tea.KeyPressMsg(key))
		}
		return next
	}
	first := s.read()
	for range 2 {
		if s.read() != nil {
			t.Error("a second reading is begun beside the first")
		}
	}
	again := send(first())
	if read, ok := again.(readMsg); !ok || read.err != nil {
		t.Fatalf("no other reading follows: %v", again)
	}
	if next := send(again); next != nil {
		t.Errorf("a third reading follows: %v", next)
	}
	shows(true, "SELECT 1", "SELECT 2")
	if s.reading || s.again || !s.View().AltScreen {
		t.Errorf("%+v", s)
	}
	send(tea.WindowSizeMsg{Width: 40, Height: 7})
	if s.model.width != 40 || s.model.height != 7 {
		t.Errorf("%d columns, %d rows", s.model.width, s.model.height)
	}
	send(tea.WindowSizeMsg{Width: 120, Height: 30})
	send(readMsg{err: errors.New("no gateway any more")})
	shows(true, "no gateway any more", "SELECT 1")
	if batch, ok := send(dueMsg{}).(tea.BatchMsg); !ok || len(batch) != 2 {
		t.Errorf("a reading that is due: %v", batch)
	}
	s.reading = false
	send(tea.PasteMsg{Content: "not typed"})
	if next := press("/", "a", " ", "b"); next != nil {
		t.Errorf("typing requests %v", next)
	}
	send(tea.PasteMsg{Content: "cd"})
	if next, ok := press("enter").(readMsg); !ok || next.err != nil {
		t.Errorf("a filter requests %v", next)
	}
	if _, filter := s.model.Selection(); filter != "a bcd" {
		t.Errorf("the filter is %q", filter)
	}
	s.reading = false
	press(" ")
	if next := send(dueMsg{}); !s.model.Paused() || next != (dueMsg{}) {
		t.Errorf("while paused: %v", next)
	}
	if next, ok := press(" ").(readMsg); !ok || next.err != nil || s.model.Paused() {
		t.Errorf("resumed: %v", next)
	}
	s.reading = false
	press("n")
	shows(true, "SELECT SLEEP(9)")
	g.asked = nil
	killed, ok := press("x", "y").(killedMsg)
	if !ok || killed.err != nil || !slices.Contains(g.asked, "POST /api/v1/sessions/kill") {
		t.Fatalf("killed: %+v, %q", killed, g.asked)
	}
	if next, ok := send(killed).(readMsg); !ok || next.err != nil {
		t.Errorf("after it: %v", next)
	}
	shows(true, "killed")
	if next := press("esc"); next != nil {
		t.Errorf("back: %v", next)
	}
	if _, ok := press("q").(tea.QuitMsg); !ok {
		t.Error("q does not quit")
	}
	s.reading = false
	if batch, ok := s.Init()().(tea.BatchMsg); !ok || len(batch) == 0 {
		t.Errorf("a shell begins with %v", batch)
	}
}
