package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/bench/programs"
)

// Lines of sysbench's output between which its threads work.
const (
	lineStarted = "Threads started!"
	lineEnded   = "Latency histogram (values are in milliseconds)"
)

// A sysbench is one workload over one way.
type sysbench struct {
	program string
	args    []string // without the command
	dir     string   // its working directory
}

func (l *lab) sysbench(workload string, threads int, w *way) *sysbench {
	s := &sysbench{
		program: l.tools.sysbench,
		args:    append(programs.Sysbench(workload, w.addr, l.options.Rows), "--threads="+strconv.Itoa(threads), "--db-ps-mode=disable", "--histogram=on"),
		dir:     l.dir,
	}
	if l.options.TLS && w.legs == nil {
		s.args = append(s.args, "--mysql-ssl=on")
	}
	return s
}

// command returns the command line of the workload for a duration.
func (s *sysbench) command(d time.Duration) []string {
	line := append([]string{s.program}, s.args...)
	return append(line, fmt.Sprintf("--time=%d", int(d/time.Second)), "run")
}

// prepare creates and fills the table.
func (s *sysbench) prepare(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.program, append(slices.Clone(s.args), "prepare")...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fill the table with sysbench: %w\n%s", err, out)
	}
	return nil
}

// run runs the workload. It calls started with sysbench's process id when all threads have connected, and
// ended when they have finished but the process has not exited.
func (s *sysbench) run(ctx context.Context, d time.Duration, started func(pid int) error, ended func() error) (*result, error) {
	line := s.command(d)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = s.dir
	return runSysbench(cmd, started, ended)
}

// runSysbench runs cmd, which writes sysbench's output.
func runSysbench(cmd *exec.Cmd, started func(pid int) error, ended func() error) (*result, error) {
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("run sysbench: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run sysbench: %w", err)
	}
	var text strings.Builder
	lines := bufio.NewScanner(io.TeeReader(out, &text))
	var hookErr error
	for lines.Scan() && hookErr == nil {
		switch {
		case started != nil && lines.Text() == lineStarted:
			hookErr = started(cmd.Process.Pid)
		case ended != nil && lines.Text() == lineEnded:
			hookErr = ended()
		}
	}
	if hookErr != nil {
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()         // it was killed on purpose
		return nil, hookErr
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("run sysbench: %w\n%s%s", err, &text, &errs)
	}
	r, err := parseResult(text.String())
	if err != nil {
		return nil, fmt.Errorf("read sysbench's report: %w\n%s", err, &text)
	}
	return r, nil
}

// A result is sysbench's report of a run.
type result struct {
	queries    int
	perSecond  float64
	seconds    float64
	errors     int // errors that the workload ignored
	reconnects int
	latencies  []bucket // of events: transactions, or statements outside of one
}

// A bucket counts the events of similar latency; buckets are sorted by it.
type bucket struct {
	ms    float64
	count int
}

// parseResult parses the report of sysbench 1.0 with --histogram=on.
func parseResult(text string) (*result, error) {
	r := &result{queries: -1, seconds: -1, errors: -1, reconnects: -1}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if ms, rest, ok := strings.Cut(line, " |"); ok {
			b, ok := parseBucket(ms, rest)
			if ok {
				r.latencies = append(r.latencies, b)
			}
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			continue
		}
		var err error
		switch name {
		case "queries":
			if r.queries, err = strconv.Atoi(words[0]); err == nil && len(words) > 1 {
				r.perSecond, err = strconv.ParseFloat(strings.TrimPrefix(words[1], "("), 64)
			}
		case "ignored errors":
			r.errors, err = strconv.Atoi(words[0])
		case "reconnects":
			r.reconnects, err = strconv.Atoi(words[0])
		case "total time":
			r.seconds, err = strconv.ParseFloat(strings.TrimSuffix(words[0], "s"), 64)
		}
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
	}
	if r.queries < 1 || r.perSecond <= 0 || r.seconds <= 0 || r.errors < 0 || r.reconnects < 0 || len(r.latencies) == 0 {
		return nil, fmt.Errorf("queries, time, errors, reconnects or histogram are missing")
	}
	return r, nil
}

// parseBucket parses a line such as "0.130 |*****    37" around its first bar.
func parseBucket(ms, rest string) (bucket, bool) {
	var b bucket
	var err error
	if b.ms, err = strconv.ParseFloat(ms, 64); err != nil {
		return b, false
	}
	b.count, err = strconv.Atoi(strings.TrimSpace(strings.TrimLeft(rest, "*")))
	return b, err == nil
}

// quantile returns the latency in milliseconds that a fraction q of the events did not exceed.
func (r *result) quantile(q float64) float64 {
	total := 0
	for _, b := range r.latencies {
		total += b.count
	}
	below := 0
	for _, b := range r.latencies {
		if below += b.count; float64(below) >= q*float64(total) {
			return b.ms
		}
	}
	return r.latencies[len(r.latencies)-1].ms
}
