package weigh

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/metrics"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxScrapeBytes bounds the size of one response; Tare's is a few tens of KiB.
const maxScrapeBytes = 16 << 20

// Runtime is a Go process' runtime data in /metrics. The comments name the metrics of package runtime/metrics
// behind the fields.
type Runtime struct {
	HeapAllocBytes   float64 // /gc/heap/allocs:bytes, a counter
	HeapAllocObjects float64 // /gc/heap/allocs:objects, a counter; objects of the tiny allocator share one
	TinyAllocs       float64 // /gc/heap/tiny/allocs:objects, a counter

	HeapInUse float64 // /memory/classes/heap/objects:bytes, live and dead but not yet swept

	// CPU seconds by class, as of the latest garbage collection.
	GCCPU   float64 // /cpu/classes/gc/total:cpu-seconds
	IdleCPU float64 // /cpu/classes/idle:cpu-seconds

	GCCycles float64 // /gc/cycles/total:gc-cycles
}

// A Scrape is one response of /metrics.
type Scrape struct {
	families map[string]*dto.MetricFamily
}

// ScrapeMetrics requests url once.
func ScrapeMetrics(ctx context.Context, client *http.Client, url string) (*Scrape, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics of %s: status %s", url, resp.Status)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "text/plain" {
		return nil, fmt.Errorf("read metrics of %s: Content-Type %q, want text/plain", url, resp.Header.Get("Content-Type"))
	}
	s, err := parseScrape(io.LimitReader(resp.Body, maxScrapeBytes))
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", url, err)
	}
	return s, nil
}

func parseScrape(r io.Reader) (*Scrape, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, err
	}
	return &Scrape{families: families}, nil
}

// Sum sums a counter, gauge or untyped metric over all its label values. The second result reports whether
// the response has the metric.
func (s *Scrape) Sum(name string) (float64, bool) {
	f, ok := s.families[name]
	if !ok {
		return 0, false
	}
	var sum float64
	for _, m := range f.GetMetric() {
		switch {
		case m.GetCounter() != nil:
			sum += m.GetCounter().GetValue()
		case m.GetGauge() != nil:
			sum += m.GetGauge().GetValue()
		case m.GetUntyped() != nil:
			sum += m.GetUntyped().GetValue()
		}
	}
	return sum, true
}

// Runtime returns the Go runtime's metrics. It returns an error for a process without any of them, such as
// one that is not written in Go.
func (s *Scrape) Runtime() (Runtime, error) {
	var r Runtime
	missing := 0
	fields := []struct {
		to    *float64
		names [2]string // the collector over runtime/metrics, then the one over MemStats
	}{
		{&r.HeapAllocBytes, [2]string{"go_gc_heap_allocs_bytes_total", "go_memstats_alloc_bytes_total"}},
		{&r.HeapAllocObjects, [2]string{"go_gc_heap_allocs_objects_total", "go_memstats_mallocs_total"}},
		{&r.TinyAllocs, [2]string{"go_gc_heap_tiny_allocs_objects_total"}},
		{&r.HeapInUse, [2]string{"go_memory_classes_heap_objects_bytes", "go_memstats_heap_alloc_bytes"}},
		{&r.GCCPU, [2]string{"go_cpu_classes_gc_total_cpu_seconds_total"}},
		{&r.IdleCPU, [2]string{"go_cpu_classes_idle_cpu_seconds_total"}},
		{&r.GCCycles, [2]string{"go_gc_cycles_total_gc_cycles_total"}},
	}
	for _, f := range fields {
		v, ok := s.Sum(f.names[0])
		if !ok && f.names[1] != "" {
			v, ok = s.Sum(f.names[1])
		}
		if !ok {
			missing++
		}
		*f.to = v
	}
	if missing == len(fields) {
		return Runtime{}, fmt.Errorf("the process exports no metrics of a Go runtime (%s and others)", fields[0].names[0])
	}
	return r, nil
}

// OwnRuntime reads the same metrics of this process, from runtime/metrics.
func OwnRuntime() Runtime {
	var r Runtime
	fields := []*float64{&r.HeapAllocBytes, &r.HeapAllocObjects, &r.TinyAllocs, &r.HeapInUse, &r.GCCPU, &r.IdleCPU, &r.GCCycles}
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/tiny/allocs:objects"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	for i, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindUint64:
			*fields[i] = float64(s.Value.Uint64())
		case metrics.KindFloat64:
			*fields[i] = s.Value.Float64()
		}
	}
	return r
}
