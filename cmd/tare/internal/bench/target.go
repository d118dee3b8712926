package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/taredb/tare/internal/weigh"
)

// TargetOptions identify the process to measure. Both are optional; metrics that require a missing one are
// omitted.
type TargetOptions struct {
	PID     int    // its process id on this machine; 0: none
	Metrics string // the URL of its /metrics; empty: none
}

// Validate returns an error if o is invalid.
func (o *TargetOptions) Validate() error {
	if o.PID < 0 {
		return fmt.Errorf("--pid %d: want a process id", o.PID)
	}
	if o.Metrics == "" {
		return nil
	}
	u, err := url.Parse(o.Metrics)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("--metrics %s: want a URL such as http://127.0.0.1:8316/metrics", o.Metrics)
	}
	return nil
}

const (
	scrapeTimeout = 10 * time.Second
	collectPath   = "/debug/pprof/heap?gc=1"
)

// A target is the process being measured.
type target struct {
	process *weigh.Process // nil without a process id
	metrics string
	base    string // base URL of its other pages
	client  *http.Client
	collect bool // it serves /debug/pprof, which can trigger a collection
	cost    tare // of one reading
}

// A tare is the cost of a reading for the target. One reading falls into each run and is subtracted.
type tare struct {
	cpu            time.Duration
	bytes, objects float64
}

// tareReadings is the number of readings compared to determine the cost of one.
const tareReadings = 4

// newTarget finds the process and checks that its pages respond.
func newTarget(ctx context.Context, o TargetOptions) (*target, error) {
	t := &target{metrics: o.Metrics, client: &http.Client{Transport: &http.Transport{}}}
	if o.PID != 0 {
		var err error
		if t.process, err = weigh.Open(o.PID); err != nil {
			return nil, err
		}
	}
	if o.Metrics != "" {
		u, err := url.Parse(o.Metrics)
		if err != nil {
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		t.base = u.Scheme + "://" + u.Host
		if _, err := t.scrape(ctx); err != nil {
			return nil, err
		}
		t.collect = t.fetch(ctx, collectPath, io.Discard) == nil
	}
	return t, t.weighReading(ctx)
}

// weighReading measures the cost of a reading: the minimum of a few, since the target may do other work.
func (t *target) weighReading(ctx context.Context) error {
	var before reading
	for i := range tareReadings {
		r, err := t.read(ctx)
		if err != nil {
			return err
		}
		c := tare{
			cpu:   r.usage.CPU - before.usage.CPU,
			bytes: r.runtime.HeapAllocBytes - before.runtime.HeapAllocBytes, objects: r.objects() - before.objects(),
		}
		if i == 1 || i > 1 && c.bytes < t.cost.bytes {
			t.cost = c
		}
		before = r
	}
	return nil
}

func (t *target) close() { t.client.CloseIdleConnections() }

// A reading is the values of all counters of the target at one time.
type reading struct {
	at      time.Time
	usage   weigh.Usage
	runtime weigh.Runtime
}

// objects returns the number of allocated objects, including tiny ones.
func (r *reading) objects() float64 { return r.runtime.HeapAllocObjects + r.runtime.TinyAllocs }

// read reads the target. The runtime updates its CPU classes only at a collection, so it triggers one first
// if the pages support that.
func (t *target) read(ctx context.Context) (reading, error) {
	var r reading
	if t.metrics != "" {
		if t.collect {
			if err := t.fetch(ctx, collectPath, io.Discard); err != nil {
				return r, err
			}
		}
		var err error
		if r.runtime, err = t.scrape(ctx); err != nil {
			return r, err
		}
	}
	if t.process != nil {
		var err error
		if r.usage, err = t.process.Usage(); err != nil {
			return r, err
		}
	}
	r.at = time.Now()
	return r, nil
}

func (t *target) scrape(ctx context.Context) (weigh.Runtime, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	s, err := weigh.ScrapeMetrics(ctx, t.client, t.metrics)
	if err != nil {
		return weigh.Runtime{}, err
	}
	r, err := s.Runtime()
	if err != nil {
		return weigh.Runtime{}, fmt.Errorf("read metrics of %s: %w", t.metrics, err)
	}
	return r, nil
}

// fetch copies one of the target's pages.
func (t *target) fetch(ctx context.Context, path string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+path, nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("read %s%s: status %s", t.base, path, resp.Status)
	}
	if _, err := io.Copy(to, resp.Body); err != nil {
		return fmt.Errorf("read %s%s: %w", t.base, path, err)
	}
	return nil
}

// kilobyte is the unit of KB/s.
const kilobyte = 1000

// addWeight adds the target's metrics between two readings, during which it served a number of queries.
func (t *target) addWeight(run *Run, from, to reading, queries uint64) {
	seconds, n := to.at.Sub(from.at).Seconds(), float64(queries)
	if t.process != nil {
		user, sys := to.usage.Since(from.usage)
		// The cost of a reading is nearly all user time: formatting text.
		user = max(0, user-t.cost.cpu)
		run.add("UserCPU/s", user.Seconds()/seconds)
		run.add("SysCPU/s", sys.Seconds()/seconds)
		if n > 0 {
			run.add("CPU-ns/query", float64(user+sys)/n)
		}
	}
	if t.metrics != "" {
		bytes := max(0, to.runtime.HeapAllocBytes-from.runtime.HeapAllocBytes-t.cost.bytes)
		allocs := max(0, to.objects()-from.objects()-t.cost.objects)
		run.add("IdleCPU/s", (to.runtime.IdleCPU-from.runtime.IdleCPU)/seconds)
		run.add("GCCPU/s", (to.runtime.GCCPU-from.runtime.GCCPU)/seconds)
		run.add("KB/s", bytes/kilobyte/seconds)
		run.add("allocs/s", allocs/seconds)
		if n > 0 {
			run.add("B/query", bytes/n)
			run.add("allocs/query", allocs/n)
		}
	}
	if t.process != nil {
		run.add("RSS-bytes", float64(to.usage.RSS))
	}
}

// keepProfiles requests a CPU profile and an allocation profile of the same period from the target, and
// writes them to dir.
func (t *target) keepProfiles(ctx context.Context, dir string, d time.Duration) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("keep profiles: %w", err)
	}
	seconds := strconv.Itoa(max(1, int(d.Round(time.Second).Seconds())))
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, p := range []struct{ file, path string }{
		{"cpu.pprof", "/debug/pprof/profile?seconds=" + seconds},
		{"allocs.pprof", "/debug/pprof/allocs?seconds=" + seconds},
	} {
		both.Go(func() { errs[i] = t.keep(ctx, filepath.Join(dir, p.file), p.path) })
	}
	both.Wait()
	return errors.Join(errs...)
}

func (t *target) keep(ctx context.Context, file, path string) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("keep profiles: %w", err)
	}
	if err := errors.Join(t.fetch(ctx, path, f), f.Close()); err != nil {
		return fmt.Errorf("keep profile %s: %w", file, err)
	}
	return nil
}
