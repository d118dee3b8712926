package tsblock

import (
	"errors"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
)

func TestChunkLengths(t *testing.T) {
	var l chunkLengths
	learn := func(n, bytes, longest int64) {
		var load loadLengths
		load.add(n, bytes, longest)
		l.learn(&load)
	}
	if l.mean(7) != 7 || l.estimate() != defaultEstimate {
		t.Errorf("before anything is read: %d and %d", l.mean(7), l.estimate())
	}
	learn(0, 0, 0)
	if l.mean(7) != 7 {
		t.Errorf("after no chunk at all: %d", l.mean(7))
	}
	learn(10, 500, 80)
	if l.mean(7) != 50 || l.estimate() != leastEstimate {
		t.Errorf("short ones: %d and %d", l.mean(7), l.estimate())
	}
	learn(1, 16050, 16050)
	if l.mean(7) != 2050 || l.estimate() != 16050+16050/4 {
		t.Errorf("one long one: %d and %d", l.mean(7), l.estimate())
	}
	for range 100 {
		learn(10, 500, 80)
	}
	if l.mean(7) > 60 || l.estimate() != leastEstimate {
		t.Errorf("short ones again: %d and %d", l.mean(7), l.estimate())
	}
	learn(1, 1<<30, 1<<30)
	if l.estimate() != maxEstimate {
		t.Errorf("a huge one: %d", l.estimate())
	}
}

// TestLengthsLearned reads chunks that are longer than usual, one at a time and far from each other: the
// first read does not reach the end of its chunk, the later ones do.
func TestLengthsLearned(t *testing.T) {
	s := new(segmentBuilder)
	s.segment()
	for i := range 20 {
		s.add(2, make([]byte, 9000+10*i))
		s.add(1, make([]byte, 1<<20))
	}
	e := newChunkEnv(t, s, Costs{Gap: 1000, Calls: 1})
	for i := 0; i < len(s.chunks); i += 2 {
		usage, err := e.read(t.Context(), t, s.refs()[i:i+1], func(*chunkData) {})
		want := int64(1)
		if i == 0 {
			want = 2
		}
		if err != nil || usage.Reads != want {
			t.Errorf("chunk %d: %+v, %v: want %d reads", i, usage, err, want)
		}
	}
}

// TestPlannedBytes reads a block of one sample per series: the planned size of its chunks is close to the
// actual one, for all of them and for every third.
func TestPlannedBytes(t *testing.T) {
	const count = 9000
	dir := t.TempDir()
	name, err := testblock.Shape{Count: count, Samples: 1}.Write(dir, testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	third := 0
	for _, c := range []struct {
		name   string
		query  Select
		series int
		most   int64 // maximum of the planned size, in percent of the actual size
	}{
		{"all", Select{}, count, 105},
		{"a third, kept", Select{Keep: func([]Label) bool { third++; return third%3 == 0 }}, count / 3, 150},
		{"a third, by hash", Select{Shard: Shard{1, 3}}, count/3 - 200, 150},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			b := e.open(t, dir, name)
			r, done := e.reader(t, b)
			defer done()
			p, err := r.Postings(t.Context(), labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"))
			if err != nil {
				t.Fatal(err)
			}
			c.query.MinTime, c.query.MaxTime, c.query.BatchBytes = math.MinInt64, math.MaxInt64, 10_000
			series, read, planned := r.Series(p, c.query), 0, int64(0)
			for {
				batch, err := series.Next(t.Context())
				if errors.Is(err, ErrNoMoreSeries) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := r.LoadChunks(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
				if batch.PlannedBytes() > 10_000 && batch.Len() > 1 {
					t.Errorf("a batch of %d bytes", batch.PlannedBytes())
				}
				read += batch.Len()
				planned += batch.PlannedBytes()
				batch.Release()
			}
			stats := r.Stats()
			touched := stats.Chunks.Touched
			if read < c.series || stats.Chunks.Items != int64(read) || planned < touched*99/100 || planned > touched*c.most/100 {
				t.Errorf("%d series, %d bytes planned, %d read: want at least %d series and at most %d %% of what is read", read, planned, touched, c.series, c.most)
			}
			if stats.Series.Items != count && c.query.Keep != nil {
				t.Errorf("%d entries of series counted, there are %d", stats.Series.Items, count)
			}
			if c.query.Keep != nil && stats.Dropped != int64(count-read) {
				t.Errorf("%d series dropped of %d, %d were kept", stats.Dropped, count, read)
			}
		})
	}
}

// gapless is a source from which no gaps are read.
type gapless struct{ Source }

func (gapless) Costs() Costs { return Costs{Gap: 0, Calls: 1} }

// TestKeepFetches reads the chunks of every fourth series, and fetches no others.
func TestKeepFetches(t *testing.T) {
	dir := t.TempDir()
	name, err := testblock.Shape{Count: 200, Samples: 1000}.Write(dir, testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t)
	b, err := openBlock(t.Context(), gapless{Dir(dir)}, name, e.options)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	fetched := func(keep func([]Label) bool) (series int, bytes int64) {
		r, done := e.reader(t, b)
		defer done()
		p, err := r.Postings(t.Context(), labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"))
		if err != nil {
			t.Fatal(err)
		}
		s := r.Series(p, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Keep: keep})
		for {
			batch, err := s.Next(t.Context())
			if errors.Is(err, ErrNoMoreSeries) {
				return series, r.Stats().Chunks.Fetched
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := r.LoadChunks(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			series += batch.Len()
			batch.Release()
		}
	}
	all, bytes := fetched(nil)
	i := 0
	kept, keptBytes := fetched(func([]Label) bool { i++; return i%4 == 0 })
	if all != 200 || kept != 50 || keptBytes < bytes/5 || keptBytes > bytes*3/10 {
		t.Errorf("%d bytes fetched for %d series, %d for %d of them", bytes, all, keptBytes, kept)
	}
}
