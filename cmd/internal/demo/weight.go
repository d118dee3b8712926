package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/taredb/tare/internal/weigh"
)

// metricStatements is the gateway's counter of statements.
const metricStatements = "tare_statements_total"

// tareScrapes is the number of scrapes measured before the workload starts.
const tareScrapes = 5

// A reading is the values of all counters of the gateway at one time.
type reading struct {
	statements float64
	cpu        time.Duration
	bytes      float64
	objects    float64
}

func (r reading) minus(s reading) reading {
	return reading{r.statements - s.statements, r.cpu - s.cpu, r.bytes - s.bytes, r.objects - s.objects}
}

// A scale measures the gateway's cost. Each scrape costs the gateway a response, which at the demo's few
// statements per second would be most of the measured cost; so the scale first measures the cost of a scrape
// and then subtracts it: the tare.
type scale struct {
	client  *http.Client
	url     string
	process *weigh.Process

	zero      reading // at the start of the workload
	latest    reading
	response  reading // cost of one scrape
	responses int     // since zero
}

// newScale measures the cost of a scrape and starts measuring the gateway.
func newScale(ctx context.Context, client *http.Client, base string, pid int) (*scale, error) {
	process, err := weigh.Open(pid)
	if err != nil {
		return nil, fmt.Errorf("weigh the gateway: %w", err)
	}
	s := &scale{client: client, url: base + "/metrics", process: process}
	var first, last reading
	for i := range tareScrapes + 2 { // the first response grows buffers
		r, err := s.read(ctx)
		if err != nil {
			return nil, fmt.Errorf("weigh the gateway: %w", err)
		}
		if i == 1 {
			first = r
		}
		last = r
	}
	cost := last.minus(first)
	s.response = reading{cpu: cost.cpu / tareScrapes, bytes: cost.bytes / tareScrapes, objects: cost.objects / tareScrapes}
	s.zero, s.latest = last, last
	return s, nil
}

// weigh reads the gateway's counters.
func (s *scale) weigh(ctx context.Context) error {
	r, err := s.read(ctx)
	if err != nil {
		return fmt.Errorf("weigh the gateway: %w", err)
	}
	s.latest = r
	s.responses++
	return nil
}

func (s *scale) read(ctx context.Context) (reading, error) {
	scrape, err := weigh.ScrapeMetrics(ctx, s.client, s.url)
	if err != nil {
		return reading{}, err
	}
	cpu, err := s.process.CPU()
	if err != nil {
		return reading{}, err
	}
	runtime, err := scrape.Runtime()
	if err != nil {
		return reading{}, err
	}
	statements, ok := scrape.Sum(metricStatements)
	if !ok {
		return reading{}, errors.New("the gateway exports no " + metricStatements)
	}
	return reading{statements, cpu, runtime.HeapAllocBytes, runtime.HeapAllocObjects + runtime.TinyAllocs}, nil
}

// statements returns the number of statements that the gateway counted since the start of the workload.
func (s *scale) statements() uint64 { return uint64(s.latest.minus(s.zero).statements) }

// result returns the cost so far. The subtracted part can exceed the measurement by noise only, which then
// yields 0.
func (s *scale) result() WeightResult {
	total := s.latest.minus(s.zero)
	n := float64(s.responses)
	w := WeightResult{
		Scrapes: s.responses, ScrapeCPU: micros(s.response.cpu), ScrapeHeap: s.response.bytes, ScrapeAllocs: s.response.objects,
	}
	if total.statements > 0 {
		w.CPU = max(0, micros(total.cpu)-n*micros(s.response.cpu)) / total.statements
		w.Heap = max(0, total.bytes-n*s.response.bytes) / total.statements
		w.Allocs = max(0, total.objects-n*s.response.objects) / total.statements
	}
	if usage, err := s.process.Usage(); err == nil {
		w.RSS = usage.RSS
	}
	return w
}
