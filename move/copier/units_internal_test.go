package copier

import (
	"context"
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

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestValidate has options of copies and dumps at the edges of what is valid.
func TestValidate(t *testing.T) {
	const copies, dumps = 1, 2
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string // "": valid
		of     int    // only of copies or dumps; 0: both
	}{
		{"the defaults", func(*Options) {}, "", 0},
		{"no source", func(o *Options) { o.From = nil }, "no server to", 0},
		{"no tables", func(o *Options) { o.Tables = nil }, "no tables to", 0},
		{"negative workers", func(o *Options) { o.Workers = -1 }, "option workers -1", 0},
		{"many workers", func(o *Options) { o.Workers = 256 }, "", 0},
		{"too many workers", func(o *Options) { o.Workers = 257 }, "option workers 257", 0},
		{"small chunks", func(o *Options) { o.ChunkBytes = 1 << 10 }, "", 0},
		{"too small chunks", func(o *Options) { o.ChunkBytes = 1<<10 - 1 }, "option chunk-bytes 1023", 0},
		{"large chunks", func(o *Options) { o.ChunkBytes = 1 << 30 }, "", 0},
		{"too large chunks", func(o *Options) { o.ChunkBytes = 1<<30 + 1 }, "option chunk-bytes 1073741825", 0},
		{"limits without what measures them", func(o *Options) { o.Throttle.MaxP99 = time.Second }, "p99", 0},
		{"followed", func(o *Options) { o.Follow = true }, "", copies},
		{"followed", func(o *Options) { o.Follow = true }, "of one point in time", dumps},
		{"a swap", func(o *Options) { o.Swap = SwapFunc(nil) }, "of one point in time", dumps},
		{"a cutover", func(o *Options) { o.Cutover = &cutover.Options{} }, "of one point in time", dumps},
		{"another name", func(o *Options) { o.Tables[0].ToName = "u" }, "rename tables", dumps},
		{"some columns", func(o *Options) { o.Tables[0].Columns = []tabledef.ColumnSpec{{}} }, "select columns", dumps},
		{"another name", func(o *Options) { o.Tables[0].ToName = "u" }, "", copies},
		{"until caught up", func(o *Options) { o.Follow, o.UntilCaughtUp = true, true }, "", copies},
		{"until caught up, not followed", func(o *Options) { o.UntilCaughtUp = true }, "no meaning", copies},
		{"views of an age", func(o *Options) { o.Follow, o.MaxViewAge = true, minViewAge }, "", copies},
		{"views of a lower age", func(o *Options) { o.Follow, o.MaxViewAge = true, minViewAge-1 }, "use " + minViewAge.String(), copies},
		{"views of an age, not followed", func(o *Options) { o.MaxViewAge = time.Hour }, "need changes to be followed", copies},
		{"a swap, followed", func(o *Options) { o.Follow, o.Swap = true, SwapFunc(nil) }, "", copies},
		{"a swap, not followed", func(o *Options) { o.Swap = SwapFunc(nil) }, "tables are swapped when", copies},
		{"a swap, until caught up", func(o *Options) {
			o.Follow, o.UntilCaughtUp, o.Swap = true, true, SwapFunc(nil)
		}, "tables are swapped when", copies},
		{"a swap and a cutover", func(o *Options) {
			o.Follow, o.Cutover, o.Swap = true, &cutover.Options{}, SwapFunc(nil)
		}, "tables are swapped when", copies},
		{"a cutover, followed", func(o *Options) { o.Follow, o.Cutover = true, &cutover.Options{} }, "", copies},
		{"a cutover, not followed", func(o *Options) { o.Cutover = &cutover.Options{} }, "a cutover needs", copies},
		{"a cutover, until caught up", func(o *Options) { o.Follow, o.UntilCaughtUp, o.Cutover = true, true, &cutover.Options{} }, "a cutover needs", copies},
		{"a cutover that is invalid", func(o *Options) {
			o.Follow, o.Cutover = true, &cutover.Options{Lag: -1, Gateway: gatewayclient.Gateway{URL: "http://x"}}
		}, "0 or more", copies},
		{"two tables to one", func(o *Options) { o.Tables = append(o.Tables, tabledef.Spec{Schema: "s", Name: "u", ToName: "t"}) }, "two tables go to s.t", copies},
		{"no target", func(o *Options) { o.To.Addr = "" }, "no address", copies},
	} {
		for of, validate := range map[int]func(*Options) error{copies: (*Options).Validate, dumps: (*Options).validateDump} {
			if c.of != 0 && c.of != of {
				continue
			}
			o := Options{
				From: func(context.Context) (binlog.Follower, error) { return nil, errors.New("none") }, To: mysqlconn.Config{Addr: "x:1"},
				Tables: []tabledef.Spec{{Schema: "s", Name: "t"}},
			}
			o.setDefaults()
			c.change(&o)
			if err := validate(&o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(strings.ToLower(err.Error()), c.want) {
				t.Errorf("%s (%d): got %v, want %q", c.name, of, err, c.want)
			} else if err == nil && of == copies && (o.To.Patience != o.Patience || o.Follow && o.MaxViewAge == 0) {
				t.Errorf("%s: %+v", c.name, o)
			}
		}
	}
}

// TestSocket has a socket without a copy, with one, and one that can do nothing: the responses to each request.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "copy-x.sock")
	var calls []string
	call := func(name string) func() error {
		return func() error { calls = append(calls, name); return nil }
	}
	aborted := call("abort, idle")
	s, err := OpenSocket(path, SocketOptions{
		Status: func() telemetry.Status { return telemetry.Status{From: "idle"} }, Abort: func() { _ = aborted() }, Cancel: call("cancel"), Observe: func(telemetry.Event) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := NewControl(path)
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
	idle := map[string]error{"throttle": errNoCopy, "resume": errNoCopy, "proceed": errNoCopy, "finish": errNotBack, "revert": errNotBack, "revert, lossy": errNotBack}
	check("no copy", "idle", idle, "abort, idle", "cancel")
	running := controlled{
		status: func() telemetry.Status { return telemetry.Status{From: "running"} }, abort: func() { calls = append(calls, "abort") },
		change: func(c throttle.LimitChange) error { calls = append(calls, fmt.Sprint("rate ", *c.Share)); return nil }, finish: call("finish"),
	}
	s.use(&running)
	check("nothing to proceed with", "running", map[string]error{"proceed": errNothingWaits, "revert": ErrNotSwapped, "revert, lossy": ErrNotSwapped}, "rate 1", "rate 1", "finish", "abort", "cancel")
	running.proceed, running.revert = call("proceed"), func(lossy bool) error { calls = append(calls, fmt.Sprint("revert ", lossy)); return nil }
	check("all", "running", nil, "rate 1", "rate 1", "finish", "proceed", "revert false", "revert true", "abort", "cancel")
	s.use(nil)
	check("no copy any more", "idle", idle, "abort, idle", "cancel")

	if running, err := RunningCopies(ctx, dir); err != nil || len(running) != 1 || running[path].From != "idle" {
		t.Errorf("running: %v, %v", running, err)
	}
	for body, want := range map[string]string{"{": "not understood", `{"unknown": 1}`: "not understood", `{"share": "` + strings.Repeat("1", 64<<10) + `"}`: "not understood"} {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+controlHost+"/v1/throttle", strings.NewReader(body))
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
	if got := (&controlled{}).cancelNow(); !errors.Is(got, errNoCancel) {
		t.Errorf("a copy was cancelled: %v", got)
	}
	if n := ControlEndpoints(); len(n) != 8 || !slices.IsSorted(n) {
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
		c := NewControl(path)
		if s, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", response, s, err)
		}
		c.Close()
		_ = l.Close()
		testwait.Group(t, "the response to be sent", &serving)
	}
	if _, err := serveControl(filepath.Join(dir, strings.Repeat("x", maxSocketPath)), controlled{}); err == nil || !strings.Contains(err.Error(), "name a shorter one") {
		t.Errorf("a long path: %v", err)
	}
	file := filepath.Join(dir, "copy-file.sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := serveControl(file, controlled{}); err == nil || !strings.Contains(err.Error(), "which is no socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := serveControl(filepath.Join(dir, "none", "copy-x.sock"), controlled{}); err == nil {
		t.Error("a directory that does not exist")
	}
	if sockets, err := ControlSockets(filepath.Join(dir, "none")); err != nil || sockets != nil {
		t.Errorf("%q, %v", sockets, err)
	}
	if sockets, err := ControlSockets(dir); err != nil || len(sockets) != 0 {
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
	name := ControlName("x:1", []tabledef.Spec{{Schema: "s", Name: "B/c"}, {Schema: "s", Name: "A é" + strings.Repeat("z", 50)}})
	if !strings.HasPrefix(name, "copy-s.A__"+strings.Repeat("z", 35)+"-") || name == ControlName("x:2", []tabledef.Spec{{Schema: "s", Name: "B/c"}, {Schema: "s", Name: "A é"}}) {
		t.Errorf("the name is %s", name)
	}
}
