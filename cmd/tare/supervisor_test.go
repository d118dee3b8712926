package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// A manager stands for systemd: the socket that a service tells how it goes.
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

// hear is the next message.
func (m *manager) hear(t *testing.T) string {
	t.Helper()
	must(t, m.conn.SetReadDeadline(time.Now().Add(testwait.Limit)))
	buf := make([]byte, 4096)
	n, err := m.conn.Read(buf)
	if err != nil {
		t.Fatalf("the service manager was told nothing: %v", err)
	}
	return string(buf[:n])
}

// env answers for the environment of a service.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// TestSupervisor speaks to a socket by path and to one in the abstract name space.
func TestSupervisor(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@tare-" + filepath.Base(t.TempDir()) + "-notify"} {
		m := newManager(t, name)
		s := newSupervisor(env("NOTIFY_SOCKET", name), 7, slog.New(slog.DiscardHandler))
		s.ready("relays a to b")
		if got, want := m.hear(t), "READY=1\nSTATUS=relays a to b"; got != want {
			t.Errorf("%s: ready said %q, want %q", name, got, want)
		}
		done := false
		s.reload(func() { done = true })
		if got := m.hear(t); !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*$`).MatchString(got) {
			t.Errorf("%s: reload said %q", name, got)
		}
		if got := m.hear(t); got != "READY=1" || !done {
			t.Errorf("%s: after a reload: %q, reloaded %v", name, got, done)
		}
		s.stopping()
		if got, want := m.hear(t), "STOPPING=1\nSTATUS=draining"; got != want {
			t.Errorf("%s: stopping said %q, want %q", name, got, want)
		}
		must(t, s.close())
	}
}

// TestSupervisorNone does everything without a service manager.
func TestSupervisorNone(t *testing.T) {
	var log strings.Builder
	missing := filepath.Join(t.TempDir(), "no-socket")
	for _, e := range []func(string) string{env(), env("NOTIFY_SOCKET", missing)} {
		s := newSupervisor(e, 7, slog.New(slog.NewTextHandler(&log, nil)))
		if s != nil {
			t.Fatal("there is a service manager")
		}
		s.ready("x")
		reloaded := false
		s.reload(func() { reloaded = true })
		s.stopping()
		must(t, s.watch(t.Context(), func() { t.Error("a sign of life for nobody") }))
		must(t, s.close())
		if !reloaded {
			t.Error("nothing was reloaded")
		}
	}
	if !strings.Contains(log.String(), "notification unavailable") {
		t.Errorf("the log has no line about the missing socket: %s", &log)
	}
}

// TestWatchdog gives signs of life as long as the service lives.
func TestWatchdog(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	s := newSupervisor(env("NOTIFY_SOCKET", m.name, "WATCHDOG_USEC", "2000", "WATCHDOG_PID", "7"), 7, slog.New(slog.DiscardHandler))
	if s.watchdog != 2*time.Millisecond {
		t.Errorf("a sign of life in %v, want 2ms", s.watchdog)
	}
	ctx, stop := context.WithCancel(t.Context())
	var signs atomic.Int64
	ended := make(chan error)
	hangs := make(chan struct{})
	go func() {
		ended <- s.watch(ctx, func() {
			if signs.Add(1) == 4 {
				<-hangs // a lock that is never given back
			}
		})
	}()
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
	must(t, testwait.Receive(t, "the supervisor to return", ended))
	must(t, s.close())

	for _, c := range []struct{ usec, pid string }{{"0", ""}, {"-5", ""}, {"a minute", ""}, {"", ""}, {"2000", "8"}} {
		s := newSupervisor(env("NOTIFY_SOCKET", m.name, "WATCHDOG_USEC", c.usec, "WATCHDOG_PID", c.pid), 7, slog.New(slog.DiscardHandler))
		if s.watchdog != 0 {
			t.Errorf("%+v: a sign of life in %v, want none", c, s.watchdog)
		}
		must(t, s.close())
	}
}

// TestServeTells runs servers as systemd does and listens to what they tell from start to end.
func TestServeTells(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "tare.yaml")
	must(t, os.WriteFile(config, []byte("serve:\n  rules: []\n"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o700))
	for _, c := range []struct {
		name, status string
		reloads      bool
		args         []string
	}{
		{"serve", "relays 127.0.0.1:", true, []string{"--config", config, "--listen", "127.0.0.1:0", "--http", "off", "--backend", "127.0.0.1:1"}},
		{"store", "serves file://", false, []string{"--bucket", "file://" + filepath.Join(dir, "bucket"), "--http", "127.0.0.1:0", "--grpc", "off", "--data-dir", filepath.Join(dir, "store")}},
		{"frontend", "answers on 127.0.0.1:", true, []string{"--downstream", "http://127.0.0.1:1", "--http", "127.0.0.1:0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManager(t, filepath.Join(dir, c.name+"-notify"))
			exe, err := os.Executable()
			must(t, err)
			cmd := exec.Command(exe)
			cmd.Args = append([]string{"tare", c.name}, c.args...)
			cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.name, "WATCHDOG_USEC=3600000000")
			var log strings.Builder
			cmd.Stderr = &log
			must(t, cmd.Start())
			t.Cleanup(func() {
				if cmd.ProcessState == nil {
					_ = cmd.Process.Kill() // the test has failed before
					_ = cmd.Wait()
				}
				if t.Failed() {
					t.Logf("its log:\n%s", &log)
				}
			})
			// The first sign of life may come before the word that it is ready.
			ready, sign := m.hear(t), m.hear(t)
			if ready == "WATCHDOG=1" {
				ready, sign = sign, ready
			}
			if sign != "WATCHDOG=1" || !strings.HasPrefix(ready, "READY=1\nSTATUS="+c.status) {
				t.Fatalf("at its start it says %q and %q", ready, sign)
			}
			if c.reloads {
				must(t, cmd.Process.Signal(syscall.SIGHUP))
				if a, b := m.hear(t), m.hear(t); !strings.HasPrefix(a, "RELOADING=1\nMONOTONIC_USEC=") || b != "READY=1" {
					t.Errorf("at a reload it says %q and %q", a, b)
				}
			}
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			if got := m.hear(t); !strings.HasPrefix(got, "STOPPING=1") {
				t.Errorf("at its end it says %q", got)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}
