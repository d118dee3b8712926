package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// OLTPOptions configures `tare bench oltp`.
type OLTPOptions struct {
	DSN      string // user:password@tcp(host:port)/database
	Workload string // one of Workloads

	Threads    int
	Rate       float64 // operations per second of all threads; 0: as fast as responses arrive
	Warmup     time.Duration
	Duration   time.Duration // of each run
	Count      int           // number of runs
	Prepared   bool
	Tables     int // of the sysbench-like workloads
	Rows       int // in each table
	Warehouses int // of tpcc
	Drop       bool

	// Trace is a query log to replay instead of the workload, Speed the speed-up over the recording; 0: each
	// connection as fast as responses arrive.
	Trace string
	Speed float64

	Target  TargetOptions
	Profile string // directory for profiles; empty: none

	Progress io.Writer // plain lines; nil: none
}

// DefaultOLTPOptions returns the options of a short run.
func DefaultOLTPOptions() OLTPOptions {
	return OLTPOptions{
		Workload: "point-select", Threads: 8, Warmup: 2 * time.Second, Duration: 10 * time.Second, Count: 1,
		Tables: 1, Rows: 100_000, Warehouses: 1, Speed: 1,
	}
}

// Bounds of a run: the statements of each table are in memory, and the result of each run.
const (
	maxTables     = 10_000
	maxRows       = 1_000_000_000
	maxWarehouses = 100_000
	maxCount      = 10_000
)

// Validate returns an error if o is invalid.
func (o *OLTPOptions) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.DSN == "" {
		wrong("--dsn is missing: want %s", dsnForm)
	} else if _, err := newConnector(o.DSN, o.Prepared); err != nil {
		wrong("--dsn: %w", err)
	}
	sized := 1 <= o.Tables && o.Tables <= maxTables && sbRangeSize <= o.Rows && o.Rows <= maxRows && 1 <= o.Warehouses && o.Warehouses <= maxWarehouses
	if !sized {
		wrong("--tables %d, --rows %d, --warehouses %d: want 1 to %d, %d to %d and 1 to %d",
			o.Tables, o.Rows, o.Warehouses, maxTables, sbRangeSize, maxRows, maxWarehouses)
	}
	if sized && o.Trace == "" {
		if _, err := newWorkload(o); err != nil {
			errs = append(errs, err)
		}
	}
	if o.Threads < 1 || o.Threads > 10_000 {
		wrong("--threads %d: want 1 to 10000", o.Threads)
	}
	if o.Rate < 0 || o.Rate > 1e9 || math.IsNaN(o.Rate) {
		wrong("--rate %v: want operations a second, or 0 for a closed loop", o.Rate)
	}
	if o.Duration <= 0 || o.Warmup < 0 {
		wrong("--duration %v, --warmup %v: want more than 0, and not less than 0", o.Duration, o.Warmup)
	}
	if o.Count < 1 || o.Count > maxCount {
		wrong("--count %d: want 1 to %d", o.Count, maxCount)
	}
	if o.Speed < 0 || math.IsNaN(o.Speed) || math.IsInf(o.Speed, 0) {
		wrong("--speed %v: want a factor, or 0 for as fast as the answers come", o.Speed)
	}
	if err := o.Target.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.Profile != "" && o.Target.Metrics == "" {
		wrong("--profile needs --metrics, from whose host /debug/pprof is read")
	}
	return errors.Join(errs...)
}

// progressf writes one line of progress.
func progressf(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}

// OLTP runs the benchmark.
func OLTP(ctx context.Context, o OLTPOptions) (result Result, err error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	t, err := newTarget(ctx, o.Target)
	if err != nil {
		return Result{}, err
	}
	defer t.close()
	if o.Trace != "" {
		return replay(ctx, &o, t)
	}
	w, err := newWorkload(&o)
	if err != nil {
		return Result{}, err
	}
	c, err := newConnector(o.DSN, o.Prepared)
	if err != nil {
		return Result{}, err
	}
	finish, err := prepareTables(ctx, &o, c, w)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, finish()) }()

	l, err := startLoad(ctx, c, o.Threads, o.Rate, w.op)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	result = Result{Name: "OLTP/" + w.name, Threads: o.Threads}
	progressf(o.Progress, "warming up for %v", o.Warmup)
	if err := l.wait(ctx, o.Warmup); err != nil {
		return result, err
	}
	for n := range o.Count {
		progressf(o.Progress, "run %d of %d, %v", n+1, o.Count, o.Duration)
		run, err := measure(ctx, l, t, o.Duration)
		if err != nil {
			return result, err
		}
		qps, _ := run.value("queries/s")
		p99, _ := run.value("p99-ns")
		progressf(o.Progress, "run %d of %d: %.0f queries/s, p99 %v", n+1, o.Count, qps, time.Duration(p99))
		result.Runs = append(result.Runs, run)
	}
	if o.Profile != "" {
		// Profiling has a cost for the target, so it gets a separate run.
		progressf(o.Progress, "profiling for %v", o.Duration)
		if err := t.keepProfiles(ctx, o.Profile, o.Duration); err != nil {
			return result, err
		}
		progressf(o.Progress, "profiles are in %s", o.Profile)
	}
	return result, nil
}

// prepareTables creates the workload's tables; finish removes them if requested.
func prepareTables(ctx context.Context, o *OLTPOptions, c *connector, w *workload) (finish func() error, err error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	// Filling statements are long and all different: preparing them is useless.
	err = w.prepare(ctx, s, c, func(format string, args ...any) { progressf(o.Progress, format, args...) })
	if err := errors.Join(err, s.close()); err != nil {
		return nil, err
	}
	return func() error {
		if !o.Drop {
			return nil
		}
		ctx := context.WithoutCancel(ctx)
		s, err := c.connect(ctx)
		if err != nil {
			return err
		}
		progressf(o.Progress, "dropping the tables")
		return errors.Join(w.drop(ctx, s), s.close())
	}, nil
}

var errNoOperation = errors.New("no operation ended")

// measure measures one run under continuous load.
func measure(ctx context.Context, l *load, t *target, d time.Duration) (Run, error) {
	from, err := t.read(ctx)
	if err != nil {
		return Run{}, err
	}
	begin := time.Now() // before the first cut, as the end is after the last: no thread is busier than the run
	l.cut()             // discards earlier results
	if err := l.wait(ctx, d); err != nil {
		return Run{}, err
	}
	to, err := t.read(ctx)
	if err != nil {
		return Run{}, err
	}
	c := l.cut()
	seconds := time.Since(begin).Seconds()
	if c.operations == 0 {
		return Run{}, fmt.Errorf("%w within %v: measure for longer", errNoOperation, d)
	}
	run := Run{Seconds: seconds, Operations: c.operations}
	c.addTo(&run)
	if l.every > 0 {
		run.add("behind-ns", float64(l.behind()))
	}
	t.addWeight(&run, from, to, c.queries)
	return run, nil
}

// addTo adds the metrics of latency and throughput. ns/op comes first, as in Go.
func (c *counts) addTo(run *Run) {
	h := &c.latency
	run.add("ns/op", float64(h.Nanos)/float64(max(h.Count(), 1)))
	run.add("p50-ns", float64(h.quantile(0.5)))
	run.add("p99-ns", float64(h.quantile(0.99)))
	run.add("p99.9-ns", float64(h.quantile(0.999)))
	run.add("max-ns", float64(h.longest))
	run.add("ops/s", float64(c.operations)/run.Seconds)
	run.add("queries/s", float64(c.queries)/run.Seconds)
	run.add("rows/s", float64(c.rows)/run.Seconds)
	run.add("conflicts/s", float64(c.conflicts)/run.Seconds)
}
