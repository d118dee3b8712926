package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// A manager simulates systemd: it has the socket that a service notifies.
type manager struct {
	name string
	conn *net.UnixConn
}

func newManager(t *testing.T, name string) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &manager{name: name, conn: conn}
}

// hear returns the next message.
func (m *manager) hear(t *testing.T) string {
	t.Helper()
	must(t, m.conn.SetReadDeadline(time.Now().Add(testwait.Limit)))
	buf := make([]byte, 4096)
	n, err := m.conn.Read(buf)
	if err != nil {
		t.Fatalf("the service manager was not notified: %v", err)
	}
	return string(buf[:n])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testServer returns a server that logs to w.
func testServer(w io.Writer) *Server { return New(Options{Log: slog.New(slog.NewTextHandler(w, nil))}) }

// TestNotify sends to a socket by path and to one in the abstract namespace.
func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@tare-" + filepath.Base(t.TempDir()) + "-notify"} {
		m := newManager(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		s := testServer(io.Discard)
		s.notify("READY=1\nSTATUS=relays a to b")
		if got, want := m.hear(t), "READY=1\nSTATUS=relays a to b"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		done := false
		s.NotifyReload(func() { done = true })
		if got := m.hear(t); !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\n$`).MatchString(got) {
			t.Errorf("%s: a reload starts with %q", name, got)
		}
		if got := m.hear(t); got != "READY=1" || !done {
			t.Errorf("%s: after a reload: %q, reloaded %v", name, got, done)
		}
	}
}

// TestNotifyNone runs without a service manager, and with one whose socket is missing.
func TestNotifyNone(t *testing.T) {
	for name, warns := range map[string]bool{"": false, filepath.Join(t.TempDir(), "no-socket"): true} {
		t.Setenv("NOTIFY_SOCKET", name)
		var log strings.Builder
		s := testServer(&log)
		s.notify("READY=1")
		reloaded := false
		s.NotifyReload(func() { reloaded = true })
		must(t, s.watchdog(t.Context())) // WATCHDOG_USEC is not set
		if !reloaded {
			t.Errorf("%q: nothing was reloaded", name)
		}
		if strings.Contains(log.String(), "notification failed") != warns {
			t.Errorf("%q: the log is %s", name, &log)
		}
	}
}

// TestWatchdog sends watchdog messages as long as the service is alive.
func TestWatchdog(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("NOTIFY_SOCKET", m.name)
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	s := testServer(io.Discard)
	var signs atomic.Int64
	hangs := make(chan struct{})
	s.Alive = func() {
		if signs.Add(1) == 4 {
			<-hangs // a lock that is never released
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.watchdog(ctx) }()
	for range 3 {
		if got := m.hear(t); got != "WATCHDOG=1" {
			t.Errorf("a sign of life is %q", got)
		}
	}
	must(t, m.conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if n, err := m.conn.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a service that hangs gave a sign of life: %d bytes, %v", n, err)
	}
	stop()
	close(hangs)
	must(t, testwait.Receive(t, "the watchdog to return", ended))

	for _, c := range []struct {
		usec, pid string
		warns     bool
	}{{"0", "", true}, {"-5", "", true}, {"a minute", "", true}, {"", "", false}, {"2000", "1", false}} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		var log strings.Builder
		s := testServer(&log)
		s.Alive = func() { t.Errorf("%+v: a sign of life", c) }
		must(t, s.watchdog(t.Context()))
		if strings.Contains(log.String(), "WATCHDOG_USEC is no time") != c.warns {
			t.Errorf("%+v: logged %s", c, &log)
		}
	}
}

// TestReloadsTakeTurns has reloads at the same time: each runs alone.
func TestReloadsTakeTurns(t *testing.T) {
	s := testServer(io.Discard)
	running, most := 0, 0 // without a lock: the race detector reports two at a time
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			s.NotifyReload(func() {
				running++
				most = max(most, running)
				runtime.Gosched()
				running--
			})
		})
	}
	testwait.Group(t, "the reloads", &all)
	if most != 1 {
		t.Errorf("%d reloads at a time", most)
	}
}
