package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const (
	startTime = 10 * time.Second       // that a proxy has until it accepts connections
	stopTime  = 10 * time.Second       // that a proxy has to end in order
	pollTime  = 10 * time.Millisecond  // between attempts to connect
	dialTime  = 500 * time.Millisecond // of an attempt
)

// A process is one running program that serves an address.
type process struct {
	name   string
	pid    int
	addr   string
	output bytes.Buffer  // standard output and error; read it once exited is closed
	exited chan struct{} // closed once the process is gone and reaped
}

// startProcess starts a program and returns when addr accepts connections.
func startProcess(ctx context.Context, name, addr, program string, args ...string) (*process, error) {
	p := &process{name: name, addr: addr, exited: make(chan struct{})}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	// The signal comes when the thread that forked ends, so it is kept until the process
	// is gone; a group of its own keeps a terminal's Ctrl-C to this program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // that it ended too early is seen by who waits for it
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	if err := p.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	for {
		c, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended before it was ready; it said:\n%s", p.name, &p.output)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s on %s: %w", p.name, p.addr, ctx.Err())
		case <-poll.C:
		}
	}
}

// stop ends the process in order, and by force when that takes too long.
func (p *process) stop() error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.exited: // its id may be somebody else's by now
			return nil
		default:
		}
		if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s (process %d): %w", p.name, p.pid, err)
		}
		select {
		case <-p.exited:
			return nil
		case <-time.After(stopTime):
		}
	}
	return fmt.Errorf("%s (process %d) outlived SIGKILL by %v", p.name, p.pid, stopTime)
}

// freeAddress returns an address on which nobody listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// lookProgram finds a command, also where an ordinary user's PATH does not look.
func lookProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin/", "/usr/sbin/", "/sbin/"} {
		if info, err := os.Stat(dir + name); err == nil && info.Mode()&0o111 != 0 {
			return dir + name, nil
		}
	}
	return "", fmt.Errorf("%s is missing: install the package %s", name, name)
}
