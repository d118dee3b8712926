package storegateway_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A twin is a gateway and Prometheus' own reader over the same blocks.
type twin struct {
	gateway    *storegateway.Gateway
	blocks     []*tsdb.Block
	start, end int64
	names      []string
}

// newTwin writes random blocks, some of which overlap, and opens them twice.
func newTwin(t *testing.T, seed uint64, external func(block int) map[string]string, o selectOptions) *twin {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	ro := testblock.RandomOptions{Series: 60 + r.IntN(60), Samples: 200 + r.IntN(400), Start: r.Int64N(1e12) - 5e11, Step: 15_000}
	all := testblock.Random(r, ro)
	w := &twin{start: ro.Start, end: ro.Start + int64(ro.Samples)*ro.Step}
	dir := t.TempDir()
	cuts := 1 + r.IntN(4)
	span := (w.end - w.start) / int64(cuts)
	for n := range cuts {
		from := w.start + int64(n)*span
		to := from + span
		if r.IntN(2) == 0 {
			to += span / 3 // overlaps the next block
		}
		labels := map[string]string{}
		if external != nil {
			labels = external(n)
		}
		id, err := testblock.Write(dir, testblock.Between(all, from, to), testblock.Options{
			External: labels, ChunkRange: ro.ChunkRange(), SegmentBytes: 64 << 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := tsdb.OpenBlock(nil, filepath.Join(dir, id.String()), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		w.blocks = append(w.blocks, b)
	}
	w.gateway = newSelectGateway(t, dir, o)
	w.names = []string{"__name__", "job", "instance", "le", "zone", "zzz_last", "nowhere"}
	return w
}

// querier returns Prometheus' querier over all blocks.
func (w *twin) querier(t *testing.T, mint, maxt int64) storage.Querier {
	t.Helper()
	var qs []storage.Querier
	for _, b := range w.blocks {
		if !b.OverlapsClosedInterval(mint, maxt) {
			continue
		}
		q, err := tsdb.NewBlockQuerier(b, mint, maxt)
		if err != nil {
			t.Fatal(err)
		}
		qs = append(qs, q)
	}
	q := storage.NewMergeQuerier(qs, nil, storage.ChainedSeriesMerge)
	closeOnce(t, q)
	return q
}

func (w *twin) chunkQuerier(t *testing.T, mint, maxt int64) storage.ChunkQuerier {
	t.Helper()
	var qs []storage.ChunkQuerier
	for _, b := range w.blocks {
		if !b.OverlapsClosedInterval(mint, maxt) {
			continue
		}
		q, err := tsdb.NewBlockChunkQuerier(b, mint, maxt)
		if err != nil {
			t.Fatal(err)
		}
		qs = append(qs, q)
	}
	q := storage.NewMergeChunkQuerier(qs, nil, storage.NewCompactingChunkSeriesMerger(storage.ChainedSeriesMerge))
	closeOnce(t, q)
	return q
}

// closeOnce closes a querier at the end of the test, even of a failed one: a block's Close waits for its
// queriers.
func closeOnce(t *testing.T, q interface{ Close() error }) {
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

// times returns a random time range, sometimes a wide one or one outside of the data.
func (w *twin) times(r *rand.Rand) (mint, maxt int64) {
	switch r.IntN(7) {
	case 0:
		return math.MinInt64, math.MaxInt64
	case 1:
		return w.end + 1000, w.end + 100_000
	case 2: // the start is after the end
		maxt = w.start + r.Int64N(w.end-w.start)
		return maxt + 1 + r.Int64N(1_000_000), maxt
	}
	mint = w.start + r.Int64N(w.end-w.start)
	return mint, mint + r.Int64N(w.end-w.start)/int64(1+r.IntN(20))
}

// matchers returns random matchers.
func (w *twin) matchers(r *rand.Rand) []*labels.Matcher {
	values := map[string][]string{
		"__name__": {"metric_1", "metric_.", "metric_(2|3)", "metric_2|metric_5", ".+", ""},
		"job":      {"api", "db", "a.b+c|d", "a.b\\+c\\|d", "api|db", "(?i)API", "n.*", ".*e"},
		"instance": {"host-00.*", "host-001:9001", ".*:9002", "host-00[0-3]:900.", ".*0.*"},
		"le":       {"", "0.1", ".*", ".+", "1|", "\\+Inf"},
		"zone":     {"eu", "", "ö.*", "eu|us", "(eu|)", "[^e].*"},
		"zzz_last": {"1", "", "1|2", "."},
		"nowhere":  {"", "x", ".*", ".+"},
	}
	var ms []*labels.Matcher
	for range 1 + r.IntN(3) {
		name := w.names[r.IntN(len(w.names))]
		value := values[name][r.IntN(len(values[name]))]
		ms = append(ms, labels.MustNewMatcher(labels.MatchType(r.IntN(4)), name, value))
	}
	return ms
}

func TestQueryableAgreesWithPrometheus(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			// Few bytes per query, so that windows are dropped and batches are small.
			w := newTwin(t, seed, nil, selectOptions{queryBytes: 8 << 20})
			r := rand.New(rand.NewPCG(seed, 1))
			lines := 0
			for range 30 {
				mint, maxt := w.times(r)
				ms := w.matchers(r)
				what := fmt.Sprintf("%v from %d to %d", ms, mint, maxt)
				want := w.querier(t, mint, maxt)
				got, err := w.gateway.Queryable(noTenant).Querier(mint, maxt)
				if err != nil {
					t.Fatal(err)
				}
				a := dump(t, want.Select(t.Context(), true, nil, ms...))
				b := dump(t, got.Select(t.Context(), true, nil, ms...))
				if diff := difference(a, b); diff != "" {
					t.Fatalf("%s (-Prometheus +gateway):\n%s", what, diff)
				}
				lines += len(b)
				compareLabelAPI(t, r, want, got, w.names, ms)
				if err := got.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if lines < 10_000 {
				t.Errorf("%d samples were compared: too few to tell", lines)
			}
		})
	}
}

func compareLabelAPI(t *testing.T, r *rand.Rand, want, got storage.LabelQuerier, names []string, ms []*labels.Matcher) {
	t.Helper()
	if r.IntN(3) == 0 {
		ms = nil
	}
	a, _, err := want.LabelNames(t.Context(), nil, ms...)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := got.LabelNames(t.Context(), nil, ms...)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(a, ",") != strings.Join(b, ",") {
		t.Fatalf("names for %v: got %v, want %v", ms, b, a)
	}
	name := names[r.IntN(len(names))]
	if a, _, err = want.LabelValues(t.Context(), name, nil, ms...); err != nil {
		t.Fatal(err)
	}
	if b, _, err = got.LabelValues(t.Context(), name, nil, ms...); err != nil {
		t.Fatal(err)
	}
	if strings.Join(a, ",") != strings.Join(b, ",") {
		t.Fatalf("values of %s for %v: got %q, want %q", name, ms, b, a)
	}
}

func TestChunkQueryableAgreesWithPrometheus(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newTwin(t, 100+seed, nil, selectOptions{queryBytes: 8 << 20})
			r := rand.New(rand.NewPCG(seed, 2))
			for range 30 {
				mint, maxt := w.times(r)
				ms := w.matchers(r)
				want := w.chunkQuerier(t, mint, maxt)
				got, err := w.gateway.ChunkQueryable(noTenant).ChunkQuerier(mint, maxt)
				if err != nil {
					t.Fatal(err)
				}
				a := dumpChunks(t, want.Select(t.Context(), true, nil, ms...))
				b := dumpChunks(t, got.Select(t.Context(), true, nil, ms...))
				if diff := difference(a, b); diff != "" {
					t.Fatalf("%v from %d to %d (-Prometheus +gateway):\n%s", ms, mint, maxt, diff)
				}
				if err := got.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSeriesAgreeWithPrometheus compares the chunks of Series, byte for byte, with those in the blocks, with
// and without external labels, in full and in shards.
func TestSeriesAgreeWithPrometheus(t *testing.T) {
	externals := []func(int) map[string]string{
		nil,
		func(int) map[string]string { return map[string]string{"cluster": "c1", "m": "x"} },
		func(n int) map[string]string { return map[string]string{"replica": fmt.Sprint(n % 2), "yyy": "1"} },
		func(n int) map[string]string { return map[string]string{"zone": fmt.Sprint("z", n%2), "zzzz": "1"} }, // overrides the series' own label
	}
	for i, external := range externals {
		t.Run(fmt.Sprintf("external labels %d", i), func(t *testing.T) {
			t.Parallel()
			w := newTwin(t, uint64(200+i), external, selectOptions{queryBytes: 16 << 20})
			r := rand.New(rand.NewPCG(uint64(i), 3))
			responded := 0
			for _, without := range [][]string{nil, {"replica"}, {"zone", "le"}} {
				for range 10 {
					request := storegateway.Request{Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "instance", "host.*")}, WithoutLabels: without}
					request.MinTime, request.MaxTime = w.times(r)
					if external == nil && r.IntN(2) == 0 {
						request.Matchers = w.matchers(r)
					}
					if r.IntN(3) == 0 {
						n := 1 + r.Uint64N(5)
						request.Shard = tsblock.Shard{Index: r.Uint64N(n), Count: n}
					}
					want := w.rawSeries(t, request, external)
					got := rawSet(t, w.gateway, request)
					if diff := difference(want, got); diff != "" {
						t.Fatalf("%+v (-Prometheus +gateway):\n%s", request, diff)
					}
					responded += len(got)
				}
			}
			if responded < 100 {
				t.Errorf("%d series were compared: too few to tell", responded)
			}
		})
	}
}

// rawSeries reads the expected series of a request from the blocks with Prometheus' reader.
func (w *twin) rawSeries(t *testing.T, request storegateway.Request, external func(int) map[string]string) []string {
	t.Helper()
	type one struct {
		labels labels.Labels
		chunks []string
	}
	found := map[string]*one{}
	for n, b := range w.blocks {
		if !b.OverlapsClosedInterval(request.MinTime, request.MaxTime) {
			continue
		}
		q, err := tsdb.NewBlockChunkQuerier(b, request.MinTime, request.MaxTime)
		if err != nil {
			t.Fatal(err)
		}
		closeOnce(t, q)
		set := q.Select(t.Context(), true, &storage.SelectHints{Start: request.MinTime, End: request.MaxTime, DisableTrimming: true}, request.Matchers...)
		var it chunks.Iterator
		for set.Next() {
			own := set.At().Labels()
			if c := request.Shard.Count; c > 1 && labels.StableHash(own)%c != request.Shard.Index {
				continue
			}
			lb := labels.NewBuilder(own)
			if external != nil {
				for name, value := range external(n) {
					lb.Set(name, value)
				}
			}
			ls := lb.Del(request.WithoutLabels...).Labels()
			s := found[ls.String()]
			if s == nil {
				s = &one{labels: ls}
				found[ls.String()] = s
			}
			it = set.At().Iterator(it)
			for it.Next() {
				c := it.At()
				s.chunks = append(s.chunks, chunkText(c.MinTime, c.MaxTime, byte(c.Chunk.Encoding()), c.Chunk.Bytes()))
			}
		}
		if err := set.Err(); err != nil {
			t.Fatal(err)
		}
	}
	var all []*one
	for _, s := range found {
		slices.Sort(s.chunks)
		s.chunks = slices.Compact(s.chunks)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *one) int { return labels.Compare(a.labels, b.labels) })
	out := []string{}
	for _, s := range all {
		out = append(out, s.labels.String()+" "+strings.Join(s.chunks, " "))
	}
	return out
}

// chunkText formats a chunk so that texts sort by time.
func chunkText(mint, maxt int64, encoding byte, data []byte) string {
	return fmt.Sprintf("%016x-%016x/%d:%x", uint64(mint)^1<<63, uint64(maxt)^1<<63, encoding, data)
}

// rawSet reads the series that the gateway returns.
func rawSet(t *testing.T, g *storegateway.Gateway, request storegateway.Request) []string {
	t.Helper()
	q, err := g.Admit(t.Context(), storegateway.Admission{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set, err := q.Select(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	out := []string{}
	for set.Next() {
		s := set.At()
		var texts []string
		for _, c := range s.Chunks {
			texts = append(texts, chunkText(c.MinTime, c.MaxTime, c.Encoding, c.Data))
		}
		if !slices.IsSorted(texts) {
			t.Errorf("chunks of %v are not in the order of time", s.Labels)
		}
		out = append(out, labelsOf(s).String()+" "+strings.Join(texts, " "))
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// difference returns cmp.Diff, and skips it for equal slices.
func difference(want, got []string) string {
	if slices.Equal(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

func labelsOf(s *storegateway.Series) labels.Labels {
	b := labels.NewScratchBuilder(len(s.Labels))
	for _, l := range s.Labels {
		b.Add(l.Name, l.Value)
	}
	return b.Labels()
}

func noTenant(context.Context) (string, error) { return "", nil }

// dump formats all series of a set, one line per sample.
func dump(t *testing.T, set storage.SeriesSet) []string {
	t.Helper()
	out := []string{}
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		it = s.Iterator(it)
		out = append(out, s.Labels().String())
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			out = append(out, testblock.SampleText(it, kind, true))
		}
		if err := it.Err(); err != nil {
			t.Fatalf("%s: %v", s.Labels(), err)
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// dumpChunks formats the samples of a set's chunks, independent of chunk boundaries.
func dumpChunks(t *testing.T, set storage.ChunkSeriesSet) []string {
	t.Helper()
	out := []string{}
	var (
		it      chunks.Iterator
		samples chunkenc.Iterator
	)
	for set.Next() {
		s := set.At()
		it = s.Iterator(it)
		out = append(out, s.Labels().String())
		for it.Next() {
			c := it.At()
			samples = c.Chunk.Iterator(samples)
			for kind := samples.Next(); kind != chunkenc.ValNone; kind = samples.Next() {
				out = append(out, testblock.SampleText(samples, kind, false))
				if at := samples.AtT(); at < c.MinTime || at > c.MaxTime {
					t.Errorf("%s: a sample at %d in a chunk from %d to %d", s.Labels(), at, c.MinTime, c.MaxTime)
				}
			}
			if err := samples.Err(); err != nil {
				t.Fatalf("%s: %v", s.Labels(), err)
			}
		}
		if err := it.Err(); err != nil {
			t.Fatalf("%s: %v", s.Labels(), err)
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
