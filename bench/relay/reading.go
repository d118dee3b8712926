package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/weigh"
)

// clockTick is the unit of the kernel's tick counts: USER_HZ is 100 on every Linux port that Go supports.
const clockTick = time.Second / 100

// A reading has the kernel's accounts of a proxy at one point in time.
type reading struct {
	usage weigh.Usage
	tasks tasks
}

// tasks are sums over a process's living threads.
type tasks struct {
	voluntary, involuntary int64         // context switches
	queued                 time.Duration // runnable, but waiting for a CPU
}

func readProcess(pid int) (reading, error) {
	p, err := weigh.Open(pid)
	if err != nil {
		return reading{}, err
	}
	var r reading
	if r.tasks, err = readTasks(pid); err != nil {
		return reading{}, err
	}
	r.usage, err = p.Usage()
	return r, err
}

func readTasks(pid int) (tasks, error) {
	dirs, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var sum tasks
	for _, dir := range dirs {
		status, err := os.ReadFile(dir + "/status")
		if gone(err) {
			continue
		}
		if err != nil {
			return tasks{}, err
		}
		schedstat, err := os.ReadFile(dir + "/schedstat")
		if gone(err) {
			continue
		}
		if err != nil {
			return tasks{}, err
		}
		if err := sum.add(status, schedstat); err != nil {
			return tasks{}, fmt.Errorf("read %s: %w", dir, err)
		}
	}
	return sum, nil
}

// gone reports whether a thread exited while its files were read.
func gone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// add adds one thread by its files status and schedstat.
func (t *tasks) add(status, schedstat []byte) error {
	for _, f := range []struct {
		to  *int64
		key string
	}{{&t.voluntary, "\nvoluntary_ctxt_switches:"}, {&t.involuntary, "\nnonvoluntary_ctxt_switches:"}} {
		_, rest, _ := bytes.Cut(status, []byte(f.key))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
		if err != nil {
			return fmt.Errorf("%s %w", f.key[1:], err)
		}
		*f.to += n
	}
	// Run time, time spent waiting in a run queue, and number of slices.
	fields := bytes.Fields(schedstat)
	if len(fields) != 3 {
		return fmt.Errorf("unexpected form of schedstat: %q", schedstat)
	}
	ns, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return fmt.Errorf("schedstat: %w", err)
	}
	t.queued += time.Duration(ns)
	return nil
}

// A machine is the CPU time of all processes, and of the participating ones.
type machine struct {
	busy time.Duration // of all processes, and time stolen by the host; in steps of one tick per CPU
	ours time.Duration // of the participating processes
}

// readMachine reads the machine's account and those of the given processes.
func readMachine(pids ...int) (machine, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machine{}, err
	}
	m := machine{}
	if m.busy, err = parseBusy(b); err != nil {
		return machine{}, fmt.Errorf("read /proc/stat: %w", err)
	}
	for _, pid := range pids {
		cpu, err := readCPU(pid)
		if err != nil {
			return machine{}, err
		}
		m.ours += cpu
	}
	return m, nil
}

// readCPU returns the CPU time of a process.
func readCPU(pid int) (time.Duration, error) {
	p, err := weigh.Open(pid)
	if err != nil {
		return 0, err
	}
	return p.CPU()
}

// parseBusy sums the first line of /proc/stat without the idle times: user, nice, system, (idle, iowait,)
// irq, softirq, steal. Guests' times are included in user.
func parseBusy(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("unexpected form of the first line: %q", line)
	}
	var ticks int64
	for i, f := range fields[1:9] {
		if i == 3 || i == 4 {
			continue
		}
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
