package weigh

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the kernel's data about a process.
type Usage struct {
	// CPU is the user and system time of all threads, including exited ones, to the nanosecond.
	CPU time.Duration

	// UserTicks and SysTicks are the kernel's division of it, in hundredths of a second.
	UserTicks, SysTicks uint64

	RSS     int64 // resident bytes
	PeakRSS int64 // maximum of resident bytes
}

// A Process is one running process on this machine.
type Process struct {
	pid   int
	start uint64 // in ticks since boot: distinguishes a process from a later one with its number
}

// Open finds a process by its id.
func Open(pid int) (*Process, error) {
	p := &Process{pid: pid}
	st, err := p.readStat()
	if err != nil {
		return nil, err
	}
	p.start = st.start
	return p, nil
}

// ErrEnded reports that the process has exited.
var ErrEnded = errors.New("the process has ended")

// CPU returns the CPU time of all threads of the process.
func (p *Process) CPU() (time.Duration, error) {
	// The clock of a process is named by its id's complement, shifted past three bits of which 2 means
	// "scheduled time of the whole thread group".
	clock := int32(^p.pid<<3 | 2)
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("read the CPU clock of process %d: %w", p.pid, ErrEnded)
		}
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", p.pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Usage reads all of the kernel's data.
func (p *Process) Usage() (Usage, error) {
	st, err := p.readStat()
	if err != nil {
		return Usage{}, err
	}
	if st.start != p.start {
		return Usage{}, fmt.Errorf("read process %d: %w", p.pid, ErrEnded)
	}
	cpu, err := p.CPU()
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(p.path("status"))
	if err != nil {
		return Usage{}, p.readError(err)
	}
	return Usage{
		CPU: cpu, UserTicks: st.user, SysTicks: st.sys,
		RSS: statusBytes(status, "VmRSS:"), PeakRSS: statusBytes(status, "VmHWM:"),
	}, nil
}

// Since returns the CPU time since an earlier reading, divided into user and system time in the ratio of the
// ticks between the two. Without ticks between them all of it is user time.
func (u Usage) Since(earlier Usage) (user, sys time.Duration) {
	cpu := u.CPU - earlier.CPU
	ofUser, ofSys := u.UserTicks-earlier.UserTicks, u.SysTicks-earlier.SysTicks
	if ofUser+ofSys == 0 {
		return cpu, 0
	}
	user = time.Duration(float64(cpu) * float64(ofUser) / float64(ofUser+ofSys))
	return user, cpu - user
}

func (p *Process) path(name string) string {
	return "/proc/" + strconv.Itoa(p.pid) + "/" + name
}

// readError adds the process to an error about a file below /proc.
func (p *Process) readError(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		err = ErrEnded
	}
	return fmt.Errorf("read process %d: %w", p.pid, err)
}

// stat are the used fields of /proc/PID/stat, in clock ticks.
type stat struct{ user, sys, start uint64 }

func (p *Process) readStat() (stat, error) {
	b, err := os.ReadFile(p.path("stat"))
	if err != nil {
		return stat{}, p.readError(err)
	}
	st, ok := parseStat(b)
	if !ok {
		return stat{}, fmt.Errorf("read process %d: unexpected form of %s", p.pid, p.path("stat"))
	}
	return st, nil
}

// parseStat parses fields 14, 15 and 22. The second field, the command, is in parentheses and may itself
// contain blanks and parentheses, so counting starts at the last one.
func parseStat(b []byte) (stat, bool) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return stat{}, false
	}
	fields := bytes.Fields(b[end+1:]) // the first of these is field 3
	if len(fields) < 20 {
		return stat{}, false
	}
	var st stat
	for _, f := range []struct {
		n  int
		to *uint64
	}{{14, &st.user}, {15, &st.sys}, {22, &st.start}} {
		v, err := strconv.ParseUint(string(fields[f.n-3]), 10, 64)
		if err != nil {
			return stat{}, false
		}
		*f.to = v
	}
	return st, true
}

// statusBytes finds a line such as "VmRSS:          1234 kB"; a kernel thread has none, which gives 0.
func statusBytes(status []byte, key string) int64 {
	_, rest, found := bytes.Cut(status, []byte("\n"+key))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	number, found := bytes.CutSuffix(bytes.TrimSpace(line), []byte(" kB"))
	if !found {
		return 0
	}
	kib, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
