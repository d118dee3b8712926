package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/gateway/gatewayclient"
)

// A load is a run of sysbench's oltp_read_write through the gateway.
type load struct {
	cmd   *exec.Cmd
	said  strings.Builder
	ended chan struct{}

	// Valid after ended is closed.
	p99s []float64 // by second, in ms per transaction
	rate float64   // sum of transactions per second

	statements []float64      // by second, in ms per statement, as the gateway measures them; valid after stop
	end        func()         // ends what follows
	others     sync.WaitGroup // the poller of the gateway, and the bursts
}

func (l *lab) startLoad(ctx context.Context) (*load, error) {
	w := &load{ended: make(chan struct{})}
	const day = 24 * 60 * 60
	w.cmd = exec.CommandContext(ctx, "sysbench", append(programs.Sysbench("oltp_read_write", l.gateway, l.o.rows),
		fmt.Sprintf("--threads=%d", l.o.threads), fmt.Sprintf("--rate=%d", l.o.rate), fmt.Sprintf("--time=%d", day), "--mysql-ignore-errors=all",
		"--report-interval=1", "--percentile=99", "run")...)
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.cmd.Stderr = &w.said
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	first := make(chan struct{})
	go w.read(stdout, first)
	select {
	case <-first:
	case <-w.ended:
		return nil, fmt.Errorf("sysbench: %w\n%s", w.cmd.Wait(), w.said.String())
	}
	ctx, w.end = context.WithCancel(ctx)
	w.others.Go(func() { w.poll(ctx, l.pages) })
	if l.o.bursts {
		w.others.Go(func() { l.burst(ctx) })
	}
	return w, nil
}

// poll reads the p99 of statements each second.
func (w *load) poll(ctx context.Context, pages string) {
	g := gatewayclient.New(&gatewayclient.Gateway{URL: pages})
	defer g.Close()
	each := time.NewTicker(time.Second)
	defer each.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-each.C:
		}
		if p99, err := g.P99(ctx); err == nil && p99 > 0 {
			w.statements = append(w.statements, p99.Seconds()*1000)
		}
	}
}

// burst adds twice the rate for five seconds of fifteen.
func (l *lab) burst(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
		_ = exec.CommandContext(ctx, "sysbench", append(programs.Sysbench("oltp_read_write", l.gateway, l.o.rows), // its result is not needed
			fmt.Sprintf("--threads=%d", 2*l.o.threads), fmt.Sprintf("--rate=%d", 2*l.o.rate), "--time=5", "--mysql-ignore-errors=all", "run")...).Run()
	}
}

var secondLine = regexp.MustCompile(`^\[ \d+s \] thds: \d+ tps: ([\d.]+) .* lat \(ms,99%\): ([\d.]+)`)

// read parses the lines that sysbench prints each second. It closes first after one of them.
func (w *load) read(from io.Reader, first chan struct{}) {
	defer close(w.ended)
	for lines := bufio.NewScanner(from); lines.Scan(); {
		m := secondLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		rate, err := strconv.ParseFloat(m[1], 64)
		p99, err2 := strconv.ParseFloat(m[2], 64)
		if err != nil || err2 != nil {
			continue
		}
		if w.p99s == nil {
			close(first)
		}
		w.p99s, w.rate = append(w.p99s, p99), w.rate+rate
	}
}

// stop ends the load.
func (w *load) stop() error {
	w.end()
	w.others.Wait()
	err := w.cmd.Process.Signal(syscall.SIGKILL)
	<-w.ended
	if waited := w.cmd.Wait(); !errors.As(waited, new(*exec.ExitError)) {
		err = errors.Join(err, waited)
	}
	return err
}

// A summary has the latencies and errors of the clients of a load, without its first second.
type summary struct {
	seconds, below int // below the limit
	median, most   float64
	statement      float64 // median of the p99 of statements per second, in ms
	rate           float64 // transactions per second

	statements, statementsBelow int       // seconds, by the p99 of statements
	p99s                        []float64 // of statements, by second
}

func (s summary) String() string {
	return fmt.Sprintf("p99 per second: median %.2f ms, maximum %.1f ms, below the limit in %d of %d seconds; of statements: median %.2f ms, in %d of %d: %.1f",
		s.median, s.most, s.below, s.seconds, s.statement, s.statementsBelow, s.statements, s.p99s)
}

// summary must be called after stop.
func (w *load) summary(l limits) (s summary) {
	s.p99s = w.statements
	for _, p99 := range w.statements {
		s.statements++
		if p99 < l.statement {
			s.statementsBelow++
		}
	}
	if s.statements > 0 {
		s.statement = programs.Median(slices.Clone(w.statements))
	}
	seconds := w.p99s[min(1, len(w.p99s)):]
	if s.seconds = len(seconds); s.seconds == 0 {
		return s
	}
	for _, p99 := range seconds {
		if p99 < l.transaction {
			s.below++
		}
	}
	s.median, s.most, s.rate = programs.Median(slices.Clone(seconds)), slices.Max(seconds), w.rate/float64(len(w.p99s))
	return s
}
