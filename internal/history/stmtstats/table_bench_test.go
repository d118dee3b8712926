package stmtstats

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/querylog"
)

// A statement has the fields that differ between the records of a session, which share one record.
type statement struct {
	digest [16]byte
	total  time.Duration
}

func (s *statement) of(r *querylog.Record) *querylog.Record {
	r.Digest, r.Total = s.digest, s.total
	return r
}

// benchRecords returns statements of this many digests, as in a workload: a few have most of the calls, and
// each has a separate median and tail.
func benchRecords(digests, records int, skewed bool) []statement {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 1, uint64(digests-1))
	all := make([]statement, records)
	for i := range all {
		n := int(zipf.Uint64())
		if !skewed {
			n = i % digests
		}
		median := float64(100*time.Microsecond) * float64(1+n%20)
		r := teststmt.Record(n, time.Duration(median*(0.5+rng.ExpFloat64())))
		all[i] = statement{r.Digest, r.Total}
	}
	return all
}

func benchTable(b *testing.B, records []statement) *Table {
	table := mustOpen(b, Options{Dir: b.TempDir()})
	b.Cleanup(func() { _ = table.Close() })
	r := teststmt.Record(0, 0)
	for range 2 {
		for i := range records {
			table.Observe(records[i].of(r))
		}
	}
	if err := table.Collect(func(*Sample) error { return nil }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return table
}

var benchCases = []struct {
	name    string
	digests int
	records int
	skewed  bool
}{
	{"one digest", 1, 64, false},
	{"1000 digests", 1000, 8192, true},
	{"20000 digests", 20_000, 1 << 16, true},
	{"20000 digests in turn", 20_000, 20_000, false}, // the worst case: no entry is in a cache
}

func BenchmarkObserve(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			records := benchRecords(c.digests, c.records, c.skewed)
			table := benchTable(b, records)
			r := teststmt.Record(0, 0)
			for i := 0; b.Loop(); i++ {
				table.Observe(records[i%len(records)].of(r))
			}
		})
	}
}

// BenchmarkObserveParallel counts statements on each processor, with separate records per session.
func BenchmarkObserveParallel(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			records := benchRecords(c.digests, c.records, c.skewed)
			table := benchTable(b, records)
			var session atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := int(session.Add(1)) * 4711
				r := teststmt.Record(0, 0)
				for ; pb.Next(); i++ {
					table.Observe(records[i%len(records)].of(r))
				}
			})
		})
	}
}

func BenchmarkObserveUntracked(b *testing.B) {
	table := mustOpen(b, Options{MaxDigests: 1, Bytes: leastBytes(1)})
	defer func() { _ = table.Close() }()
	table.Observe(teststmt.Record(0, time.Millisecond))
	r := teststmt.Record(1, time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		table.Observe(r)
	}
}

func BenchmarkCollect(b *testing.B) {
	records := benchRecords(20_000, 20_000, false)
	table := benchTable(b, records)
	for b.Loop() {
		table.MarkAllChanged()
		if err := table.Collect(func(*Sample) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/20_000, "ns/digest")
}

func BenchmarkOpen(b *testing.B) {
	records := benchRecords(20_000, 20_000, false)
	o := Options{Dir: b.TempDir()}
	table := mustOpen(b, o)
	r := teststmt.Record(0, 0)
	for i := range records {
		table.Observe(records[i].of(r))
	}
	for b.Loop() {
		if err := table.Close(); err != nil {
			b.Fatal(err)
		}
		table = mustOpen(b, o)
	}
	_ = table.Close()
}
