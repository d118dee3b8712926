package testmysql

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// keptLogLines is the number of lines of the server's log kept for error messages.
const keptLogLines = 200

// errPortTaken reports that another process took the port between its selection and the server's bind.
var errPortTaken = errors.New("the port is in use")

// A process is one running server.
type process struct {
	pid    int
	exited chan struct{} // closed once the process has exited and is reaped

	mu  sync.Mutex
	log []string // the last lines of its log; under mu
}

// startProcess starts a server program in dir, to which clients may write files, and returns when its log says that it is
// ready, in the line for which isReady returns true.
func startProcess(program string, args []string, dir string, o owner, isReady func(line string) bool) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the log: %w", err)
	}
	p := &process{exited: make(chan struct{})}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = processAttr()
	if o.switches {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread is kept until the server has exited: see processAttr
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		w.Close()
		started <- err
		if err == nil {
			// The log is more informative than its status.
			_ = cmd.Wait()
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		r.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p.pid = cmd.Process.Pid

	ready := make(chan bool, 1) // true when ready, false at the log's end
	go func() {
		defer r.Close()
		p.readLog(r, isReady, ready)
	}()
	if <-ready {
		return p, nil
	}
	if err := p.stop(syscall.SIGKILL); err != nil { // it may write its log elsewhere
		return nil, err
	}
	log := p.Log()
	if strings.Contains(log, "Bind on TCP/IP port") || strings.Contains(log, "bind: address already in use") { // of TiDB
		return nil, errPortTaken
	}
	return nil, fmt.Errorf("%s ended, or its log did, before it was ready; its log:\n%s", program, log)
}

// readLog keeps the log's last lines and reports the line that announces readiness.
func (p *process) readLog(r *os.File, isReady func(line string) bool, ready chan<- bool) {
	lines := bufio.NewScanner(r)
	reported := false
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		if len(p.log) == keptLogLines {
			p.log = slices.Delete(p.log, 0, 1)
		}
		p.log = append(p.log, line)
		p.mu.Unlock()
		if !reported && isReady(line) {
			reported = true
			ready <- true
		}
	}
	if !reported {
		ready <- false
	}
}

// Log returns the last lines that the server logged.
func (p *process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// stop sends a signal and waits until the process has exited.
func (p *process) stop(sig syscall.Signal) error {
	select {
	case <-p.exited: // its id may be reused by now
		return nil
	default:
	}
	if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal the server (process %d): %w", p.pid, err)
	}
	<-p.exited
	return nil
}
