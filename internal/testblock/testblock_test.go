package testblock_test

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/testblock"
)

// open opens a written block by Prometheus' reader.
func open(t *testing.T, dir, id string) *tsdb.Block {
	t.Helper()
	b, err := tsdb.OpenBlock(nil, filepath.Join(dir, id), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestBlockSeries compares the benchmark's data with its published description.
func TestBlockSeries(t *testing.T) {
	dir := t.TempDir()
	shape := testblock.BlockSeries()
	shape.Count = 20 // the same series, fewer
	id, err := shape.Write(dir, testblock.Options{External: map[string]string{"ext1": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, dir, id).Meta()
	day := int64(24 * 3600 * 1000)
	got := []int64{int64(m.Stats.NumSeries), int64(m.Stats.NumSamples), int64(m.Stats.NumChunks), m.MinTime, m.MaxTime}
	want := []int64{20, 20 * 5760, 20 * 48, 0, 20*day - 15000 + 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series, samples, chunks and times (-want +got):\n%s", diff)
	}
	n := 0
	for s := range shape.Series() {
		if n == 7 {
			if s.Labels.Get("i") != "0040320"+testblock.LongSuffix || s.Labels.Get("foo") != "bar" || s.Labels.Len() != 2 {
				t.Errorf("series 7 is %s", s.Labels)
			}
			if s.Samples[0].T != 7*day {
				t.Errorf("series 7 begins at %d, want its own day", s.Samples[0].T)
			}
		}
		n++
	}
}

func TestShapesOfHistograms(t *testing.T) {
	for _, kind := range []chunkenc.ValueType{chunkenc.ValHistogram, chunkenc.ValFloatHistogram} {
		dir := t.TempDir()
		id, err := testblock.Shape{Count: 3, Samples: 10, Kind: kind, J: true}.Write(dir, testblock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if m := open(t, dir, id).Meta(); m.Stats.NumHistogramSamples != 30 {
			t.Errorf("%s: got %d histograms, want 30", kind, m.Stats.NumHistogramSamples)
		}
	}
}

// TestRandom reads the written samples back, and checks that unusual ones occur.
func TestRandom(t *testing.T) {
	o := testblock.RandomOptions{Series: 60, Samples: 300, Start: 1_000_000, Step: 15_000}
	all := testblock.Random(rand.New(rand.NewPCG(1, 2)), o)
	if len(all) < o.Series-5 {
		t.Fatalf("%d series, want about %d", len(all), o.Series)
	}
	mid := o.Start + int64(o.Samples)*o.Step/2
	dir := t.TempDir()
	kinds := map[chunkenc.ValueType]int{}
	stale, custom, changing := 0, 0, 0
	for _, part := range [][2]int64{{math.MinInt64, mid + 10*o.Step}, {mid, math.MaxInt64}} {
		id, err := testblock.Write(dir, testblock.Between(all, part[0], part[1]),
			testblock.Options{ChunkRange: o.ChunkRange(), SegmentBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		q, err := tsdb.NewBlockQuerier(open(t, dir, id.String()), math.MinInt64, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		})
		want := slices.Collect(testblock.Between(all, part[0], part[1]))
		set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchNotEqual, "__name__", ""))
		for n := 0; set.Next(); n++ {
			if !labels.Equal(set.At().Labels(), want[n].Labels) {
				t.Fatalf("series %d is %s, want %s", n, set.At().Labels(), want[n].Labels)
			}
			seen := compare(t, set.At(), want[n])
			stale, custom = stale+seen.stale, custom+seen.custom
			if len(seen.kinds) > 1 {
				changing++
			}
			for k, c := range seen.kinds {
				kinds[k] += c
			}
		}
		if err := set.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if len(kinds) != 3 || stale == 0 || custom == 0 || changing == 0 {
		t.Errorf("kinds %v, %d stale, %d custom, %d series that change: something is missing", kinds, stale, custom, changing)
	}
}

// seen describes the contents of a series.
type seen struct {
	kinds         map[chunkenc.ValueType]int
	stale, custom int
}

// compare compares a series with the one that was written. Histograms are compared as text: a chunk may have
// added empty buckets because of adjacent samples.
func compare(t *testing.T, s storage.Series, want testblock.Series) seen {
	t.Helper()
	out := seen{kinds: map[chunkenc.ValueType]int{}}
	it := s.Iterator(nil)
	for i := 0; ; i++ {
		kind := it.Next()
		if kind == chunkenc.ValNone {
			if i != len(want.Samples) || it.Err() != nil {
				t.Fatalf("%s: %d samples of %d, error %v", want.Labels, i, len(want.Samples), it.Err())
			}
			return out
		}
		out.kinds[kind]++
		w := want.Samples[i]
		if it.AtT() != w.T {
			t.Fatalf("%s: sample %d at %d, want %d", want.Labels, i, it.AtT(), w.T)
		}
		switch kind {
		case chunkenc.ValFloat:
			if _, v := it.At(); math.Float64bits(v) != math.Float64bits(w.V) {
				t.Fatalf("%s: sample %d is %v, want %v", want.Labels, i, v, w.V)
			} else if value.IsStaleNaN(v) {
				out.stale++
			}
		case chunkenc.ValHistogram:
			if _, h := it.AtHistogram(nil); !value.IsStaleNaN(h.Sum) && h.String() != w.H.String() {
				t.Fatalf("%s: sample %d is %s, want %s", want.Labels, i, h, w.H)
			} else if h.UsesCustomBuckets() {
				out.custom++
			}
		case chunkenc.ValFloatHistogram:
			if _, h := it.AtFloatHistogram(nil); !value.IsStaleNaN(h.Sum) && h.String() != w.FH.String() {
				t.Fatalf("%s: sample %d is %s, want %s", want.Labels, i, h, w.FH)
			}
		}
	}
}
