package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/taredb/tare/bench/programs"
)

// Events for perf stat. Instruction counts hardly depend on other load on the machine.
const (
	perfCalls    = "raw_syscalls:sys_enter" // all system calls
	perfCall     = "syscalls:sys_enter_"    // those of one name
	perfSwitches = "context-switches"
	perfMoves    = "cpu-migrations"
	perfUser     = "instructions:u"
	perfKernel   = "instructions:k"
)

// perfNames are the system calls that proxies make for a query.
var perfNames = [...]string{
	"read", "write", "recvfrom", "sendto", "splice", "epoll_wait", "epoll_pwait", "epoll_ctl",
	"futex", "nanosleep", "clock_gettime", "sched_yield", "tgkill",
}

func perfEvents() []string {
	events := []string{perfCalls, perfSwitches, perfMoves, perfUser, perfKernel}
	for _, name := range perfNames {
		events = append(events, perfCall+name)
	}
	return events
}

// A count has the counts of a proxy in two runs, per query.
type count struct {
	workload string
	threads  int
	by       string

	// Undisturbed, from perf stat, by event; without events that it could not count.
	perf map[string]float64
	// Undisturbed, from /proc.
	voluntary, involuntary float64
	// Under strace.
	calls []call
}

// A call is a system call and its number per query.
type call struct {
	name     string
	perQuery float64
}

func (l *lab) countAll(ctx context.Context) ([]count, error) {
	strace, err := programs.Look("strace")
	if err != nil {
		return nil, err
	}
	perf, err := programs.Look("perf")
	if err != nil {
		fmt.Fprintln(l.log, "without perf, only system calls and context switches are counted")
		perf = ""
	}
	var counts []count
	for _, workload := range l.options.Workloads {
		for _, threads := range l.options.Threads {
			cell, err := l.countCell(ctx, workload, threads, strace, perf)
			if err != nil {
				return nil, fmt.Errorf("%s with %d threads: %w", workload, threads, err)
			}
			counts = append(counts, cell...)
		}
	}
	return counts, nil
}

func (l *lab) countCell(ctx context.Context, workload string, threads int, strace, perf string) (counts []count, err error) {
	ways, err := l.openWays(ctx)
	defer func() { err = errors.Join(err, closeWays(ways)) }()
	if err != nil {
		return nil, err
	}
	for _, w := range ways {
		if w.process == nil {
			continue
		}
		fmt.Fprintf(l.log, "%s, %d threads: counting %s\n", workload, threads, w.by)
		c := count{workload: workload, threads: threads, by: w.by}
		if err := l.countUndisturbed(ctx, &c, w, perf); err != nil {
			return nil, fmt.Errorf("%s: %w", w.by, err)
		}
		if c.calls, err = l.countCalls(ctx, w, workload, threads, strace); err != nil {
			return nil, fmt.Errorf("%s: %w", w.by, err)
		}
		counts = append(counts, c)
	}
	return counts, nil
}

// countUndisturbed runs perf stat during a run, and reads the context switches from /proc.
func (l *lab) countUndisturbed(ctx context.Context, c *count, w *way, perf string) error {
	line := l.sysbench(c.workload, c.threads, w).command(l.options.Measured)
	file := filepath.Join(l.dir, "perf.csv")
	if perf != "" {
		// With -p and a command, perf counts that process while the command runs.
		line = append([]string{
			perf, "stat", "-x", ",", "-o", file, "-e", strings.Join(perfEvents(), ","),
			"-p", strconv.Itoa(w.process.PID()), "--",
		}, line...)
	}
	before, err := readTasks(w.process.PID())
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = l.dir
	r, err := runSysbench(cmd, nil, nil)
	if err != nil {
		return err
	}
	after, err := readTasks(w.process.PID())
	if err != nil {
		return err
	}
	c.voluntary = float64(after.voluntary-before.voluntary) / float64(r.queries)
	c.involuntary = float64(after.involuntary-before.involuntary) / float64(r.queries)
	if perf == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	c.perf = parsePerf(string(text), r.queries)
	return nil
}

// parsePerf parses the output of perf stat -x, and divides by the queries. Events that perf did not count are
// "<not counted>" or "<not supported>".
func parsePerf(text string, queries int) map[string]float64 {
	perQuery := make(map[string]float64)
	for line := range strings.Lines(text) {
		fields := strings.Split(line, ",")
		if len(fields) < 3 {
			continue
		}
		if n, err := strconv.ParseFloat(fields[0], 64); err == nil {
			perQuery[fields[2]] = n / float64(queries)
		}
	}
	return perQuery
}

// countCalls runs the workload with strace attached to the proxy.
func (l *lab) countCalls(ctx context.Context, w *way, workload string, threads int, strace string) ([]call, error) {
	file := filepath.Join(l.dir, "strace.txt")
	cmd := exec.Command(strace, "-c", "-f", "-o", file, "-p", strconv.Itoa(w.process.PID()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C in a terminal must reach only this program
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("run strace: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run strace: %w", err)
	}
	lines := bufio.NewScanner(said)
	attached := lines.Scan() && strings.Contains(lines.Text(), "attached")
	first := lines.Text()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, said) // threads attached and detached; the pipe must not fill
	}()
	var r *result
	if attached {
		r, err = l.sysbench(workload, threads, w).run(ctx, l.options.Measured, nil, nil)
	} else {
		err = fmt.Errorf("strace does not attach: %s", first)
	}
	_ = cmd.Process.Signal(os.Interrupt) // it may have exited
	<-drained
	_ = cmd.Wait() // it exits by the signal
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read what strace counted: %w", err)
	}
	return parseStrace(string(text), r.queries)
}

// parseStrace parses the table of strace -c: "% time, seconds, usecs/call, calls, errors, syscall", where
// errors are often blank.
func parseStrace(text string, queries int) ([]call, error) {
	var calls []call
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[len(fields)-1] == "total" {
			continue
		}
		n, err := strconv.Atoi(fields[3])
		if err != nil {
			continue // the header of the table
		}
		calls = append(calls, call{name: fields[len(fields)-1], perQuery: float64(n) / float64(queries)})
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("strace counted no system call:\n%s", text)
	}
	return calls, nil
}

// leastCalls is the minimum per query of a listed system call: rarer ones belong to logins.
const leastCalls = 0.005

func writeCounts(w io.Writer, counts []count) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(t, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	row("workload", "threads", "by", "switches/query", "voluntary", "forced", "migrations", "instructions/query: user", "kernel",
		"system calls/query", "the same under strace")
	row(slices.Concat(slices.Repeat([]string{"---"}, 3), slices.Repeat([]string{"---:"}, 6), slices.Repeat([]string{"---"}, 2))...)
	for _, c := range counts {
		var seen []call
		for _, name := range perfNames {
			seen = append(seen, call{name, c.perf[perfCall+name]})
		}
		undisturbed := "–"
		if all, ok := c.perf[perfCalls]; ok {
			undisturbed = listCalls(all, seen)
		}
		traced := 0.0
		for _, call := range c.calls {
			traced += call.perQuery
		}
		row(c.workload, strconv.Itoa(c.threads), c.by, c.figure(perfSwitches, 3),
			fmt.Sprintf("%.3f", c.voluntary), fmt.Sprintf("%.3f", c.involuntary),
			c.figure(perfMoves, 3), c.figure(perfUser, 0), c.figure(perfKernel, 0), undisturbed, listCalls(traced, c.calls))
	}
	return t.Flush()
}

// figure formats the count of an event, or returns a dash.
func (c *count) figure(event string, digits int) string {
	n, ok := c.perf[event]
	if !ok {
		return "–"
	}
	return strconv.FormatFloat(n, 'f', digits, 64)
}

// listCalls lists the system calls in descending order, without those of logins.
func listCalls(all float64, calls []call) string {
	calls = slices.Clone(calls)
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(b.perQuery, a.perQuery) })
	var words []string
	for _, c := range calls {
		if c.perQuery >= leastCalls {
			words = append(words, fmt.Sprintf("%s %.2f", c.name, c.perQuery))
		}
	}
	return fmt.Sprintf("%.2f: %s", all, strings.Join(words, ", "))
}
