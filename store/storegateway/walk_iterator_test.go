package storegateway

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
)

// TestWalkIterator takes random steps and seeks: the iterator over consecutive blocks yields the samples of
// Prometheus' iterator over all blocks, including counter reset hints.
func TestWalkIterator(t *testing.T) {
	random := testseed.Rand(t)
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 40, Samples: 300, Step: 1000, Start: 1_700_000_000_000}
	series := testblock.Random(random, o)
	end := o.Start + int64(o.Samples)*o.Step*2
	for from, step := o.Start, o.Step*150; from < end; from += step {
		if _, err := testblock.Write(dir, testblock.Between(series, from, from+step-1), testblock.Options{External: map[string]string{}}); err != nil {
			t.Log(err) // no samples
		}
	}
	g := openDir(t, dir, slab.GateOptions{Bytes: 64 << 20, PerQuery: 8 << 20})
	querier, err := g.Queryable(noTenant).Querier(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer querier.Close()
	set := querier.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
	walks, samples := 0, 0
	for set.Next() {
		s := set.At().(*oneSeries)
		if len(s.places) < 2 || s.overlaps() {
			continue
		}
		walks++
		for range 8 {
			walk, many := &walkIterator{}, &blocksIterator{}
			walk.reset(s)
			many.reset(s)
			at := s.places[0].held.batch.Chunks(s.places[0].i)[0].MinTime
			for range 60 {
				var got, want chunkenc.ValueType
				if random.IntN(6) == 0 {
					to := at + random.Int64N(o.Step*120) - o.Step*20
					got, want = walk.Seek(to), many.Seek(to)
				} else {
					got, want = walk.Next(), many.Next()
				}
				if got != want {
					t.Fatalf("series %s: got %v, want %v", s.labels, got, want)
				}
				if got == chunkenc.ValNone {
					break
				}
				if x, y := testblock.SampleText(walk, got, true), testblock.SampleText(many, want, true); x != y {
					t.Fatalf("series %s: got %s, want %s", s.labels, x, y)
				}
				at = walk.AtT()
				samples++
			}
			if walk.Err() != nil || many.Err() != nil {
				t.Fatal(walk.Err(), many.Err())
			}
			walk.it.release()
			many.release()
		}
	}
	if set.Err() != nil || walks < 5 || samples < 500 {
		t.Errorf("%d series in several blocks, %d samples, %v", walks, samples, set.Err())
	}
}
