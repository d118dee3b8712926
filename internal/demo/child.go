package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a child may take to end after SIGTERM. Statements of the workload
// take up to a second on a busy machine, and the gateway waits for them.
const stopGrace = 10 * time.Second

// stderrKept is how much of a child's last words is kept for an error message.
const stderrKept = 2 << 10

// A child is a process of the demo.
type child struct {
	name   string
	cmd    *exec.Cmd
	stderr tail
	done   chan struct{} // closed when the process has ended
	err    error         // of Wait; valid once done is closed
}

// startChild runs a program. Each line it prints on stdout goes to line, which may be nil.
//
// The child gets a process group of its own, so that Ctrl-C reaches this process alone and
// children end in order; it gets SIGTERM when this process dies, however that happens.
func startChild(name, path string, args []string, line func([]byte)) (*child, error) {
	c := &child{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	c.cmd.Stderr = &c.stderr
	c.cmd.Env = ownEnvironment()
	if line != nil {
		c.cmd.Stdout = &lineWriter{line: line}
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread ends that started the
		// child. This one stays until the child is gone, and ends then.
		runtime.LockOSThread()
		defer close(c.done)
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// pid is the child's process id.
func (c *child) pid() int { return c.cmd.Process.Pid }

// await polls until ready says so, the child ends or the time is over.
func (c *child) await(ctx context.Context, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s was not ready within %v", c.name, startTimeout))
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
		case <-c.done:
			return c.ended()
		case <-ticker.C:
		}
	}
}

// ended says why a child ended that was not asked to. It is called once done is closed.
func (c *child) ended() error {
	reason := "it exited without an error"
	if c.err != nil {
		reason = c.err.Error()
	}
	if words := c.stderr.String(); words != "" {
		return fmt.Errorf("%s ended early (%s); its last words:\n%s", c.name, reason, words)
	}
	return fmt.Errorf("%s ended early: %s", c.name, reason)
}

// stop asks the child to end, waits, and kills it when it does not end in time. A child
// that was stopped answers nil; one that failed while ending answers its error.
func (c *child) stop(grace time.Duration) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-c.done // it has ended by itself
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		err := c.cmd.Process.Kill()
		<-c.done
		return errors.Join(fmt.Errorf("%s did not end within %v of SIGTERM and was killed", c.name, grace), err)
	}
	if c.err == nil || c.bySignal(syscall.SIGTERM) {
		return nil
	}
	return c.ended()
}

// bySignal says whether sig ended the process before it had a handler for it.
func (c *child) bySignal(sig syscall.Signal) bool {
	exit, ok := errors.AsType[*exec.ExitError](c.err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == sig
}

// ownEnvironment is the environment without Tare's settings, which are meant for the
// user's own gateway.
func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TARE_") })
}

// A lineWriter cuts what is written to it into lines.
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

// A tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte // under mu
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - stderrKept; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String is what is kept, without blank lines around it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
