package web

import (
	"cmp"
	"context"
	"html/template"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/internal/weigh"
)

// A weightPage shows the resource usage of the process.
type weightPage struct {
	source  *WeightSource
	weigher *weigher
}

// weightData is the data of the page.
type weightData struct {
	Name, Names string // of the counted unit: "statement", "statements"; "" if there is none
	Lately      weightDelta
	Started     weightDelta // since that time
	Compared    bool        // Lately is between two measurements; otherwise it equals Started
	Up          string
	Now         weighing
	Limit       float64 // bytes; 0: none
	Owners      []ownerRow
	Owned       float64
	Others      float64 // live bytes beyond Owned
	Off         string  // deviation of Owned from Now.Live
	Charts      []template.HTML
	Losses      []localstate.Loss
	Reload      *Reload // nil: none yet
}

func (s *weightPage) load(_ context.Context, v *view) (any, error) {
	source := s.source
	looks := s.weigher.measure(v.now)
	d := weightData{Name: source.StatementName, Now: looks[len(looks)-1], Limit: float64(memoryLimit())}
	if d.Name != "" {
		d.Names = d.Name + "s"
	}
	d.Started = d.Now.since(&s.weigher.start)
	d.Up = seconds(d.Started.Seconds)
	d.Lately = d.Started
	if n := len(looks); n > 1 {
		// Go back about ten seconds: in a shorter interval each collection would appear as a burst.
		k := n - 2
		for k > 0 && d.Now.At.Sub(looks[k].At) < 10*time.Second {
			k--
		}
		d.Compared, d.Lately = true, d.Now.since(&looks[k])
	}
	if source.Heap != nil {
		d.Owners, d.Owned = ownerRows(source.Heap())
		if d.Now.Live > 0 {
			d.Off = offText(d.Owned/d.Now.Live - 1)
			d.Others = max(d.Now.Live-d.Owned, 0)
		}
	}
	if source.Losses != nil {
		d.Losses = source.Losses()
	}
	if source.Reload != nil {
		d.Reload = source.Reload()
	}
	if len(looks) > 2 {
		d.Charts = weightCharts(looks)
	}
	return d, nil
}

// weightCharts draws the stored measurements.
func weightCharts(looks []weighing) []template.HTML {
	n := len(looks) - 1
	times := make([]time.Time, n)
	lines := make([][]float64, 6)
	for i := range lines {
		lines[i] = make([]float64, n)
	}
	for i := range n {
		w := &looks[i+1]
		d := w.since(&looks[i])
		times[i] = w.At
		for k, value := range []float64{d.CPU, d.CPU * d.GCShare, w.Live, w.Heap, float64(w.RSS), w.Goroutines} {
			lines[k][i] = value
		}
	}
	return []template.HTML{
		lineChart{ID: "cpu", Title: "CPU", Times: times, Unit: unitPercent, Area: true, Series: []series{
			{"all", lines[0]}, {"garbage collection", lines[1]},
		}}.HTML(),
		lineChart{ID: "memory", Title: "Memory", Times: times, Unit: unitBytes, Series: []series{
			{"live", lines[2]}, {"heap", lines[3]}, {"resident", lines[4]},
		}}.HTML(),
		lineChart{ID: "goroutines", Title: "Goroutines", Times: times, Unit: unitCount, Series: []series{{"goroutines", lines[5]}}}.HTML(),
	}
}

// offText returns the deviation of a sum from the measurement, as text.
func offText(off float64) string {
	switch {
	case off > 0:
		return percent(off) + " more"
	case off < 0:
		return percent(-off) + " less"
	}
	return "the same"
}

const (
	// weightSamples is the number of measurements stored: half an hour of a page that is reloaded
	// every 5 s. Each takes about 150 bytes.
	weightSamples = 360

	// weightGap is the minimum time between two measurements: requests in between reuse the latest one.
	weightGap = 900 * time.Millisecond

	// weightAge is the maximum age of a stored measurement.
	weightAge = 30 * time.Minute
)

// A WeightSource provides data of the weight page that the page cannot measure.
type WeightSource struct {
	Heap func() []memory.OwnerBytes // by owner

	// Statements returns the units of work that the process has done, and StatementName is the name of one,
	// such as "statement" or "request".
	Statements    func() uint64
	StatementName string

	Losses func() []localstate.Loss // local state that could not be used; nil: not shown

	Reload func() *Reload // the last reload, nil if there was none; a nil func: not shown
}

// A weighing is a measurement of the process: counters since its start, and current sizes.
type weighing struct {
	At         time.Time
	CPU        time.Duration // of all threads
	RSS        int64         // bytes
	GCCPU      float64       // seconds, as of the latest collection
	GCCycles   float64
	Allocs     float64 // objects
	AllocBytes float64
	Live       float64 // bytes that the latest collection kept
	Heap       float64 // bytes of objects, garbage included
	Stacks     float64 // in bytes
	Total      float64 // bytes that the runtime obtained from the system
	Goal       float64 // bytes at which the next collection will finish
	Goroutines float64
	Statements uint64
}

// A weigher measures the process when the page is requested, and stores the measurements. It does nothing in
// between.
type weigher struct {
	statements func() uint64

	mu    sync.Mutex
	looks []weighing // oldest first
	start weighing   // when the weigher was created
}

func newWeigher(statements func() uint64, started time.Time) *weigher {
	return &weigher{statements: statements, start: weighNow(started)}
}

// measure measures the process, unless the latest measurement is younger than weightGap, and returns the stored
// measurements, oldest first.
func (s *weigher) measure(now time.Time) []weighing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.looks); n == 0 || now.Sub(s.looks[n-1].At) >= weightGap {
		w := weighNow(now)
		if s.statements != nil {
			w.Statements = s.statements()
		}
		s.looks = append(s.looks, w)
	}
	drop := max(len(s.looks)-weightSamples, 0)
	for drop < len(s.looks)-1 && now.Sub(s.looks[drop].At) > weightAge {
		drop++
	}
	s.looks = append(s.looks[:0], s.looks[drop:]...)
	return slices.Clone(s.looks)
}

// weighNow measures the process once.
func weighNow(now time.Time) weighing {
	r := weigh.OwnRuntime()
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/heap/goal:bytes"},
	}
	metrics.Read(samples)
	at := func(i int) float64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0 // a later runtime may have removed it
		}
		return float64(samples[i].Value.Uint64())
	}
	w := weighing{
		At: now, GCCPU: r.GCCPU, GCCycles: r.GCCycles, Allocs: r.HeapAllocObjects + r.TinyAllocs, AllocBytes: r.HeapAllocBytes,
		Live: at(0), Heap: r.HeapInUse, Stacks: at(1), Total: at(2) - at(3), Goal: at(4), Goroutines: float64(runtime.NumGoroutine()),
	}
	if p, err := weigh.Open(os.Getpid()); err == nil { // unknown without /proc
		if u, err := p.Usage(); err == nil {
			w.CPU, w.RSS = u.CPU, u.RSS
		}
	}
	return w
}

// A weightDelta is the resource usage of the process between two measurements.
type weightDelta struct {
	Seconds    float64
	CPU        float64 // of one CPU
	GCShare    float64 // of the CPU time
	Collection float64 // per second
	AllocRate  float64 // bytes per second
	Objects    float64 // per second
	Statements float64
	Rate       float64 // statements per second

	// Per statement; all work of the process in that time counts, including these pages.
	CPUEach, ObjectsEach, BytesEach float64
}

// since returns the resource usage from an earlier measurement to w.
func (w *weighing) since(e *weighing) weightDelta {
	d := weightDelta{Seconds: w.At.Sub(e.At).Seconds()}
	if d.Seconds <= 0 {
		return d
	}
	cpu := (w.CPU - e.CPU).Seconds()
	d.CPU = cpu / d.Seconds
	if cpu > 0 {
		d.GCShare = min(max(w.GCCPU-e.GCCPU, 0)/cpu, 1)
	}
	d.Collection = (w.GCCycles - e.GCCycles) / d.Seconds
	d.AllocRate = (w.AllocBytes - e.AllocBytes) / d.Seconds
	d.Objects = (w.Allocs - e.Allocs) / d.Seconds
	if w.Statements > e.Statements {
		d.Statements = float64(w.Statements - e.Statements)
		d.Rate = d.Statements / d.Seconds
		d.CPUEach = cpu / d.Statements
		d.ObjectsEach = (w.Allocs - e.Allocs) / d.Statements
		d.BytesEach = (w.AllocBytes - e.AllocBytes) / d.Statements
	}
	return d
}

// An ownerRow is one owner of the heap.
type ownerRow struct {
	Name, What string
	Bytes      float64
	Share      float64 // of all owners
}

// ownerRows returns the owners, largest first, and their sum.
func ownerRows(held []memory.OwnerBytes) (rows []ownerRow, sum float64) {
	for _, h := range held {
		sum += float64(max(h.Bytes, 0))
	}
	for _, h := range held {
		r := ownerRow{Name: h.Owner, What: ownerNames[h.Owner], Bytes: float64(max(h.Bytes, 0))}
		if sum > 0 {
			r.Share = r.Bytes / sum
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b ownerRow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rows, sum
}

// ownerNames describes the owners of tare_heap_bytes.
var ownerNames = map[string]string{
	"plan_cache":       "plans of statements, and the cache itself",
	"query_log":        "ring, buffered lines, lines in flight",
	"sessions":         "connections: state, buffers, prepared statements",
	"relay_buffers":    "buffers lent to connections or kept for them",
	"active_series":    "catalog of active series",
	"slabs_lent":       "chunks of running queries",
	"slabs_idle":       "slabs kept for the next query",
	"index_cache":      "pages of block indexes",
	"index_headers":    "index headers of blocks",
	"disk_cache":       "the disk cache's table, and pages that wait to be written",
	"shared_cache":     "pages from and to memcached, and its connections",
	"frames_idle":      "frames of gRPC responses, kept for reuse",
	"history_head":     "series being written, and their metadata",
	"history_counters": "counters of all statements, for half a minute after a page has read them",
	"history_bucket":   "index headers and pages of the history's blocks in the bucket, and slabs",
	"pages":            "pages cached for a second",
	"events":           "schema changes, switches, restarts and reported events",
	"explain":          "recent slow calls of the statements with most load, and their plans",
	"server_counts":    "the server's counts of statements in the last minutes, and statistics of tables",
	"call_sample":      "the sample of calls",
	"decoders_idle":    "decoders kept for the next request",
	memory.BaseOwner:   "without an owner, measured at start",
}

// memoryLimit returns the runtime's soft limit, or 0 if there is none.
func memoryLimit() int64 {
	if n := debug.SetMemoryLimit(-1); n < 1<<60 {
		return n
	}
	return 0
}

// A Reload is the result of a reload of the configuration: the response of POST /-/reload, and a part of the weight page.
type Reload struct {
	Time  time.Time `json:"time"`
	Rules int       `json:"rules"` // in force

	// Names of rules, compared with those in force before.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`

	Restart []string `json:"restart"`         // changed options, which take effect at a restart
	Error   string   `json:"error,omitempty"` // of the parts that stay as they were
}
