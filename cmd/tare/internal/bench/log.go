package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/taredb/tare/internal/httpserver"
	"github.com/taredb/tare/internal/weigh"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// LogOptions configures `tare bench log`.
type LogOptions struct {
	Sinks   []string // of LogSinks
	Formats []string // json, text
	Readers []int    // numbers of concurrent readers of the HTTP stream

	Rate     float64 // records per second; 0: as fast as possible
	Duration time.Duration
	Count    int
	Dir      string // directory of the file sink; empty: a temporary one

	Progress io.Writer
}

// LogSinks returns the names of the sinks.
func LogSinks() []string { return []string{"file", "discard"} }

// DefaultLogOptions returns the options of a short run of every case.
func DefaultLogOptions() LogOptions {
	return LogOptions{
		Sinks: LogSinks(), Formats: []string{"json", "text"}, Readers: []int{0, 1, 3},
		Duration: time.Second, Count: 1,
	}
}

// Validate returns an error if o is invalid.
func (o *LogOptions) Validate() error {
	var errs []error
	if len(o.Sinks) == 0 || len(o.Formats) == 0 || len(o.Readers) == 0 {
		errs = append(errs, errors.New("--sinks, --formats and --readers: want at least one of each"))
	}
	for _, s := range o.Sinks {
		if !slices.Contains(LogSinks(), s) {
			errs = append(errs, fmt.Errorf("--sinks: unknown sink %q: want file or discard", s))
		}
	}
	for _, f := range o.Formats {
		if _, err := querylog.ParseFormat(f); err != nil {
			errs = append(errs, fmt.Errorf("--formats: %w", err))
		}
	}
	for _, n := range o.Readers {
		if n < 0 || n > 1000 {
			errs = append(errs, fmt.Errorf("--readers %d: want 0 to 1000", n))
		}
	}
	if o.Rate < 0 || o.Rate > 1e9 || math.IsNaN(o.Rate) {
		errs = append(errs, fmt.Errorf("--rate %v: want records a second, or 0 for as many as are taken", o.Rate))
	}
	if o.Duration <= 0 || o.Count < 1 || o.Count > maxCount {
		errs = append(errs, fmt.Errorf("--duration %v, --count %d: want more than 0, and 1 to %d", o.Duration, o.Count, maxCount))
	}
	return errors.Join(errs...)
}

// Log measures the query log in isolation, in this process: a realistic record with three bind variables,
// logged from one goroutine.
func Log(ctx context.Context, o LogOptions) (results []Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tare-bench-log-"); err != nil {
			return nil, fmt.Errorf("make a directory for the log: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	for _, sink := range o.Sinks {
		for _, format := range o.Formats {
			for _, readers := range o.Readers {
				r := Result{Name: fmt.Sprintf("Log/%s/%s/readers=%d", sink, format, readers), Threads: 1}
				for range o.Count {
					run, err := logRun(ctx, &o, dir, sink, format, readers)
					if err != nil {
						return results, fmt.Errorf("%s: %w", r.Name, err)
					}
					r.Runs = append(r.Runs, run)
				}
				progressf(o.Progress, "%s: %s ns of CPU a record", r.Name, grouped(median(r.values("cpu-ns/op"))))
				results = append(results, r)
			}
		}
	}
	return results, nil
}

// logRun performs one run of one case, with a separate logger.
func logRun(ctx context.Context, o *LogOptions, dir, sink, format string, readers int) (run Run, err error) {
	f, err := querylog.ParseFormat(format)
	if err != nil {
		return Run{}, err
	}
	so := querylog.SinkOptions{Name: sink, Format: f, Writer: io.Discard}
	if sink == "file" {
		so.Path, so.Writer = filepath.Join(dir, "query.log"), nil
		defer func() { err = errors.Join(err, os.Remove(so.Path)) }()
	}
	logger, err := querylog.New(querylog.Options{Sinks: []querylog.SinkOptions{so}})
	if err != nil {
		return Run{}, err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, logger.Close(ctx))
		}
	}()
	stopReaders, err := attachReaders(ctx, logger, format, readers)
	if err != nil {
		return Run{}, err
	}
	defer func() { err = errors.Join(err, stopReaders()) }()

	self, err := weigh.Open(os.Getpid())
	if err != nil {
		return Run{}, err
	}
	from, err := readSelf(self)
	if err != nil {
		return Run{}, err
	}
	n := offer(ctx, logger, o.Rate, o.Duration)
	to, err := readSelf(self)
	if err != nil {
		return Run{}, err
	}
	ended = true
	if err := errors.Join(ctx.Err(), logger.Close(ctx)); err != nil {
		return Run{}, err
	}
	return logMetrics(logger.Stats(), from, to, n, o.Rate), nil
}

// readSelf reads this process after a collection, which updates its CPU classes.
func readSelf(self *weigh.Process) (r reading, err error) {
	runtime.GC()
	r.runtime = weigh.OwnRuntime()
	r.usage, err = self.Usage()
	r.at = time.Now()
	return r, err
}

// offer logs records for a while and returns their number. With a rate, each record is due at its time; it
// waits per batch, since a timer is slower than a record.
func offer(ctx context.Context, logger *querylog.Logger, rate float64, d time.Duration) uint64 {
	const batch = 64
	rec := sampleRecord()
	timer := time.NewTimer(0)
	defer timer.Stop()
	began := time.Now()
	var n uint64
	for now := began; now.Sub(began) < d && ctx.Err() == nil; now = time.Now() {
		for range batch {
			n++
			rec.Start = now
			rec.ConnectionID = 1 + n%batch
			rec.Total = time.Duration(200_000 + n%1000*137)
			logger.Log(rec)
		}
		if rate > 0 {
			timer.Reset(time.Until(began.Add(time.Duration(float64(n) / rate * float64(time.Second)))))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	}
	return n
}

func logMetrics(st querylog.Stats, from, to reading, n uint64, rate float64) Run {
	run := Run{Seconds: to.at.Sub(from.at).Seconds(), Operations: n}
	records := float64(n)
	user, sys := to.usage.Since(from.usage)
	if rate == 0 { // otherwise it is the rate's inverse
		run.add("ns/op", run.Seconds*1e9/records)
	}
	run.add("cpu-ns/op", float64(user+sys)/records)
	bytes := to.runtime.HeapAllocBytes - from.runtime.HeapAllocBytes
	allocs := to.objects() - from.objects()
	run.add("B/op", bytes/records)
	run.add("allocs/op", allocs/records)
	run.add("UserCPU/s", user.Seconds()/run.Seconds)
	run.add("SysCPU/s", sys.Seconds()/run.Seconds)
	run.add("GCCPU/s", (to.runtime.GCCPU-from.runtime.GCCPU)/run.Seconds)
	run.add("KB/s", bytes/kilobyte/run.Seconds)
	run.add("allocs/s", allocs/run.Seconds)
	sink := st.Sinks[0]
	run.add("written-MB/s", float64(sink.Bytes)/1e6/run.Seconds)
	run.add("dropped-%", 100*float64(sink.Dropped)/float64(max(1, sink.Offered)))
	return run
}

// sampleRecord returns a statement as logged by the gateway: a prepared SELECT with three values.
func sampleRecord() *querylog.Record {
	const normalized = "SELECT `id`, `name`, `total` FROM `orders` WHERE `customer_id` = ? AND `status` = ? AND `placed` > ? ORDER BY `placed` DESC LIMIT ?"
	return &querylog.Record{
		Plan: 700, Upstream: 180 * time.Microsecond, FirstByte: 160 * time.Microsecond,
		Client: netip.MustParseAddrPort("10.1.2.3:51234"), User: "app", Schema: "shop", Backend: "mysql://10.1.2.9:3306",
		Command: mysqlwire.ComStmtExecute, StatementType: "select",
		Digest:     [16]byte{0x4b, 0x2d, 0x11, 0x0c, 0xee, 0x93, 0x40, 0x55, 0x8e, 0x71, 0x3a, 0x09, 0x5c, 0xf2, 0x17, 0xd8},
		Normalized: []byte(normalized),
		Binds: []mysqlwire.BinaryValue{
			{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}, Data: binary.LittleEndian.AppendUint64(nil, 48_151_623)},
			{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}, Data: []byte("shipped")},
			{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}, Data: []byte("2025-10-01 00:00:00")},
		},
		RowsReturned: 20, BytesIn: 64, BytesOut: 2048, PlanCached: true, TransactionID: 7, StatementID: 3,
	}
}

// attachReaders serves the logger's stream on a free port and reads it with some clients.
func attachReaders(ctx context.Context, logger *querylog.Logger, format string, readers int) (stop func() error, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the log stream: %w", err)
	}
	srv := httpserver.New(logger, httpserver.Options{Log: slog.New(slog.DiscardHandler)})
	var all sync.WaitGroup
	served := make(chan error, 1)
	all.Go(func() { served <- srv.Serve(l) })
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: readers}}
	stop = func() error {
		cancel()
		err := srv.Close()
		all.Wait()
		client.CloseIdleConnections()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}
	for range readers {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/?format="+format, nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read the log stream: %w", err), stop())
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read the log stream: %w", err), stop())
		}
		all.Go(func() {
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body) // it ends when stop is called
		})
		if resp.StatusCode != http.StatusOK {
			return nil, errors.Join(fmt.Errorf("read the log stream: status %s", resp.Status), stop())
		}
	}
	return stop, nil
}
