package storegateway_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// A mixedBucket has the samples of each period at some resolutions.
type mixedBucket struct {
	dir    string
	series []testblock.Series
	starts []int64                  // of the periods, and the end of the last
	has    [][]blocksync.Resolution // all resolutions
}

const mixedPeriod = 6 * 3600 * 1000

// writeMixed writes random floats, in blocks of six hours that are raw or downsampled or both. Raw blocks may have
// two periods.
func writeMixed(t *testing.T, r *rand.Rand) *mixedBucket {
	t.Helper()
	b := &mixedBucket{dir: t.TempDir()}
	start := int64(1_700_006_400_000)
	o := testblock.RandomOptions{Series: 40, Samples: 8 * mixedPeriod / 60_000, Start: start, Step: 60_000}
	for len(b.series) == 0 { // all of them can be histograms
		b.series = slices.DeleteFunc(testblock.Random(r, o), func(s testblock.Series) bool {
			return slices.ContainsFunc(s.Samples, func(x testblock.Sample) bool {
				return x.H != nil || x.FH != nil
			})
		})
	}
	for _, s := range b.series {
		for i := range s.Samples {
			if math.IsInf(s.Samples[i].V, 0) { // an average of infinities is none
				s.Samples[i].V = 3
			}
		}
	}
	options := testblock.Options{External: map[string]string{"cluster": "eu"}, ChunkRange: o.ChunkRange()}
	for n := range int64(8) {
		from, to := start+n*mixedPeriod, start+(n+1)*mixedPeriod
		id, err := testblock.Write(b.dir, testblock.Between(b.series, from, to), options)
		if err != nil {
			t.Fatal(err)
		}
		has := []blocksync.Resolution{blocksync.Raw}
		for _, resolution := range []blocksync.Resolution{blocksync.FiveMinutes, blocksync.OneHour} {
			if r.IntN(2) == 0 {
				if _, err := testblock.Downsample(b.dir, id, int64(resolution), 1+r.IntN(40)); err != nil {
					t.Fatal(err)
				}
				has = append(has, resolution)
			}
		}
		if len(has) > 1 && r.IntN(2) == 0 {
			if err := os.RemoveAll(filepath.Join(b.dir, id.String())); err != nil {
				t.Fatal(err)
			}
			has = has[1:]
		}
		b.starts, b.has = append(b.starts, from), append(b.has, has)
	}
	b.starts = append(b.starts, start+8*mixedPeriod)
	return b
}

// wanted returns the samples that a function reads of a series, given the coarsest resolution allowed.
func (b *mixedBucket) wanted(s testblock.Series, function string, limit blocksync.Resolution) (all []testblock.Sample) {
	for n, has := range b.has {
		coarsest := blocksync.Resolution(-1)
		for _, r := range has {
			if r <= limit {
				coarsest = max(coarsest, r)
			}
		}
		var inside []testblock.Sample
		for _, x := range s.Samples {
			if x.T >= b.starts[n] && x.T < b.starts[n+1] && (coarsest == blocksync.Raw || !math.IsNaN(x.V)) {
				inside = append(inside, x)
			}
		}
		switch {
		case coarsest < 0:
		case coarsest == blocksync.Raw:
			all = append(all, inside...)
		default:
			all = append(all, windowed(inside, int64(coarsest), function)...)
		}
	}
	return all
}

// windowed returns one sample for each interval of a period's samples, at its end or the last sample.
func windowed(inside []testblock.Sample, resolution int64, function string) (all []testblock.Sample) {
	for len(inside) > 0 {
		n := 0
		least, most, sum := math.Inf(1), math.Inf(-1), 0.0
		for n < len(inside) && inside[n].T/resolution == inside[0].T/resolution {
			least, most, sum = min(least, inside[n].V), max(most, inside[n].V), sum+inside[n].V
			n++
		}
		v := sum / float64(n)
		switch function {
		case "sum_over_time":
			v = sum
		case "count_over_time":
			v = float64(n)
		case "min_over_time":
			v = least
		case "max":
			v = most
		}
		all = append(all, testblock.Sample{T: inside[0].T/resolution*resolution + resolution - 1, V: v})
		inside = inside[n:]
	}
	return all
}

// TestMixedResolutions compares the samples that functions read of buckets with raw and downsampled blocks with
// those computed from the raw samples.
func TestMixedResolutions(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.New(t), 1))
	downsampled, rounds := 0, 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		b := writeMixed(t, r)
		g := teststore.Open(t, b.dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutThanos })
		for _, limit := range []blocksync.Resolution{blocksync.Raw, blocksync.FiveMinutes, blocksync.OneHour} {
			for _, function := range []string{"", "avg", "sum", "sum_over_time", "count_over_time", "min_over_time", "max", "last_over_time"} {
				got := readMixed(t, g, function, limit, b.starts[0], b.starts[len(b.starts)-1])
				for _, s := range b.series {
					want := b.wanted(s, function, limit)
					have := got[s.Labels.String()]
					delete(got, s.Labels.String())
					if limit > 0 {
						downsampled += len(want)
					}
					if i := differ(have, want); i >= 0 {
						t.Fatalf("%s, limit %s: %s: sample %d of %d is %v, want %v of %d", function, limit, s.Labels, i, len(have), at(have, i), at(want, i), len(want))
					}
				}
				if len(got) > 0 {
					t.Fatalf("%s, limit %s: %d unknown series", function, limit, len(got))
				}
			}
			checkCounters(t, b, limit, readMixed(t, g, "rate", limit, b.starts[0], b.starts[len(b.starts)-1]))
		}
	}
	if downsampled < 1000 {
		t.Errorf("only %d samples were compared", downsampled)
	}
}

func at(all []testblock.Sample, i int) string {
	if i >= len(all) {
		return "missing"
	}
	return fmt.Sprintf("%d %v", all[i].T, all[i].V)
}

// differ returns the index of the first difference, or -1. The time of the last sample in a chunk is that of the
// last raw sample, which is up to a resolution earlier.
func differ(have, want []testblock.Sample) int {
	for i := range max(len(have), len(want)) {
		if i >= len(have) || i >= len(want) || have[i].T > want[i].T || want[i].T-have[i].T >= int64(blocksync.OneHour) ||
			math.Float64bits(have[i].V) != math.Float64bits(want[i].V) {
			return i
		}
	}
	return -1
}

// checkCounters compares counters at each time with the rises of the raw samples until then.
func checkCounters(t *testing.T, b *mixedBucket, limit blocksync.Resolution, got map[string][]testblock.Sample) {
	t.Helper()
	for n, has := range b.has {
		if slices.Min(has) > limit {
			_ = n
			return // a period is missing, so that resets in it are unknown
		}
	}
	if limit == blocksync.Raw {
		return // not changed
	}
	compared := 0
	for _, s := range b.series {
		total, last, started := 0.0, 0.0, false
		raw := slices.DeleteFunc(slices.Clone(s.Samples), func(x testblock.Sample) bool { return math.IsNaN(x.V) || value.IsStaleNaN(x.V) })
		i := 0
		for _, have := range got[s.Labels.String()] {
			for ; i < len(raw) && raw[i].T <= have.T; i++ {
				rise := raw[i].V
				if started && raw[i].V >= last {
					rise = raw[i].V - last
				}
				total, last, started = total+rise, raw[i].V, true
			}
			if math.Abs(have.V-total) > 1e-9*max(1, math.Abs(total)) {
				t.Fatalf("limit %s: %s at %d: %v, the raw samples have risen by %v", limit, s.Labels, have.T, have.V, total)
			}
			compared++
		}
	}
	if compared == 0 {
		t.Fatal("no counter was compared")
	}
}

// readMixed reads all series as an argument of a function.
func readMixed(t *testing.T, g *storegateway.Gateway, function string, limit blocksync.Resolution, mint, maxt int64) map[string][]testblock.Sample {
	t.Helper()
	q, err := g.Queryable(func(context.Context) (string, error) { return "", nil }).Querier(mint, maxt)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ctx := storegateway.WithMaxResolution(t.Context(), limit)
	hints := &storage.SelectHints{Start: mint, End: maxt, Func: function}
	set := q.Select(ctx, true, hints, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
	all := make(map[string][]testblock.Sample)
	var it chunkenc.Iterator
	for set.Next() {
		own := labels.NewBuilder(set.At().Labels()).Del("cluster").Labels().String()
		it = set.At().Iterator(it)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			t, v := it.At()
			all[own] = append(all[own], testblock.Sample{T: t, V: v})
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		sought := seek(t, set.At().Iterator(nil), all[own])
		if i := differ(sought, all[own]); i >= 0 {
			t.Fatalf("%s: %s: Seek reads %s, Next %s", function, own, at(sought, i), at(all[own], i))
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return all
}

// seek reads samples with Seek to the time of each.
func seek(t *testing.T, it chunkenc.Iterator, times []testblock.Sample) (all []testblock.Sample) {
	t.Helper()
	for _, s := range times {
		if it.Seek(s.T) == chunkenc.ValNone {
			t.Fatal(cmp.Or(it.Err(), fmt.Errorf("no sample at %d", s.T)))
		}
		at, v := it.At()
		all = append(all, testblock.Sample{T: at, V: v})
	}
	return all
}
