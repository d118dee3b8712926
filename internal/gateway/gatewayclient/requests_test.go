package gatewayclient

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestRequests has the request of each call.
func TestRequests(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body)
		fmt.Fprint(w, `{"token": "t", "moved": 3, "closed": 2, "stage": "open", "address": "a"}`)
	}))
	defer s.Close()
	c, ctx := New(&Gateway{URL: s.URL}), t.Context()
	defer c.Close()
	for _, tt := range []struct {
		do   func() (string, error)
		want string
		is   string
	}{
		{func() (string, error) { r, err := c.Route(ctx); return r.Stage + r.Address, err }, "GET /api/v1/route ", "opena"},
		{func() (string, error) { return c.Pause(ctx, time.Second) }, `POST /api/v1/route/hold {"for":"1s"}`, "t"},
		{func() (string, error) { s, err := c.Switch(ctx, "t", "standby", false); return fmt.Sprint(s), err }, `POST /api/v1/route/switch {"to":"standby","token":"t"}`, "{3 2}"},
		{func() (string, error) { s, err := c.Switch(ctx, "t", "backend", true); return fmt.Sprint(s), err }, `POST /api/v1/route/switch {"pinned":"close","to":"backend","token":"t"}`, "{3 2}"},
		{func() (string, error) { return "", c.Release(ctx, "t") }, `POST /api/v1/route/release {"token":"t"}`, ""},
		{func() (string, error) { return "", c.MaySwitch(ctx) }, `POST /api/v1/route/release {"token":""}`, ""},
	} {
		if is, err := tt.do(); err != nil || got != tt.want || is != tt.is {
			t.Errorf("%q, %q, %v; want %q, %q", got, is, err, tt.want, tt.is)
		}
	}
}

// TestRefusedCalls has each call refused: all but MaySwitch, which asks for the account alone, return it as an error.
func TestRefusedCalls(t *testing.T) {
	code := http.StatusConflict
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, "a pause is under way")
	}))
	defer s.Close()
	c, ctx := New(&Gateway{URL: s.URL}), t.Context()
	defer c.Close()
	for _, code = range []int{http.StatusConflict, http.StatusNotFound, http.StatusForbidden} {
		for name, do := range map[string]func() error{
			"Route":   func() error { _, err := c.Route(ctx); return err },
			"Pause":   func() error { _, err := c.Pause(ctx, time.Second); return err },
			"Switch":  func() error { _, err := c.Switch(ctx, "t", "standby", false); return err },
			"Release": func() error { return c.Release(ctx, "t") },
		} {
			var refused RefusedError
			if err := do(); !errors.As(err, &refused) || code == http.StatusConflict && !strings.Contains(err.Error(), "a pause is under way") {
				t.Errorf("%s with status %d: %v", name, code, err)
			}
		}
		if err := c.MaySwitch(ctx); (err != nil) != (code == http.StatusForbidden) {
			t.Errorf("MaySwitch with status %d: %v", code, err)
		}
	}
}

// TestBounds has latencies and lengths of responses at their bounds and beyond.
func TestBounds(t *testing.T) {
	var response string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, response) }))
	defer s.Close()
	c := New(&Gateway{URL: s.URL})
	defer c.Close()
	for text, ok := range map[string]bool{
		`"p99_us": 0`: true, `"p99_us": 8.64e10`: true, `"p99_us": -1`: false, `"p99_us": 8.65e10`: false, `"p99_us": 1e308`: false, `"p99_us": 5, "p99_recent_us": -1`: false,
		`"p99_us": null`: false, `"p99_recent_us": 5`: false, `"p99_us": -1, "p99_recent_us": 0`: true, `"p99_us": "5"`: false,
		`"statements": 0`: true, `"statements": 1`: false, `"statements": null`: false, `"statements": 0, "p99_us": -1`: false,
	} {
		response = "{" + text + "}"
		if d, err := c.P99(t.Context()); (err == nil) != ok {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	padded := func(text string, n int) { response = text + strings.Repeat(" ", n-len(text)) }
	for _, tt := range []struct {
		most int
		do   func() error
	}{
		{64 << 10, func() error { _, err := c.P99(t.Context()); return err }},
		{1 << 20, func() error { _, err := c.Route(t.Context()); return err }},
	} {
		if padded(`{"p99_us": 5}`, tt.most); tt.do() != nil {
			t.Errorf("a response of %d bytes: %v", tt.most, tt.do())
		}
		if padded(`{"p99_us": 5}`, tt.most+1); tt.do() == nil {
			t.Errorf("a response of %d bytes was read", tt.most+1)
		}
	}
}

// TestClose closes the connections of a client.
func TestClose(t *testing.T) {
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if open[c] = true; state == http.StateClosed {
			delete(open, c)
		}
	}
	s.Start()
	defer s.Close()
	connections := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
	c := New(&Gateway{URL: s.URL})
	if _, err := c.Route(t.Context()); err != nil || connections() != 1 {
		t.Errorf("%v, with %d connections", err, connections())
	}
	c.Close()
	testwait.Until(t, "the connection to be closed", func() bool { return connections() == 0 })
	defer func() {
		if recover() == nil {
			t.Error("a client of an invalid URL")
		}
	}()
	New(&Gateway{URL: "ftp://x"})
}
