package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/chart"
)

// Parameters of the drawn import: an ordinary workload that fills the cache, the import, and a pause.
const (
	hotPlans    = 110_000
	importCount = 60
	sampleEvery = 20 * time.Millisecond
	restFor     = 2 * time.Second
)

// A sample is the memory of the process at a point in time.
type sample struct {
	At   float64 `json:"at"`   // seconds since the start
	Heap int64   `json:"heap"` // bytes of objects, garbage included
	RSS  int64   `json:"rss"`  // bytes
}

// An imported is the result of an import in one process.
type imported struct {
	Samples   []sample `json:"samples"`
	Begin     float64  `json:"begin"` // start of the import, in seconds
	End       float64  `json:"end"`
	Idle      int64    `json:"idle"`      // heap in use before the cache is created
	Accounted int64    `json:"accounted"` // after the import
	Heap      int64    `json:"heap"`      // in use after the import
	HotLeft   float64  `json:"hot_left"`  // percent of the plans from before the import that are still cached
}

// importPart runs an import in this process and writes the result.
func importPart(spec []byte, _ io.Reader, w io.Writer) error {
	var name string
	if err := json.Unmarshal(spec, &name); err != nil {
		return fmt.Errorf("read the case: %w", err)
	}
	for _, v := range planVariants() {
		if v.name == name {
			seen, err := runImport(v)
			if err != nil {
				return err
			}
			return json.NewEncoder(w).Encode(seen)
		}
	}
	return fmt.Errorf("there is no plan cache %q", name)
}

func runImport(v variant) (*imported, error) {
	if _, err := weighPlans(v, 1000, 1); err != nil { // warms up parser and pools
		return nil, err
	}
	wire := make([]byte, 0, insertBytes+1024)
	seen := &imported{Idle: heapInUse()}
	start := time.Now()
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			seen.Samples = append(seen.Samples, sample{time.Since(start).Seconds(), readMetric("/memory/classes/heap/objects:bytes"), rss()})
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	c, err := v.make()
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", v.name, err)
	}
	for range 2 { // plans used twice are kept
		for i := range hotPlans {
			if err := c.read(smallStatement(wire[:0], i)); err != nil {
				return nil, err
			}
		}
	}
	before := hot(c)
	seen.Begin = time.Since(start).Seconds()
	for i := range importCount {
		if err := c.read(largeInsert(wire[:0], i)); err != nil {
			return nil, err
		}
	}
	seen.End = time.Since(start).Seconds()
	seen.Accounted = c.bytes()
	seen.HotLeft = float64(hot(c)) / float64(before) * 100
	seen.Heap = heapInUse()
	<-time.NewTimer(restFor).C // the pause is drawn too
	close(stop)
	sampling.Wait()
	runtime.KeepAlive(c)
	runtime.KeepAlive(wire)
	return seen, nil
}

// hot returns the number of the ordinary workload's plans in the cache.
func hot(c planCache) (n int) {
	var wire []byte
	for i := range hotPlans {
		if c.has(smallStatement(wire[:0], i)) {
			n++
		}
	}
	return n
}

// rss returns the resident memory of the process in bytes, or 0 if unknown.
func rss() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// drawImport runs the import with both caches, each in a separate process, writes the results as benchmark
// lines, and draws them.
func drawImport(old, new io.Writer, file string) error {
	variants := planVariants()
	c := chart.Chart{
		Title:  "An import through the plan cache, before and after",
		Desc:   "Heap and resident memory over time while large INSERTs are planned, by the plain twin and by Tare.",
		XLabel: "seconds",
	}
	for i, v := range []variant{variants[0], variants[len(variants)-1]} {
		var seen imported
		p, err := startPart("import", v.name, &seen)
		if err == nil {
			err = p.stop()
		}
		if err != nil {
			return fmt.Errorf("import through %s: %w", v.name, err)
		}
		var peak int64
		for _, s := range seen.Samples {
			peak = max(peak, s.RSS)
		}
		last := seen.Samples[len(seen.Samples)-1]
		r := reading{seen.Idle + seen.Accounted, seen.Heap}
		fmt.Fprintf([]io.Writer{old, new}[i], "BenchmarkPlanCache/import 1 %.2f s/op %d heap-after-B %.3f margin-%% %d peak-RSS-B %d RSS-after-B %.1f hot-plans-left-%%\n",
			seen.End-seen.Begin, seen.Heap, r.margin(), peak, last.RSS, seen.HotLeft)
		resident, heap := chart.Line{Name: "resident memory", Color: "#b45309"}, chart.Line{Name: "Go heap", Color: "#0f766e"}
		for _, s := range seen.Samples {
			resident.X, resident.Y = append(resident.X, s.At), append(resident.Y, float64(s.RSS)/(1<<20))
			heap.X, heap.Y = append(heap.X, s.At), append(heap.Y, float64(s.Heap)/(1<<20))
		}
		c.Panels = append(c.Panels, chart.Panel{
			Title: []string{"before: the plain twin, MiB", "after: Tare, MiB"}[i], Lines: []chart.Line{resident, heap},
			Level: float64(seen.Idle+seen.Accounted) / (1 << 20), LevelName: "idle + the cache's byte count",
			From: seen.Begin, To: seen.End, Band: "import",
		})
	}
	return os.WriteFile(file, c.AppendSVG(nil), 0o644)
}
