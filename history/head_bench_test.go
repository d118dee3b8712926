package history_test

import (
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
)

// BenchmarkHead writes 20,000 digests for an hour, a tenth of which is called in each round, and reports the
// heap and disk space of the head, and the CPU time per round.
func BenchmarkHead(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		benchmarkHead(b, 20_000)
	}
}

func benchmarkHead(b *testing.B, digests int) {
	const interval, rounds = 15 * time.Second, 240
	before := heapNow()
	db, err := localdb.OpenHead(b.TempDir(), slog.New(slog.DiscardHandler), nil, func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	now := time.UnixMilli(1_700_000_000_000)
	m := newModel()
	w, err := history.NewHeadWriter(db, m, interval, func() time.Time { return now })
	if err != nil {
		b.Fatal(err)
	}
	own := heapNow() // the model's counters are not part of the head
	r := rand.New(rand.NewPCG(1, 1))
	for n := range digests {
		m.call(n, now, time.Duration(r.ExpFloat64()*float64(5*time.Millisecond)), r.IntN(20) == 0)
	}
	counters := heapNow() - own
	var took time.Duration
	for range rounds {
		for range digests / 10 {
			m.call(int(float64(digests)*min(r.ExpFloat64()/8, 0.999)), now, time.Duration(r.ExpFloat64()*float64(5*time.Millisecond)), r.IntN(100) == 0)
		}
		now = now.Add(interval)
		start := time.Now()
		if err := w.Round(b.Context()); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
	}
	db.ForceHeadMMap()
	b.ReportMetric(float64(heapNow()-before-counters)/(1<<20), "heap-MiB")
	b.ReportMetric(float64(heapNow()-before-counters)/float64(digests), "heap-B/digest")
	b.ReportMetric(float64(db.Head().NumSeries())/float64(digests), "series/digest")
	b.ReportMetric(float64(db.Head().Size())/(1<<20), "disk-MiB")
	b.ReportMetric(float64(took.Milliseconds())/rounds, "ms/round")
	runtime.KeepAlive(w)
	runtime.KeepAlive(m)
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
