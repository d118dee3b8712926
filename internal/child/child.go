package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	keptOutput = 2 << 10 // the end of the output, for error messages
	pollEvery  = 20 * time.Millisecond
)

// A Child is a running program.
type Child struct {
	Name string
	Done chan struct{} // closed when the process has exited

	cmd    *exec.Cmd
	output tail
	err    error // of Wait; valid once Done is closed
}

// Start starts cmd. Each line of its standard output is passed to line; if line is nil, the end of the output
// is kept for error messages, like that of standard error.
//
// The child has a separate process group, so that Ctrl-C reaches only this process and children stop in
// order; on Linux it gets SIGTERM when this process dies.
func Start(name string, cmd *exec.Cmd, line func([]byte)) (*Child, error) {
	c := &Child{Name: name, Done: make(chan struct{}), cmd: cmd}
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	if line != nil {
		cmd.Stdout = &lineWriter{line: line}
	}
	cmd.SysProcAttr = attr()
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child exits, so this
		// thread is kept until the child has exited. It is then unlocked: a goroutine that ends locked ends its thread,
		// and the kernel would signal other processes that were started on it.
		runtime.LockOSThread()
		defer close(c.Done)
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// PID returns the child's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited reports whether the child has exited.
func (c *Child) Exited() bool {
	select {
	case <-c.Done:
		return true
	default:
		return false
	}
}

// Await polls until ready returns true or an error, the child exits, or limit is over.
func (c *Child) Await(ctx context.Context, limit time.Duration, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s was not ready within %v", c.Name, limit))
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if ok, err := ready(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return context.Cause(ctx)
		case <-c.Done:
			return c.Ended()
		case <-ticker.C:
		}
	}
}

// Ended returns the reason why a child exited that was not stopped. Done must be closed.
func (c *Child) Ended() error {
	reason := "it exited without an error"
	if c.err != nil {
		reason = c.err.Error()
	}
	if text := c.output.String(); text != "" {
		return fmt.Errorf("%s ended early (%s); the end of its output:\n%s", c.Name, reason, text)
	}
	return fmt.Errorf("%s ended early: %s", c.Name, reason)
}

// Stop sends SIGTERM, waits, and kills the child if it does not exit within grace, which is an error. It
// returns nil if the child had exited before, and the child's error if it fails while stopping.
func (c *Child) Stop(grace time.Duration) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-c.Done // it has exited
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.Done:
	case <-timer.C:
		err := c.cmd.Process.Kill()
		<-c.Done
		return errors.Join(fmt.Errorf("%s did not end within %v of SIGTERM and was killed", c.Name, grace), err)
	}
	if c.err == nil || c.bySignal(syscall.SIGTERM) {
		return nil
	}
	return c.Ended()
}

// bySignal reports whether sig ended the process before it had a handler for it.
func (c *Child) bySignal(sig syscall.Signal) bool {
	exit, ok := errors.AsType[*exec.ExitError](c.err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == sig
}

// A lineWriter splits its input into lines.
type lineWriter struct {
	line func([]byte)
	buf  []byte
}

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	for {
		line, rest, found := bytes.Cut(w.buf, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.line(line)
		w.buf = append(w.buf[:0], rest...)
	}
}

// A tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte // under mu
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - keptOutput; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the kept bytes without surrounding blank lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
