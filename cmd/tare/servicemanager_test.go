package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestServiceManager runs servers under a simulated systemd and reads their messages from start to end.
func TestServiceManager(t *testing.T) {
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
			socket := filepath.Join(dir, c.name+"-notify")
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			must(t, err)
			t.Cleanup(func() { _ = manager.Close() })
			message := func() string {
				t.Helper()
				must(t, manager.SetReadDeadline(time.Now().Add(testwait.Limit)))
				buf := make([]byte, 4096)
				n, err := manager.Read(buf)
				must(t, err)
				return string(buf[:n])
			}
			exe, err := os.Executable()
			must(t, err)
			cmd := exec.Command(exe)
			cmd.Args = append([]string{"tare", c.name}, c.args...)
			cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=3600000000")
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
			// The first watchdog message may precede the ready message.
			ready, sign := message(), message()
			if ready == "WATCHDOG=1" {
				ready, sign = sign, ready
			}
			if sign != "WATCHDOG=1" || !strings.HasPrefix(ready, "READY=1\nSTATUS="+c.status) {
				t.Fatalf("at its start it says %q and %q", ready, sign)
			}
			if c.reloads {
				must(t, cmd.Process.Signal(syscall.SIGHUP))
				if a, b := message(), message(); !strings.HasPrefix(a, "RELOADING=1\nMONOTONIC_USEC=") || b != "READY=1" {
					t.Errorf("at a reload it says %q and %q", a, b)
				}
			}
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			if got := message(); !strings.HasPrefix(got, "STOPPING=1") {
				t.Errorf("at its end it says %q", got)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}
