package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Slow statements, for -slow.
const (
	slowNone  = "none"
	slowOther = "another digest" // whose statements are all slow
	slowSame  = "the same digest"

	slowEvery = 100 // statements have a slow one among them, on average
	slowTime  = 20 * time.Millisecond

	// slowView reads rows of sysbench's table, of which one in slowEvery takes slowTime.
	slowView = "CREATE OR REPLACE ALGORITHM = MERGE VIEW sometimes AS SELECT id, c, SLEEP(IF(id %% %d = 0, %f, 0)) AS pause FROM sbtest1"
)

// slowTexts are the statement of the fast reads, and another one with an equal plan.
var slowTexts = [...]string{"SELECT c, pause FROM sometimes WHERE id = ", "SELECT pause, c FROM sometimes WHERE id = "} //nolint:gochecknoglobals // a table

// A slowRun is a run with slow statements over one way.
type slowRun struct {
	threads   int
	kind, by  string
	perSecond float64
	fast      [3]float64 // p50, p95 and p99 in ms
	slow      float64    // p50 in ms
}

// slowQuantiles are those of slowRun.fast.
var slowQuantiles = [...]float64{0.5, 0.95, 0.99} //nolint:gochecknoglobals // a table

// measureSlow measures the latency of fast reads, of which one in slowEvery is slow.
func (l *lab) measureSlow(ctx context.Context, out io.Writer) error {
	for _, s := range [...]*testmysql.Server{l.server, l.threads} {
		if s == nil {
			continue
		}
		if err := s.Exec(fmt.Sprintf(slowView, slowEvery, slowTime.Seconds())); err != nil {
			return err
		}
	}
	kinds := []string{slowNone, slowOther, slowSame}
	var runs []slowRun
	for _, threads := range l.options.Threads {
		for _, kind := range kinds {
			cell, err := l.slowCell(ctx, threads, kind)
			if err != nil {
				return fmt.Errorf("%d threads, slow: %s: %w", threads, kind, err)
			}
			runs = append(runs, cell...)
		}
	}
	return writeSlow(out, l.options, kinds, runs)
}

// slowCell makes the runs over all ways, as measureCell.
func (l *lab) slowCell(ctx context.Context, threads int, kind string) (runs []slowRun, err error) {
	ways, err := l.openWays(ctx)
	defer func() { err = errors.Join(err, closeWays(ways)) }()
	if err != nil {
		return nil, err
	}
	for round := range l.options.Rounds {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			run, err := l.slowRun(ctx, w, threads, kind)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.by, err)
			}
			fmt.Fprintf(l.log, "%d threads, slow: %s, round %d: %s: %.0f qps, p50 %.2f, p95 %.2f, p99 %.2f ms\n",
				threads, kind, round+1, w.by, run.perSecond, run.fast[0], run.fast[1], run.fast[2])
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// slowRun connects, executes statements for the time of the warm-up and of the run, and evaluates the latter.
func (l *lab) slowRun(ctx context.Context, w *way, threads int, kind string) (run slowRun, err error) {
	clients := make([]*slowClient, threads)
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.conn.Close()
			}
		}
	}()
	dials, dialCtx := errgroup.WithContext(ctx)
	dials.SetLimit(idleDials)
	for i := range clients {
		dials.Go(func() error {
			conn, err := l.dial(dialCtx, w.addr)
			if err == nil {
				clients[i] = &slowClient{conn: conn, rnd: rand.New(rand.NewPCG(1, uint64(i))), rows: l.options.Rows, kind: kind}
			}
			return err
		})
	}
	if err := dials.Wait(); err != nil {
		return run, err
	}
	from := time.Now().Add(l.options.WarmUp)
	until := from.Add(l.options.Measured)
	var all sync.Mutex
	var fast, slow []float64
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range clients {
		group.Go(func() error {
			if err := c.run(groupCtx, from, until); err != nil {
				return err
			}
			all.Lock()
			defer all.Unlock()
			fast, slow = append(fast, c.fast...), append(slow, c.slow...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return run, err
	}
	if len(fast) == 0 {
		return run, errors.New("no statement was fast")
	}
	run = slowRun{threads: threads, kind: kind, by: w.by, perSecond: float64(len(fast)+len(slow)) / l.options.Measured.Seconds()}
	for i, q := range slowQuantiles {
		run.fast[i] = quantileOf(fast, q)
	}
	if len(slow) > 0 {
		run.slow = quantileOf(slow, 0.5)
	}
	return run, nil
}

// A slowClient executes statements one after the other, and records their latencies in ms.
type slowClient struct {
	conn       *mysqlconn.Client
	rnd        *rand.Rand
	rows       int
	kind       string
	fast, slow []float64
}

// run executes statements until a time. Those that start before from are not recorded.
func (c *slowClient) run(ctx context.Context, from, until time.Time) error {
	var sql []byte
	for {
		text, slow := c.next(sql[:0])
		sql = text
		start := time.Now()
		if !start.Before(until) {
			return nil
		}
		rows := 0
		if _, err := c.conn.Query(ctx, string(sql), func(mysqlwire.TextRow) error { rows++; return nil }); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		if rows != 1 {
			return fmt.Errorf("%s: %d rows", sql, rows)
		}
		switch ms := float64(time.Since(start)) / float64(time.Millisecond); {
		case start.Before(from):
		case slow:
			c.slow = append(c.slow, ms)
		default:
			c.fast = append(c.fast, ms)
		}
	}
}

// next appends the next statement to b, and reports whether it is slow.
func (c *slowClient) next(b []byte) (sql []byte, slow bool) {
	slow = c.kind != slowNone && c.rnd.IntN(slowEvery) == 0
	id := 1 + c.rnd.IntN(c.rows-1)
	if slow {
		id = slowEvery * (1 + c.rnd.IntN(c.rows/slowEvery))
	} else if id%slowEvery == 0 {
		id--
	}
	text := slowTexts[0]
	if slow && c.kind == slowOther {
		text = slowTexts[1]
	}
	return strconv.AppendInt(append(b, text...), int64(id), 10), slow
}

// quantileOf returns the value that a fraction q of the values does not exceed.
func quantileOf(values []float64, q float64) float64 {
	slices.Sort(values)
	n := len(values)
	return values[min(n-1, int(q*float64(n)))]
}

// writeSlow writes the medians of the rounds as Markdown.
func writeSlow(out io.Writer, o *Options, kinds []string, runs []slowRun) error {
	fmt.Fprintf(out, "Medians over %d × %v. One statement of %d is slow and takes %v; quantiles are those of the others.\n\n", o.Rounds, o.Measured, slowEvery, slowTime)
	t := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(t, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	row("threads", "slow", "by", "qps", "p50 ms", "p95 ms", "p99 ms", "p50 of the slow")
	row(slices.Concat(slices.Repeat([]string{"---"}, 3), slices.Repeat([]string{"---:"}, 5))...)
	for _, threads := range o.Threads {
		for _, kind := range kinds {
			for _, by := range o.Ways {
				of := func(digits int, f func(*slowRun) float64) string {
					var values []float64
					for i := range runs {
						if r := &runs[i]; r.threads == threads && r.kind == kind && r.by == by {
							values = append(values, f(r))
						}
					}
					return strconv.FormatFloat(programs.Median(values), 'f', digits, 64)
				}
				cells := []string{strconv.Itoa(threads), kind, by, of(0, func(r *slowRun) float64 { return r.perSecond })}
				for i := range slowQuantiles {
					cells = append(cells, of(2, func(r *slowRun) float64 { return r.fast[i] }))
				}
				slow := "–"
				if kind != slowNone {
					slow = of(2, func(r *slowRun) float64 { return r.slow })
				}
				row(append(cells, slow)...)
			}
		}
	}
	return t.Flush()
}
