//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// A child is a process whose standard error is recorded, and that does not outlive the test.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has exited and its log is complete

	mu  sync.Mutex
	log bytes.Buffer // under mu
}

// startChild starts a process; line receives each line of its standard error. It must not wait for the exit.
func startChild(t *testing.T, cmd *exec.Cmd, line func([]byte)) *child {
	t.Helper()
	c := &child{cmd: cmd, exited: make(chan struct{})}
	r, w := io.Pipe()
	cmd.Stderr = w
	// The kernel associates this with the thread that forks, so the thread is kept.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, logged := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit code is checked later
		}
		w.Close()
		<-logged
		close(c.exited)
	}()
	go func() {
		defer close(logged)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			c.mu.Lock()
			c.log.Write(lines.Bytes())
			c.log.WriteByte('\n')
			c.mu.Unlock()
			line(lines.Bytes())
		}
		r.CloseWithError(lines.Err()) // after a line that is too long, the process must not block
	}()
	if err := testwait.Receive(t, "the start of the process", started); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() { c.end(syscall.SIGKILL) })
	return c
}

func (c *child) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// end signals the process and waits for its exit.
func (c *child) end(signal syscall.Signal) (code int) {
	_ = c.cmd.Process.Signal(signal)                                                              // it may have exited
	limit := time.AfterFunc(90*time.Second, func() { _ = c.cmd.Process.Signal(syscall.SIGQUIT) }) // prints its goroutines
	defer limit.Stop()
	<-c.exited
	return c.cmd.ProcessState.ExitCode()
}

// A store is a running `tare store`.
type store struct {
	*child
	http string // URL
}

// startStore runs `tare store` and waits until it listens. It is stopped with the test, and must not fail.
func startStore(t *testing.T, env []string, args ...string) *store {
	t.Helper()
	s := launchStore(t, env, args...)
	t.Cleanup(func() {
		if code := s.end(syscall.SIGTERM); code != 0 {
			t.Errorf("tare store ends with code %d; its log:\n%s", code, s.text())
		}
		s.checkLog(t)
	})
	return s
}

// checkLog fails the test if the store panicked.
func (s *store) checkLog(t *testing.T) {
	t.Helper()
	if text := s.text(); strings.Contains(text, "panic:") || strings.Contains(text, "BUG:") {
		t.Errorf("tare store panicked:\n%s", text)
	}
}

// launchStore runs `tare store` and waits until it listens. The test may kill it.
func launchStore(t *testing.T, env []string, args ...string) *store {
	t.Helper()
	cmd := exec.Command(binary, append([]string{
		"store", "--http", "127.0.0.1:0", "--data-dir", t.TempDir(), "--diag-format", "json", "--log-file", "-",
	}, args...)...)
	cmd.Env = append(cmd.Environ(), env...)
	listens := make(chan string, 1)
	s := &store{child: startChild(t, cmd, func(line []byte) {
		var l struct{ Msg, HTTP string }
		if json.Unmarshal(line, &l) == nil && l.Msg == "store listens" {
			listens <- l.HTTP
		}
	})}
	select {
	case s.http = <-listens:
	case <-s.exited:
		t.Fatalf("tare store ended before it listened:\n%s", s.text())
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the store to listen")
	}
	return s
}

// get requests a path and returns status and body.
func (s *store) get(t *testing.T, path string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+path, nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

func (s *store) ready(t *testing.T) bool {
	code, _ := s.get(t, "/-/ready")
	return code == http.StatusOK
}

// query evaluates an expression with one number as result at a time in milliseconds; failure is the store's
// other response.
func (s *store) query(t *testing.T, expr string, at int64) (value, failure string) {
	t.Helper()
	code, body := s.get(t, fmt.Sprintf("/api/v1/query?query=%s&time=%d.%03d", url.QueryEscape(expr), at/1000, at%1000))
	var respond struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
		Error string
	}
	if err := json.Unmarshal([]byte(body), &respond); err != nil {
		t.Fatalf("%s: %d %s", expr, code, body)
	}
	if code != http.StatusOK {
		return "", fmt.Sprintf("%d %s", code, respond.Error)
	}
	if len(respond.Data.Result) != 1 {
		return "", fmt.Sprintf("%d results", len(respond.Data.Result))
	}
	value, _ = respond.Data.Result[0].Value[1].(string)
	return value, ""
}
