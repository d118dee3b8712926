package memory

import (
	"runtime"
	"runtime/metrics"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/sizegen/heapsize"
)

// An Owner is a part of the process that accounts for its heap bytes.
type Owner struct {
	Name  string
	Bytes func() int64 // may be called by any goroutine
}

// A Ledger is the list of owners. It is a prometheus.Collector.
type Ledger struct {
	owners []Owner
	base   int64
	heap   *prometheus.Desc
}

// BaseOwner is the name of the base among the owners.
const BaseOwner = "base"

// NewLedger returns a ledger and measures the base. It runs the collector, so call it at the start of a
// process, when everything is created and unused.
func NewLedger(owners ...Owner) *Ledger {
	l := &Ledger{owners: owners, heap: prometheus.NewDesc("tare_heap_bytes",
		"Heap in use by owner; base is the rest, measured at start.", []string{"owner"}, nil)}
	heapsize.Object(1<<10, false) // the table of size classes, which it creates once, belongs to the base
	l.base = HeapInUse() - l.owned()
	return l
}

// HeapInUse runs the collector and returns the bytes of the remaining objects.
func HeapInUse() int64 {
	for range 2 { // finalizers, and objects that pools keep for one more cycle
		runtime.GC()
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

func (l *Ledger) owned() (sum int64) {
	for _, o := range l.owners {
		sum += o.Bytes()
	}
	return sum
}

// Base returns the heap without an owner, as measured at start.
func (l *Ledger) Base() int64 { return l.base }

// Sum returns the expected heap in use: the owners' bytes and the base.
func (l *Ledger) Sum() int64 { return l.base + l.owned() }

// OwnerBytes is the heap bytes of one owner.
type OwnerBytes struct {
	Owner string
	Bytes int64
}

// ByOwner returns the current bytes of the owners, in the order of NewLedger's arguments, the base last.
func (l *Ledger) ByOwner() []OwnerBytes {
	held := make([]OwnerBytes, 0, len(l.owners)+1)
	for _, o := range l.owners {
		held = append(held, OwnerBytes{o.Name, o.Bytes()})
	}
	return append(held, OwnerBytes{BaseOwner, l.base})
}

// Describe implements prometheus.Collector.
func (l *Ledger) Describe(ch chan<- *prometheus.Desc) { ch <- l.heap }

// Collect implements prometheus.Collector.
func (l *Ledger) Collect(ch chan<- prometheus.Metric) {
	for _, h := range l.ByOwner() {
		ch <- prometheus.MustNewConstMetric(l.heap, prometheus.GaugeValue, float64(h.Bytes), h.Owner)
	}
}

var _ prometheus.Collector = (*Ledger)(nil)
