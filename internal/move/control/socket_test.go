package control

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/testwait"
)

// TestSocket has a socket without a copy, with one, and one that can do nothing: the responses to each request.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "copy-x.sock")
	var calls []string
	call := func(name string) func() error {
		return func() error { calls = append(calls, name); return nil }
	}
	aborted := call("abort, idle")
	s, err := Open(path, SocketOptions{
		Status: func() telemetry.Status { return telemetry.Status{From: "idle"} }, Abort: func() { _ = aborted() }, Cancel: call("cancel"), Observe: func(telemetry.Event) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(path)
	defer c.Close()
	ctx := t.Context()
	one := 1.0
	requests := []struct {
		name string
		do   func() (*telemetry.Status, error)
	}{
		{"throttle", func() (*telemetry.Status, error) { return c.Throttle(ctx, throttle.LimitChange{Share: &one}) }},
		{"resume", func() (*telemetry.Status, error) { return c.Resume(ctx) }},
		{"finish", func() (*telemetry.Status, error) { return c.Finish(ctx) }},
		{"proceed", func() (*telemetry.Status, error) { return c.Proceed(ctx) }},
		{"revert", func() (*telemetry.Status, error) { return c.Revert(ctx, false) }},
		{"revert, lossy", func() (*telemetry.Status, error) { return c.Revert(ctx, true) }},
		{"abort", func() (*telemetry.Status, error) { return c.Abort(ctx) }},
		{"cancel", func() (*telemetry.Status, error) { return c.Cancel(ctx) }},
		{"status", func() (*telemetry.Status, error) { return c.Status(ctx) }},
	}
	check := func(what, from string, want map[string]error, wantCalls ...string) {
		t.Helper()
		calls = nil
		for _, r := range requests {
			status, err := r.do()
			if refused := want[r.name]; refused != nil {
				if err == nil || !strings.Contains(err.Error(), refused.Error()) {
					t.Errorf("%s, %s: got %v, want %v", what, r.name, err, refused)
				}
			} else if err != nil || status.From != from {
				t.Errorf("%s, %s: %+v, %v", what, r.name, status, err)
			}
		}
		if !slices.Equal(calls, wantCalls) {
			t.Errorf("%s: the calls are %q, want %q", what, calls, wantCalls)
		}
	}
	idle := map[string]error{"throttle": ErrNoCopy, "resume": ErrNoCopy, "proceed": ErrNoCopy, "finish": ErrNotBack, "revert": ErrNotBack, "revert, lossy": ErrNotBack}
	check("no copy", "idle", idle, "abort, idle", "cancel")
	running := Controlled{
		Status: func() telemetry.Status { return telemetry.Status{From: "running"} }, Abort: func() { calls = append(calls, "abort") },
		Change: func(c throttle.LimitChange) error { calls = append(calls, fmt.Sprint("rate ", *c.Share)); return nil }, Finish: call("finish"),
	}
	s.Use(&running)
	check("nothing to proceed with", "running", map[string]error{"proceed": ErrNothingWaits, "revert": ErrNotSwapped, "revert, lossy": ErrNotSwapped}, "rate 1", "rate 1", "finish", "abort", "cancel")
	running.Proceed, running.Revert = call("proceed"), func(lossy bool) error { calls = append(calls, fmt.Sprint("revert ", lossy)); return nil }
	check("all", "running", nil, "rate 1", "rate 1", "finish", "proceed", "revert false", "revert true", "abort", "cancel")
	s.Use(nil)
	check("no copy any more", "idle", idle, "abort, idle", "cancel")

	if running, err := Running(ctx, dir); err != nil || len(running) != 1 || running[path].From != "idle" {
		t.Errorf("running: %v, %v", running, err)
	}
	for body, want := range map[string]string{"{": "not understood", `{"unknown": 1}`: "not understood", `{"share": "` + strings.Repeat("1", 64<<10) + `"}`: "not understood"} {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/v1/throttle", strings.NewReader(body))
		resp, err := c.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := readText(resp)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%.20s: %d %s", body, resp.StatusCode, text)
		}
	}
	s.Close(errors.New(strings.Repeat("x", 2*longestEnded)))
	if last := LastStopped(dir); last == nil || len(last.Last.Error) != longestEnded || last.Last.From != "idle" {
		t.Errorf("the last one: %+v", last)
	}
	if got := (&Controlled{}).cancelNow(); !errors.Is(got, ErrNoCancel) {
		t.Errorf("a copy was cancelled: %v", got)
	}
	if n := Endpoints(); len(n) != 8 || !slices.IsSorted(n) {
		t.Errorf("the endpoints are %q", n)
	}
}

func readText(r *http.Response) string {
	defer r.Body.Close()
	b := make([]byte, 200)
	n, _ := r.Body.Read(b)
	return string(b[:n])
}

// TestControlResponses has sockets whose owners respond with something else than a status.
func TestControlResponses(t *testing.T) {
	dir := t.TempDir()
	for response, want := range map[string]string{
		"": "ask the copy at", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{": "read the response", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{": "read the response", "HTTP/1.1 500 no\r\nContent-Length: 4\r\n\r\nwhy\n": ": why",
	} {
		path := filepath.Join(dir, "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte(response))
			_ = conn.Close()
		})
		c := NewClient(path)
		if s, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", response, s, err)
		}
		c.Close()
		_ = l.Close()
		testwait.Group(t, "the response to be sent", &serving)
	}
	if _, err := Serve(filepath.Join(dir, strings.Repeat("x", maxSocketPath)), Controlled{}); err == nil || !strings.Contains(err.Error(), "name a shorter one") {
		t.Errorf("a long path: %v", err)
	}
	file := filepath.Join(dir, "copy-file.sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Serve(file, Controlled{}); err == nil || !strings.Contains(err.Error(), "which is no socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Serve(filepath.Join(dir, "none", "copy-x.sock"), Controlled{}); err == nil {
		t.Error("a directory that does not exist")
	}
	if sockets, err := Sockets(filepath.Join(dir, "none")); err != nil || sockets != nil {
		t.Errorf("%q, %v", sockets, err)
	}
	if sockets, err := Sockets(dir); err != nil || len(sockets) != 0 {
		t.Errorf("%q, %v", sockets, err)
	}
	if last := LastStopped(filepath.Join(dir, "none")); last != nil {
		t.Errorf("the last one of no directory: %v", last)
	}
	for i, name := range []string{"copy-old.sock", "copy-new.sock", "other.sock", "copy-other"} {
		path := filepath.Join(dir, name)
		recordEnded(path, Ended{From: name})
		at := time.Unix(1e9+int64(i), 0)
		if err := os.Chtimes(path+endedSuffix, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if last := LastStopped(dir); last == nil || last.Last == nil || last.Last.From != "copy-new.sock" {
		t.Errorf("the last one: %+v", last)
	}
	if last := notRunning(filepath.Join(dir, "copy-none.sock")); last.Last != nil || last.Killed || !strings.Contains(last.Error(), "none has left a record") {
		t.Errorf("none: %+v", last)
	}
	name := Name("x:1", []tabledef.Spec{{Schema: "s", Name: "B/c"}, {Schema: "s", Name: "A é" + strings.Repeat("z", 50)}})
	if !strings.HasPrefix(name, "copy-s.A__"+strings.Repeat("z", 35)+"-") || name == Name("x:2", []tabledef.Spec{{Schema: "s", Name: "B/c"}, {Schema: "s", Name: "A é"}}) {
		t.Errorf("the name is %s", name)
	}
}
