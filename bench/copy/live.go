package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/child"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/testmysql"
)

// A phase is a run of sysbench's oltp_read_only on the source, and its results.
type phase struct {
	name         string
	queries, p99 float64 // per second; ms per transaction
	copied       float64 // MB/s
	over         string  // number of seconds above the bound
}

// live measures the effect of a copy on live traffic: directly and through the gateway, alone and during a
// copy, and during a copy that is throttled at twice the idle p99.
func (l *lab) live(ctx context.Context, o *options, out, log io.Writer) (err error) {
	if err := l.build(ctx, o); err != nil {
		return err
	}
	g, err := l.serve(ctx, o.tare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop(programs.StopGrace)) }()

	var phases []*phase
	run := func(name string, addr string, copying []string, each func(second)) (*phase, error) {
		p := &phase{name: name}
		fmt.Fprintln(log, name)
		if err := l.phase(ctx, o, p, addr, copying, each); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		phases = append(phases, p)
		return p, nil
	}
	none := func(second) {}
	if _, err := run("directly, alone", l.source.Addr, nil, none); err != nil {
		return err
	}
	unbound := []string{}
	if _, err := run("directly, beside a copy", l.source.Addr, unbound, none); err != nil {
		return err
	}
	var idle []float64
	alone, err := run("through tare serve, alone", g.addr, nil, func(s second) {
		if v, err := g.p99(ctx); err == nil && s.at > o.live/2 {
			idle = append(idle, v)
		}
	})
	if err != nil {
		return err
	}
	if len(idle) == 0 {
		return errors.New("the gateway told no p99 of the traffic alone: use a longer -live")
	}
	if _, err := run("through tare serve, beside a copy", g.addr, unbound, none); err != nil {
		return err
	}
	tr := trace{statement: 2 * programs.Median(idle), transaction: 2 * alone.p99}
	bound := []string{"--max-p99", fmt.Sprintf("%.0fus", 1000*tr.statement), "--gateway", g.pages}
	held, err := run(fmt.Sprintf("through tare serve, beside a copy with --max-p99 %.2fms", tr.statement), g.addr, bound, tr.add)
	if err != nil {
		return err
	}
	held.over = fmt.Sprintf("%d of %d", tr.over(), len(tr.seconds))
	if err := errors.Join(tr.writeFile(o.trace, tr.writeCSV), tr.writeFile(o.svg, tr.writeSVG)); err != nil {
		return err
	}
	return printPhases(out, phases)
}

// phase runs sysbench for the duration of a phase, and meanwhile runs copies with the flags copying, or none
// if copying is nil.
func (l *lab) phase(ctx context.Context, o *options, p *phase, addr string, copying []string, each func(second)) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var c *copies
	if copying != nil {
		c = l.copies(ctx, o, copying)
		defer func() { err = errors.Join(err, c.end()) }()
		if err := c.awaitRows(ctx); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "sysbench", append(programs.Sysbench("oltp_read_only", addr, o.rows),
		fmt.Sprintf("--threads=%d", o.liveThreads), fmt.Sprintf("--rate=%d", o.liveRate), fmt.Sprintf("--time=%.0f", o.live.Seconds()),
		"--report-interval=1", "--percentile=99", "run")...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var before int64
	if c != nil {
		before = c.bytes()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var said strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if s, ok := parseSecond(lines.Text()); ok {
			if c != nil {
				c.look(ctx, &s)
			}
			each(s)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("sysbench: %w\n%s", err, said.String())
	}
	if c != nil {
		p.copied = float64(c.bytes()-before) / 1e6 / o.live.Seconds()
	}
	p.queries, p.p99, err = parseEnd(said.String())
	return err
}

var (
	secondLine = regexp.MustCompile(`^\[ (\d+)s \].* lat \(ms,99%\): ([\d.]+)`)
	queriesEnd = regexp.MustCompile(`queries:\s+\d+\s+\(([\d.]+) per sec\.\)`)
	p99End     = regexp.MustCompile(`99th percentile:\s+([\d.]+)`)
)

// parseSecond parses the line that sysbench prints each second.
func parseSecond(line string) (s second, ok bool) {
	m := secondLine.FindStringSubmatch(line)
	if m == nil {
		return s, false
	}
	at, err := strconv.Atoi(m[1])
	if err != nil {
		return s, false
	}
	s.at = time.Duration(at) * time.Second
	s.transaction, err = strconv.ParseFloat(m[2], 64)
	return s, err == nil
}

// parseEnd parses the final report of sysbench.
func parseEnd(text string) (queries, p99 float64, err error) {
	q, p := queriesEnd.FindStringSubmatch(text), p99End.FindStringSubmatch(text)
	if q == nil || p == nil {
		return 0, 0, fmt.Errorf("sysbench does not tell queries and p99:\n%s", text)
	}
	queries, err = strconv.ParseFloat(q[1], 64)
	p99, perr := strconv.ParseFloat(p[1], 64)
	return queries, p99, errors.Join(err, perr)
}

// A copies runs consecutive copies, each from the first row.
type copies struct {
	socket  string
	control *control.Client
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error         // valid after ended is closed
	begun   chan struct{} // closed when the first chunk is written

	mu    sync.Mutex
	total int64 // bytes of rows, of all copies
}

func (l *lab) copies(ctx context.Context, o *options, flags []string) *copies {
	ctx, cancel := context.WithCancel(ctx)
	c := &copies{socket: filepath.Join(l.dir, "copy.sock"), cancel: cancel, ended: make(chan struct{}), begun: make(chan struct{})}
	c.control = control.NewClient(c.socket)
	args := append([]string{
		"copy", "--from", url(testmysql.AppUser, l.source), "--to", url(testmysql.AppUser, l.target), "--tables", schema + "." + table, "--workers", strconv.Itoa(o.workers[0]),
		"--chunk-bytes", "1MiB", "--restart", "--json", "--control-socket", c.socket,
	}, flags...)
	go func() {
		defer close(c.ended)
		for ctx.Err() == nil && c.err == nil {
			c.err = c.run(ctx, o.tare, args)
		}
	}()
	return c
}

// run runs one copy, unless it is stopped.
func (c *copies) run(ctx context.Context, tare string, args []string) error {
	cmd := exec.CommandContext(ctx, tare, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var said strings.Builder
	cmd.Stderr = &said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var e struct {
			Event string `json:"event"`
			Bytes int64  `json:"bytes"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Event != "chunk" {
			continue // other errors show in the exit code
		}
		c.mu.Lock()
		if c.total == 0 {
			close(c.begun)
		}
		c.total += e.Bytes
		c.mu.Unlock()
	}
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("tare copy: %w\n%s", err, said.String())
	}
	return nil
}

func (c *copies) awaitRows(ctx context.Context) error {
	select {
	case <-c.begun:
		return nil
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *copies) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// look polls the rate of the copy. Between two copies it records nothing.
func (c *copies) look(ctx context.Context, s *second) {
	s.bytes = c.bytes()
	status, err := c.control.Status(ctx)
	if err != nil {
		return
	}
	s.share, s.reason = status.Throttle.Share, status.Throttle.Reason
	if len(status.Throttle.Limits) > 0 {
		s.statement = status.Throttle.Limits[0].Value
	}
}

func (c *copies) end() error {
	c.cancel()
	<-c.ended
	c.control.Close()
	return c.err
}

// A gateway is a tare serve in front of the source.
type gateway struct {
	*child.Child
	addr  string
	pages string // URL
}

func (l *lab) serve(ctx context.Context, tare string) (*gateway, error) {
	addr, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	pages, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	c, err := programs.Serve(ctx, "tare serve", addr, tare, "serve", "--listen", addr, "--http", pages, "--backend", "mysql://"+l.source.Addr,
		"--log-file", filepath.Join(l.dir, "query.log"), "--data-dir", filepath.Join(l.dir, "data"))
	return &gateway{c, addr, "http://" + pages}, err
}

// p99 returns the gateway's p99 of the last ten seconds, in ms per statement.
func (g *gateway) p99(ctx context.Context) (ms float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(g.pages, "/")+"/api/v1/live", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	var figures struct {
		P99 float64 `json:"p99_us"`
	}
	if err := json.NewDecoder(res.Body).Decode(&figures); err != nil {
		return 0, fmt.Errorf("the gateway's figures: %w", err)
	}
	return figures.P99 / 1000, nil
}

func printPhases(out io.Writer, phases []*phase) error {
	t := tabwriter.NewWriter(out, 0, 4, 1, ' ', 0)
	fmt.Fprintln(t, "| oltp_read_only\t| queries/s\t| p99 of a transaction, ms\t| copied, MB/s\t| seconds above 2 × the p99 alone\t|")
	fmt.Fprintln(t, "|---\t|---:\t|---:\t|---:\t|---:\t|")
	for _, p := range phases {
		fmt.Fprintf(t, "| %s\t| %.0f\t| %.2f\t| %.1f\t| %s\t|\n", p.name, p.queries, p.p99, p.copied, p.over)
	}
	return t.Flush()
}
