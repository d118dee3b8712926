package testdir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testwait"
)

// A FileCall is a system call on a file: its kind, and the number of equal ones before it. In the path, ULIDs and
// numbers of six or more digits are replaced by #.
type FileCall struct {
	Op, Path string
	N        int
}

func (c FileCall) String() string { return fmt.Sprintf("%s %s %d", c.Op, c.Path, c.N) }

// A FileFault is how a system call fails.
type FileFault string

// The faults. The error is EIO, and EROFS for changes that fail from then on.
const (
	FailsBefore FileFault = "fails before it runs"
	FailsAfter  FileFault = "fails after it ran"
	FailsAlways FileFault = "fails from then on"
	IsSlow      FileFault = "is slow"
)

// FileFaults has all of them.
var FileFaults = []FileFault{FailsBefore, FailsAfter, FailsAlways, IsSlow}

const slowness = 20 * time.Millisecond

// fileCalls are the system calls with faults. An open that may create its file is a create.
var fileCalls = map[uint64]string{
	unix.SYS_OPENAT: "open", unix.SYS_READ: "read", unix.SYS_PREAD64: "read", unix.SYS_GETDENTS64: "list", unix.SYS_MMAP: "map",
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_FSYNC: "sync", unix.SYS_FDATASYNC: "sync",
	unix.SYS_FTRUNCATE: "truncate", unix.SYS_FALLOCATE: "allocate", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
	unix.SYS_UNLINKAT: "remove", unix.SYS_MKDIRAT: "mkdir", unix.SYS_LINKAT: "link",
}

// Traceable has the process stop for its parent, which runs it in [TraceFiles], at system calls on files.
func Traceable() error {
	numbers := make([]uint64, 0, len(fileCalls))
	for n := range fileCalls {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, n := range numbers {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(numbers) - i), K: uint32(n)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TraceFiles runs a process that calls [Traceable] with one fault at a system call on a file below dir, or with none if
// fault is "". It returns these calls in their order. It skips the test where no process can be traced.
func TraceFiles(t *testing.T, cmd *exec.Cmd, dir string, at FileCall, fault FileFault) (calls []FileCall, err error) {
	t.Helper()
	tracer := &fileTracer{dir: dir + string(filepath.Separator), at: at, fault: fault, counts: make(map[FileCall]int), failing: make(map[int]syscall.Errno)}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // a tracer is a thread; it exits with the goroutine
		done <- tracer.run(cmd)
	}()
	if err = testwait.Receive(t, "the traced process to exit", done); errors.Is(err, errNotTraced) {
		t.Skip(err)
	}
	return tracer.calls, err
}

var errNotTraced = errors.New("no process can be traced")

// A fileTracer runs a process with one fault.
type fileTracer struct {
	dir     string
	at      FileCall
	fault   FileFault
	calls   []FileCall
	counts  map[FileCall]int      // by call without its number
	failing map[int]syscall.Errno // by thread: its call fails when it has run
}

func (t *fileTracer) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNotTraced, err)
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Release() }() // it was waited for
	limit := time.AfterFunc(testwait.Limit/2, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		return err
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	if err := errors.Join(unix.PtraceSetOptions(pid, options), unix.PtraceCont(pid, 0)); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errNotTraced, err), cmd.Process.Kill())
	}
	for {
		thread, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case thread == pid && (status.Exited() || status.Signaled()):
			if status != 0 {
				return fmt.Errorf("the process ended with status %#x", int(status))
			}
			return nil
		case status.Stopped():
			if err := t.resume(thread, status); err != nil && !errors.Is(err, unix.ESRCH) { // a thread exits with its process
				return err
			}
		}
	}
}

// resume has a stopped thread continue.
func (t *fileTracer) resume(thread int, status unix.WaitStatus) error {
	switch signal := status.StopSignal(); {
	case signal == unix.SIGTRAP|0x80: // the call has run
		errno := t.failing[thread]
		delete(t.failing, thread)
		return errors.Join(setResult(thread, errno), unix.PtraceCont(thread, 0))
	case signal == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		return t.enter(thread)
	case signal == unix.SIGTRAP, signal == unix.SIGSTOP:
		return unix.PtraceCont(thread, 0)
	default:
		return unix.PtraceCont(thread, int(signal))
	}
}

// setResult has a system call return an error.
func setResult(thread int, errno syscall.Errno) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &regs); err != nil {
		return err
	}
	regs.Rax = -uint64(errno)
	return unix.PtraceSetRegs(thread, &regs)
}

// enter records a call, and has its fault occur.
func (t *fileTracer) enter(thread int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &regs); err != nil {
		return err
	}
	call, ok := t.call(thread, &regs)
	if !ok {
		return unix.PtraceCont(thread, 0)
	}
	same := FileCall{Op: call.Op, Path: call.Path}
	call.N = t.counts[same]
	t.counts[same]++
	t.calls = append(t.calls, call)
	always := t.fault == FailsAlways && call.N > t.at.N && call.Op == t.at.Op && call.Path == t.at.Path
	if t.fault == "" || call != t.at && !always {
		return unix.PtraceCont(thread, 0)
	}
	errno := syscall.EIO
	if t.fault == FailsAlways && !slices.Contains([]string{"open", "read", "list", "map"}, call.Op) {
		errno = syscall.EROFS
	}
	switch t.fault {
	case IsSlow:
		time.Sleep(slowness) // paces: the call
		return unix.PtraceCont(thread, 0)
	case FailsAfter:
		t.failing[thread] = errno
		return unix.PtraceSyscall(thread, 0)
	}
	regs.Orig_rax = ^uint64(0) // no call
	regs.Rax = -uint64(errno)
	return errors.Join(unix.PtraceSetRegs(thread, &regs), unix.PtraceCont(thread, 0))
}

var varying = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}|[0-9]{6,}`)

// call returns the call of a thread, if it is on a file below the directory.
func (t *fileTracer) call(thread int, r *unix.PtraceRegs) (c FileCall, ok bool) {
	c.Op = fileCalls[r.Orig_rax]
	var path string
	switch r.Orig_rax {
	case unix.SYS_OPENAT:
		if r.Rdx&unix.O_CREAT != 0 {
			c.Op = "create"
		}
		path = pathAt(thread, r.Rdi, r.Rsi)
	case unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		path = pathAt(thread, r.Rdi, r.Rsi)
	case unix.SYS_LINKAT:
		path = pathAt(thread, r.Rdx, r.R10)
	case unix.SYS_MMAP:
		path = ""
		if r.R10&unix.MAP_ANONYMOUS == 0 {
			path = fdPath(thread, r.R8)
		}
	default:
		path = fdPath(thread, r.Rdi)
	}
	rel, ok := strings.CutPrefix(path, t.dir)
	c.Path = varying.ReplaceAllString(rel, "#")
	return c, ok
}

// pathAt returns the path of a call that has a directory and a name.
func pathAt(thread int, dir, name uint64) string {
	b := make([]byte, 512)
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	n, err := unix.ProcessVMReadv(thread, local, []unix.RemoteIovec{{Base: uintptr(name), Len: len(b)}}, 0)
	if err != nil {
		return ""
	}
	path, _, _ := strings.Cut(string(b[:n]), "\x00")
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(fdPath(thread, dir), path)
}

func fdPath(thread int, fd uint64) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, int32(fd))) // if it has none, it is below no directory
	return path
}
