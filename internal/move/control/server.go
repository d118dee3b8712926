package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/httpserver"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/visible"
)

// ErrAborted is the error of a copy that was stopped over its control socket.
var ErrAborted = errors.New("stopped by ctl abort: the same command resumes from here")

// Errors of a request that a copy in another state executes.
var (
	ErrSwaps      = errors.New("it ends with the swap of the tables: run cutover for one that is postponed")
	ErrNotSwapped = errors.New("it has swapped no tables, so that there is nothing to revert: abort stops it")
)

// Errors of requests that cannot be executed now.
var (
	ErrNotFollowing = errors.New("it does not follow its source: it ends when everything is copied")
	ErrBetweenRuns  = errors.New("it connects to its servers again after it has lost them: run the command again when ctl status shows another phase than preparing")
	ErrNothingWaits = errors.New("it swaps no tables")
	ErrNoCopy       = errors.New("no rows are copied or followed now: ctl status shows the step, and abort stops it")
	ErrNotBack      = errors.New("no changes are followed back now: after a swap, run the command again once ctl status shows the phase reversing")
	ErrNoCancel     = errors.New("only tare alter is cancelled: abort stops a copy, and option restart of tare copy discards it")
	ErrNotYet       = errors.New("it copies rows and does not follow yet: run finish again in the phase following, which ctl status shows")
)

// maxSocketPath is the longest path of a Unix socket that the kernel accepts.
const maxSocketPath = 107

// A Controlled has the functions of a copy that a control socket exposes.
type Controlled struct {
	Status func() telemetry.Status
	Change func(throttle.LimitChange) error
	Abort  func()
	Finish func() error

	Cancel  func() error           // nil: it cannot be
	Proceed func() error           // nil: nothing waits for it
	Revert  func(lossy bool) error // nil: nothing is swapped

	Observe func(telemetry.Event) // called for each request that changes the copy
}

// A Socket is a control socket that outlives copies. Requests go to the copy that runs with it; without one, it
// reports a status and can be aborted.
type Socket struct {
	idle Controlled
	end  func(error)

	mu      sync.Mutex
	running *Controlled // nil: no copy runs
}

// SocketOptions are the functions of a Socket without a copy.
type SocketOptions struct {
	Status  func() telemetry.Status
	Abort   func()
	Cancel  func() error          // stops the owner, which removes what it has done
	Observe func(telemetry.Event) // called for each request that changes something
}

// Open listens at a path until Close is called.
func Open(path string, o SocketOptions) (*Socket, error) {
	s := &Socket{idle: Controlled{
		Status: o.Status, Abort: o.Abort, Observe: o.Observe,
		Change: func(throttle.LimitChange) error { return ErrNoCopy }, Proceed: func() error { return ErrNoCopy },
		Finish: func() error { return ErrNotBack }, Revert: func(bool) error { return ErrNotBack },
	}}
	var err error
	s.end, err = Serve(path, Controlled{
		Status:  func() telemetry.Status { return s.Current().Status() },
		Change:  func(c throttle.LimitChange) error { return s.Current().Change(c) },
		Abort:   func() { s.Current().Abort() },
		Cancel:  o.Cancel,
		Finish:  func() error { return s.Current().Finish() },
		Proceed: func() error { return s.Current().proceedNow() },
		Revert:  func(lossy bool) error { return s.Current().revertNow(lossy) },
		Observe: o.Observe,
	})
	return s, err
}

// NewSocket returns a Socket without a path, for a copy that others control. Without a running copy, requests go to idle.
func NewSocket(idle Controlled) *Socket { return &Socket{idle: idle} }

// Close stops listening, and records the error with which its owner stops; nil: it has finished.
func (s *Socket) Close(err error) { s.end(err) }

// Use directs requests to a copy; nil: none runs.
func (s *Socket) Use(c *Controlled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = c
}

// Current returns the running copy, or what responds without one.
func (s *Socket) Current() *Controlled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	return &s.idle
}

func (c *Controlled) cancelNow() error {
	if c.Cancel == nil {
		return ErrNoCancel
	}
	return c.Cancel()
}

func (c *Controlled) proceedNow() error {
	if c.Proceed == nil {
		return ErrNothingWaits
	}
	return c.Proceed()
}

func (c *Controlled) revertNow(lossy bool) error {
	if c.Revert == nil {
		return ErrNotSwapped
	}
	return c.Revert(lossy)
}

// host is the Host header of clients. Requests with another one are refused.
const host = "copy"

// listen creates a Unix socket that only this user can connect to. It replaces a socket that a killed
// copy has left at the path.
func listen(path string) (net.Listener, error) {
	hidden := fmt.Sprintf("%s.%d", path, os.Getpid()) // used until its mode is set
	if len(hidden) > maxSocketPath {
		return nil, fmt.Errorf("control socket %s: its path has %d bytes and may have %d: name a shorter one with option control-socket", path, len(path), maxSocketPath-(len(hidden)-len(path)))
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("control socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("control socket %s: there is a file of that name, which is no socket: name another one with option control-socket", path)
	default:
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("control socket %s: another copy listens there: wait for it, or name another socket with option control-socket", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("control socket %s: %w", path, err)
		}
	}
	if err := os.Remove(hidden); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w; option control-socket off does without", err)
	}
	l.SetUnlinkOnClose(false) // it is renamed below
	if err = os.Chmod(hidden, 0o600); err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), l.Close(), os.Remove(hidden))
	}
	return l, nil
}

// Serve serves requests at a path until end is called with the result of the copy, which it records.
func Serve(path string, c Controlled) (end func(error), err error) {
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	if err := forgetEnded(path); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	const enough = 10 * time.Second
	server := httpserver.New(c.handler(), httpserver.Options{Hosts: []string{host}, Log: slog.Default()})
	server.ReadTimeout, server.WriteTimeout, server.MaxHeaderBytes = enough, enough, 16<<10
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // Shutdown stops it
	return func(result error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		serving.Wait()
		status := c.Status()
		last := Ended{Version: status.Version, PID: status.PID, From: status.From, To: status.To, At: time.Now()}
		if status.Alter != nil {
			last.Table = status.Alter.Table
		}
		if result != nil {
			last.Error = result.Error()
			last.Error = last.Error[:min(len(last.Error), longestEnded)]
		}
		recordEnded(path, last) // before the socket is removed: one of the two is always there
		_ = os.Remove(path)
	}, nil
}

// Endpoints returns the methods and paths of a control socket, sorted.
func Endpoints() []string { return slices.Sorted(maps.Keys((&Controlled{}).endpoints())) }

// handler serves the endpoints and records requests other than GET.
func (c *Controlled) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range c.endpoints() {
		if !strings.HasPrefix(pattern, "GET ") {
			h = c.recorded(h)
		}
		mux.HandleFunc(pattern, h)
	}
	return mux
}

func (c *Controlled) endpoints() map[string]http.HandlerFunc {
	response := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = visible.NewEncoder(w).Encode(c.Status()) // the client may have disconnected
	}
	return map[string]http.HandlerFunc{
		"GET /v1/status": func(w http.ResponseWriter, _ *http.Request) { response(w, nil) },
		"POST /v1/throttle": func(w http.ResponseWriter, r *http.Request) {
			var change throttle.LimitChange
			d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
			d.DisallowUnknownFields()
			if err := d.Decode(&change); err != nil {
				http.Error(w, "the change is not understood: "+err.Error(), http.StatusBadRequest)
				return
			}
			response(w, c.Change(change))
		},
		"POST /v1/resume": func(w http.ResponseWriter, _ *http.Request) {
			all := 1.0
			response(w, c.Change(throttle.LimitChange{Share: &all}))
		},
		"POST /v1/abort": func(w http.ResponseWriter, _ *http.Request) {
			response(w, nil) // respond before abort closes the socket
			c.Abort()
		},
		"POST /v1/cancel":  func(w http.ResponseWriter, _ *http.Request) { response(w, c.cancelNow()) },
		"POST /v1/finish":  func(w http.ResponseWriter, _ *http.Request) { response(w, c.Finish()) },
		"POST /v1/cutover": func(w http.ResponseWriter, _ *http.Request) { response(w, c.proceedNow()) },
		"POST /v1/revert": func(w http.ResponseWriter, r *http.Request) {
			response(w, c.revertNow(r.URL.Query().Get("lossy") == "true"))
		},
	}
}

// recorded passes each request to the observer. Only the owner of the socket and root can connect.
func (c *Controlled) recorded(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := &access.StatusWriter{ResponseWriter: w}
		defer func() {
			c.Observe(telemetry.Event{Kind: telemetry.EventControl, Text: fmt.Sprintf("%s %s by the owner of the control socket: status %d", r.Method, r.URL.Path, s.Status())})
		}()
		h(s, r)
		s.Returned()
	}
}
