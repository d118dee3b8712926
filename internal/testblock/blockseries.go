package testblock

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

// SeriesRounds is the number of different queries of one kind in BenchmarkBlockSeries.
const SeriesRounds = 20

// A SeriesQuery is a query of BenchmarkBlockSeries, over all times: the series of one matcher, or those of
// them in one of SeriesRounds shards.
type SeriesQuery struct {
	Matcher *labels.Matcher
	Sharded bool
	Shard   uint64 // if it is sharded, from 0
}

// SeriesQueries returns the queries that read scattered parts of the series, or those for each shard of all
// series.
func SeriesQueries(sharded bool) []SeriesQuery {
	queries := make([]SeriesQuery, SeriesRounds)
	for n := range queries {
		value := fmt.Sprintf(".*%d.*", n)
		if sharded {
			value = ".+"
		}
		queries[n] = SeriesQuery{labels.MustNewMatcher(labels.MatchRegexp, "i", value), sharded, uint64(n)}
	}
	return queries
}

// A Tally is the data that a query has delivered to a consumer that reads every byte.
type Tally struct {
	Series, Chunks, Bytes int64

	sum uint64
}

// Chunk reads a chunk.
func (t *Tally) Chunk(data []byte) {
	t.Chunks++
	t.Bytes += int64(len(data))
	for len(data) >= 32 {
		t.sum += binary.LittleEndian.Uint64(data) ^ binary.LittleEndian.Uint64(data[8:]) ^
			binary.LittleEndian.Uint64(data[16:]) ^ binary.LittleEndian.Uint64(data[24:])
		data = data[32:]
	}
	for _, c := range data {
		t.sum += uint64(c)
	}
}

// BenchmarkBlockSeries runs the cases of grafana/mimir#3215 against a store with the block of BlockSeries: a
// number of workers, each with consecutive queries of one matcher or one shard. query performs one of them
// and adds the received data to the tally.
func BenchmarkBlockSeries(b *testing.B, query func(SeriesQuery, *Tally) error) {
	for _, concurrency := range []int{1, 2, 4, 8, 16, 32} {
		for _, sharded := range []bool{false, true} {
			b.Run(fmt.Sprintf("concurrency: %d, query sharding enabled: %v", concurrency, sharded), func(b *testing.B) {
				benchmarkBlockSeries(b, concurrency, sharded, query)
			})
		}
	}
}

func benchmarkBlockSeries(b *testing.B, concurrency int, sharded bool, query func(SeriesQuery, *Tally) error) {
	queries := SeriesQueries(sharded)
	var bytes, chunks, series atomic.Int64
	round := func() error {
		for n := range queries {
			var t Tally
			if err := query(queries[n], &t); err != nil {
				return err
			}
			if t.Series == 0 || t.sum == 0 {
				return fmt.Errorf("query %d: no series", n)
			}
			bytes.Add(t.Bytes)
			chunks.Add(t.Chunks)
			series.Add(t.Series)
		}
		return nil
	}
	// A whole round is the warm-up, and determines the data per operation.
	if err := round(); err != nil {
		b.Fatal(err)
	}
	perRound := bytes.Load()
	if got, want := series.Load(), map[bool]int64{false: 5650, true: 1000}[sharded]; got != want {
		b.Fatalf("%d series in a round, want %d", got, want)
	}
	if got, want := chunks.Load(), series.Load()*48; got != want {
		b.Fatalf("%d chunks in a round, want %d", got, want)
	}
	// Each worker runs whole rounds, so that every matcher counts alike. Unless b.N is a multiple of
	// SeriesRounds*concurrency, more operations run than requested: the metrics are per operation that ran.
	perWorker := (b.N + SeriesRounds*concurrency - 1) / (SeriesRounds * concurrency)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	b.ResetTimer()
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for range perWorker {
				if err := round(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	b.StopTimer()
	runtime.ReadMemStats(&after)
	ops := float64(perWorker * concurrency * SeriesRounds)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/ops, "ns/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/ops, "B/op")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/ops, "allocs/op")
	b.ReportMetric(float64(perRound/SeriesRounds), "delivered-B/op")
}
