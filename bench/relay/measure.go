package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A lab has a server with a table, and the tools to run sysbench against it.
type lab struct {
	options *Options
	tools   tools
	server  *testmysql.Server
	threads *testmysql.Server // with a thread pool; nil unless byThreads is measured
	dir     string            // for configurations and logs
	log     io.Writer         // for progress

	certificate, key string // files, for TLS
}

// dial connects as sysbench does.
func (l *lab) dial(ctx context.Context, addr string) (*mysqlconn.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	config := mysqlconn.Config{
		Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, Database: testmysql.DefaultSchema, TLSMode: mysqlconn.TLSDisabled,
		ServerKey: mysqlconn.ServerKey{Request: true},
	}
	if l.options.TLS {
		config.TLSMode = mysqlconn.TLSRequired
	}
	return mysqlconn.Dial(ctx, config)
}

// A Run is one run of sysbench over one way. Values of the proxy are 0 for the direct way.
type Run struct {
	Workload string `json:"workload"`
	Threads  int    `json:"threads"`
	Round    int    `json:"round"`
	By       string `json:"by"`

	Queries int     `json:"queries"`
	Seconds float64 `json:"seconds"`
	QPS     float64 `json:"qps"`
	P50     float64 `json:"p50_ms"` // of an event: a statement, or a transaction
	P95     float64 `json:"p95_ms"`
	P99     float64 `json:"p99_ms"`

	ServerCPU int64 `json:"server_cpu_ns"`

	CPU         int64 `json:"cpu_ns"` // of the proxy, like all below except Foreign
	User        int64 `json:"user_ns"`
	Sys         int64 `json:"sys_ns"`
	Voluntary   int64 `json:"voluntary_switches"`
	Involuntary int64 `json:"involuntary_switches"`
	Queued      int64 `json:"queued_ns"` // time that its runnable threads waited for a CPU
	RSS         int64 `json:"rss_bytes"`
	PeakRSS     int64 `json:"peak_rss_bytes"` // since the cell's start

	// Foreign is the fraction of all CPUs used by processes other than sysbench, the proxy and the server,
	// including time stolen by the host.
	Foreign float64 `json:"foreign_cpu"`
}

// measureAll measures every cell.
func (l *lab) measureAll(ctx context.Context) (*Report, error) {
	report, err := newReport(ctx, l.options, l.tools, l.server.Pid())
	if err != nil {
		return nil, err
	}
	for _, workload := range l.options.Workloads {
		for _, threads := range l.options.Threads {
			if l.options.ServerMemory {
				memory, err := l.measureMemory(ctx, workload, threads)
				if err != nil {
					return nil, fmt.Errorf("memory of %s with %d threads: %w", workload, threads, err)
				}
				report.Memory = append(report.Memory, memory...)
			}
			runs, err := l.measureCell(ctx, workload, threads)
			if err != nil {
				return nil, fmt.Errorf("%s with %d threads: %w", workload, threads, err)
			}
			report.Runs = append(report.Runs, runs...)
		}
	}
	return report, nil
}

// measureCell makes all runs of a workload at one number of threads.
func (l *lab) measureCell(ctx context.Context, workload string, threads int) (runs []Run, err error) {
	ways, err := l.openWays(ctx)
	defer func() { err = errors.Join(err, closeWays(ways)) }()
	if err != nil {
		return nil, err
	}
	if l.options.WarmUp > 0 {
		for _, w := range ways {
			fmt.Fprintf(l.log, "%s, %d threads, warm-up: %s\n", workload, threads, w.by)
			if _, err := l.sysbench(workload, threads, w).run(ctx, l.options.WarmUp, nil, nil); err != nil {
				return nil, fmt.Errorf("%s: %w", w.by, err)
			}
		}
	}
	for round := range l.options.Rounds {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			run, err := l.measure(ctx, w, workload, threads)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.by, err)
			}
			run.Round = round + 1
			fmt.Fprintf(l.log, "%s, %d threads, round %d: %s: %.0f qps, %.2f µs CPU a query, others used %.0f %%\n",
				workload, threads, run.Round, w.by, run.QPS, run.perQuery(run.CPU)/1e3, 100*run.Foreign)
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// measure makes one run.
func (l *lab) measure(ctx context.Context, w *way, workload string, threads int) (Run, error) {
	m := meter{server: w.server.Pid()}
	pids := []int{m.server}
	if w.process != nil {
		m.proxy = w.process.PID()
		pids = append(pids, m.proxy)
	}
	if w.legs != nil {
		pids = append(pids, w.legs.PID())
	}
	stop := l.collect(ctx, w)
	r, err := l.sysbench(workload, threads, w).run(ctx, l.options.Measured,
		func(pid int) error {
			m.all = append(pids, pid)
			return m.read(&m.before)
		},
		func() error { return m.read(&m.after) })
	if err := errors.Join(err, stop()); err != nil {
		return Run{}, err
	}
	if r.errors > 0 || r.reconnects > 0 {
		return Run{}, fmt.Errorf("sysbench saw %d errors and reconnected %d times", r.errors, r.reconnects)
	}
	if w.log != "" {
		// Tare appends, so it continues at the new end; otherwise the log would fill the disk.
		if err := os.Truncate(w.log, 0); err != nil {
			return Run{}, err
		}
	}
	run := m.run()
	run.Workload, run.Threads, run.By = workload, threads, w.by
	run.Queries, run.Seconds, run.QPS = r.queries, r.seconds, r.perSecond
	run.P50, run.P95, run.P99 = r.quantile(0.5), r.quantile(0.95), r.quantile(0.99)
	return run, nil
}

// A meter takes the readings of a run.
type meter struct {
	server        int // process id
	proxy         int // process id; 0 for none
	all           []int
	before, after moment
}

type moment struct {
	at      time.Time
	server  time.Duration // CPU time
	proxy   reading
	machine machine
}

func (m *meter) read(to *moment) error {
	var err error
	to.at = time.Now()
	if to.machine, err = readMachine(m.all...); err != nil {
		return err
	}
	if to.server, err = readCPU(m.server); err != nil {
		return err
	}
	if m.proxy != 0 {
		to.proxy, err = readProcess(m.proxy)
	}
	return err
}

// run returns the differences between the readings.
func (m *meter) run() Run {
	a, b := &m.after, &m.before
	user, sys := a.proxy.usage.Since(b.proxy.usage)
	total := float64(a.at.Sub(b.at)) * float64(runtime.NumCPU())
	others := a.machine.busy - b.machine.busy - (a.machine.ours - b.machine.ours)
	return Run{
		ServerCPU: int64(a.server - b.server),
		CPU:       int64(a.proxy.usage.CPU - b.proxy.usage.CPU), User: int64(user), Sys: int64(sys),
		Voluntary:   a.proxy.tasks.voluntary - b.proxy.tasks.voluntary,
		Involuntary: a.proxy.tasks.involuntary - b.proxy.tasks.involuntary,
		Queued:      int64(a.proxy.tasks.queued - b.proxy.tasks.queued),
		RSS:         a.proxy.usage.RSS, PeakRSS: a.proxy.usage.PeakRSS,
		Foreign: max(0, float64(others)/total), // the accounts may differ by a tick or two
	}
}

// perQuery divides a value by the run's statements.
func (r *Run) perQuery(n int64) float64 { return float64(n) / float64(r.Queries) }

// cell returns a cell's runs over one way, in the order of the rounds.
func (r *Report) cell(workload string, threads int, by string) []Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool {
		return run.Workload != workload || run.Threads != threads || run.By != by
	})
}
