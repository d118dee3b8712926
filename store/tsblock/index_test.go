package tsblock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
)

// An oracle is Prometheus' own reader of an index.
type oracle struct {
	*index.Reader
}

func openOracle(t testing.TB, path string) oracle {
	t.Helper()
	r, err := index.NewFileReader(path, index.DecodePostingsRaw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return oracle{r}
}

func (o oracle) Close() error { return nil }

// refs returns the references that Prometheus' reader returns for the matchers.
func (o oracle) refs(t testing.TB, ms ...*labels.Matcher) []uint32 {
	t.Helper()
	p, err := tsdb.PostingsForMatchers(t.Context(), o, slices.Clone(ms)...)
	if err != nil {
		t.Fatal(err)
	}
	refs := []uint32{}
	for p.Next() {
		refs = append(refs, uint32(p.At()))
	}
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	return refs
}

// A row is a series in the form that tests compare.
type row struct {
	Ref    uint32
	Labels string
	Chunks []Chunk
}

// rows returns the series that Prometheus' querier returns for references: see blockBaseSeriesSet in
// tsdb/querier.go.
func (o oracle) rows(t testing.TB, refs []uint32, mint, maxt int64, shard Shard) []row {
	t.Helper()
	rows := []row{}
	var b labels.ScratchBuilder
	var metas []chunks.Meta
	for _, ref := range refs {
		if err := o.Series(storage.SeriesRef(ref), &b, &metas); err != nil {
			t.Fatal(err)
		}
		w := row{Ref: ref, Labels: b.Labels().String()}
		if !shard.All() && labels.StableHash(b.Labels())%shard.Count != shard.Index {
			continue
		}
		for _, m := range metas {
			if m.MaxTime >= mint && m.MinTime <= maxt {
				w.Chunks = append(w.Chunks, Chunk{uint64(m.Ref), m.MinTime, m.MaxTime})
			}
		}
		if len(w.Chunks) > 0 {
			rows = append(rows, w)
		}
	}
	return rows
}

func promLabels(set []Label) labels.Labels {
	var b labels.ScratchBuilder
	for _, l := range set {
		b.Add(l.Name, l.Value)
	}
	return b.Labels().Copy()
}

// readRows reads a series reader to its end.
func readRows(ctx context.Context, s *SeriesReader) ([]row, error) {
	rows := []row{}
	for {
		b, err := s.Next(ctx)
		if errors.Is(err, ErrNoMoreSeries) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range b.Len() {
			w := row{Ref: b.SeriesRef(i), Labels: promLabels(b.Labels(i)).String()}
			if c := b.Chunks(i); len(c) > 0 {
				w.Chunks = slices.Clone(c)
			}
			rows = append(rows, w)
		}
		b.Release()
	}
}

func drain(p *Postings) []uint32 {
	refs := []uint32{}
	for p.next() {
		refs = append(refs, p.at)
	}
	return refs
}

var matcherTypes = []labels.MatchType{labels.MatchEqual, labels.MatchNotEqual, labels.MatchRegexp, labels.MatchNotRegexp}

// randomMatchers returns conditions of every kind, on existing and missing names.
func randomMatchers(rng *rand.Rand) []*labels.Matcher {
	names := []string{"__name__", "unique", "some", "mod", "long", "missing"}
	values := []string{
		"", "a", "b", "ab", "metric_1", "v7", "0005760", "nothing", "\n", "ü",
		".*", ".+", "a|b", "a|", "a.*", ".*5.*", "v1.*", "v[0-4]", "metric_(1|2)", "(?i)A", "x\\|y", "0005760.*", ".*b", "v1|v2|v3|zz", "|", "[a-b]+", "a.c", "000.*|v1.*", "(?i:metric_.*)",
	}
	ms := make([]*labels.Matcher, 0, 4)
	for range 1 + rng.IntN(4) {
		name := names[rng.IntN(len(names))]
		ms = append(ms, labels.MustNewMatcher(matcherTypes[rng.IntN(4)], name, values[rng.IntN(len(values))]))
	}
	return ms
}

// indexes returns the indexes that tests compare on: a generated one, and one of version 1 from Prometheus'
// tests.
func indexes(t *testing.T) map[string][2]string {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(1, 2)), 3000))
	small, smallName := writeIndex(t, randomSeries(rand.New(rand.NewPCG(3, 4)), 20))
	v1, v1Name := versionOne(t)
	return map[string][2]string{"v2": {dir, name}, "small": {small, smallName}, "v1": {v1, v1Name}}
}

func TestPostingsAgainstPrometheus(t *testing.T) {
	for kind, at := range indexes(t) {
		t.Run(kind, func(t *testing.T) {
			o := openOracle(t, filepath.Join(at[0], at[1], "index"))
			e := newEnv(t)
			b := e.open(t, at[0], at[1])
			rng := rand.New(rand.NewPCG(7, 7))
			for range 1500 {
				ms := randomMatchers(rng)
				r, done := e.reader(t, b)
				p, err := r.Postings(t.Context(), ms...)
				if err != nil {
					t.Fatalf("%v: %v", ms, err)
				}
				most := p.most
				got, want := drain(p), o.refs(t, ms...)
				if !slices.Equal(got, want) {
					t.Fatalf("%v: %d series, Prometheus has %d\n%v\n%v", ms, len(got), len(want), got, want)
				}
				if most < len(got) {
					t.Fatalf("%v: %d series of at most %d", ms, len(got), most)
				}
				done()
			}
		})
	}
}

// evenText keeps the series whose labels have a text of even length.
func evenText(set []Label) bool { return len(promLabels(set).String())%2 == 0 }

func TestSeriesAgainstPrometheus(t *testing.T) {
	for kind, at := range indexes(t) {
		t.Run(kind, func(t *testing.T) {
			o := openOracle(t, filepath.Join(at[0], at[1], "index"))
			e := newEnv(t)
			b := e.open(t, at[0], at[1])
			rng := rand.New(rand.NewPCG(8, 8))
			for i := range 60 {
				ms := randomMatchers(rng)
				s := Select{MinTime: int64(rng.IntN(3000)) - 100, BatchBytes: int64(rng.IntN(100_000))}
				s.MaxTime = s.MinTime + int64(rng.IntN(1000))
				if i%3 == 0 {
					s.MinTime, s.MaxTime = math.MinInt64, math.MaxInt64
				}
				if i%2 == 0 {
					s.Shard.Count = uint64(rng.IntN(5))
					s.Shard.Index = rng.Uint64N(max(s.Shard.Count, 1))
				}
				s.SkipChunks = i%5 == 0
				if i%4 == 1 {
					s.Keep = evenText
				}
				r, done := e.reader(t, b)
				p, err := r.Postings(t.Context(), ms...)
				if err != nil {
					t.Fatal(err)
				}
				got, err := readRows(t.Context(), r.Series(p, s))
				if err != nil {
					t.Fatalf("%v: %v", ms, err)
				}
				want := o.rows(t, o.refs(t, ms...), s.MinTime, s.MaxTime, s.Shard)
				if s.Keep != nil {
					want = slices.DeleteFunc(want, func(w row) bool { return len(w.Labels)%2 == 1 })
				}
				if s.SkipChunks {
					for i := range want {
						want[i].Chunks = nil
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("%v %+v: -Prometheus +ours\n%s", ms, s, d)
				}
				done()
			}
		})
	}
}

func TestNamesAndValuesAgainstPrometheus(t *testing.T) {
	for kind, at := range indexes(t) {
		t.Run(kind, func(t *testing.T) {
			o := openOracle(t, filepath.Join(at[0], at[1], "index"))
			e := newEnv(t)
			b := e.open(t, at[0], at[1])
			all := o.all(t)
			rng := rand.New(rand.NewPCG(9, 9))
			for i := range 200 {
				var ms []*labels.Matcher
				if i%4 > 0 {
					ms = randomMatchers(rng)
				}
				limit := 0
				if i%3 == 0 {
					limit = 1 + rng.IntN(5)
				}
				r, done := e.reader(t, b)
				names, err := r.LabelNames(t.Context(), limit, ms...)
				if err != nil {
					t.Fatal(err)
				}
				if want := wantNames(all, ms, limit); !slices.Equal(names, want) {
					t.Fatalf("names of %v, limit %d: %q, want %q", ms, limit, names, want)
				}
				name := []string{"__name__", "some", "mod", "unique", "missing", "long"}[rng.IntN(6)]
				values, err := r.LabelValues(t.Context(), name, limit, ms...)
				if err != nil {
					t.Fatal(err)
				}
				if want := wantValues(all, name, ms, limit); !slices.Equal(values, want) {
					t.Fatalf("values of %s for %v, limit %d: %q, want %q", name, ms, limit, values, want)
				}
				checkMoreValues(t, rng, r, all, name, limit, ms)
				done()
			}
		})
	}
}

// checkMoreValues compares known values, some of them of the label, with more values with the union.
func checkMoreValues(t *testing.T, rng *rand.Rand, r *Reader, all []testSeriesRow, name string, limit int, ms []*labels.Matcher) {
	t.Helper()
	known := []string{"", "between", "~"}[rng.IntN(3):]
	omitted := rng.IntN(4) // in parts of four
	for _, v := range wantValues(all, name, nil, 0) {
		if rng.IntN(4) >= omitted {
			known = append(known, v)
		}
	}
	known = limited(slices.Clone(known), 0)
	more, err := r.MoreLabelValues(t.Context(), name, known, limit, ms...)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(more) || slices.ContainsFunc(more, func(v string) bool { return slices.Contains(known, v) }) {
		t.Fatalf("values of %s for %v without %q: %q", name, ms, known, more)
	}
	got := limited(slices.Concat(known, more), limit)
	if want := limited(slices.Concat(known, wantValues(all, name, ms, 0)), limit); !slices.Equal(got, want) {
		t.Fatalf("values of %s for %v, limit %d, with those known, %q: %q, want %q", name, ms, limit, known, got, want)
	}
}

// A testSeriesRow is the labels of a series by name.
type testSeriesRow map[string]string

// all returns the labels of all series.
func (o oracle) all(t testing.TB) []testSeriesRow {
	var all []testSeriesRow
	var b labels.ScratchBuilder
	for _, ref := range o.refs(t, labels.MustNewMatcher(labels.MatchEqual, "", "")) {
		if err := o.Series(storage.SeriesRef(ref), &b, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, b.Labels().Map())
	}
	return all
}

func (w testSeriesRow) matches(ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(w[m.Name]) {
			return false
		}
	}
	return true
}

func wantNames(all []testSeriesRow, ms []*labels.Matcher, limit int) []string {
	var names []string
	for _, w := range all {
		if w.matches(ms) {
			for name := range w {
				names = append(names, name)
			}
		}
	}
	return limited(names, limit)
}

func wantValues(all []testSeriesRow, name string, ms []*labels.Matcher, limit int) []string {
	var values []string
	for _, w := range all {
		if v, ok := w[name]; ok && w.matches(ms) {
			values = append(values, v)
		}
	}
	return limited(values, limit)
}

// BenchmarkIndex is the index part of a query like those of the published benchmark: of 1,000 series with 48
// chunks each, those whose label contains a digit.
func BenchmarkIndex(b *testing.B) {
	var all []testSeries
	ref := chunks.ChunkRef(8)
	for i := range 1000 {
		s := testSeries{labels: labels.FromStrings("foo", "bar", "j", fmt.Sprint(i*5760), "i", fmt.Sprintf("%07daaaaaaaaaabbbbbbbbbbccccccccccdddddddddd", i*5760))}
		for j := range 48 {
			at := int64(i*5760+j*120) * 15_000
			s.chunks = append(s.chunks, chunks.Meta{Ref: ref, MinTime: at, MaxTime: at + 119*15_000})
			ref += 890
		}
		all = append(all, s)
	}
	dir, name := writeIndex(b, all)
	for _, c := range []struct {
		name  string
		m     *labels.Matcher
		shard Shard
	}{
		{"regexp", labels.MustNewMatcher(labels.MatchRegexp, "i", ".*5.*"), Shard{}},
		{"shard", labels.MustNewMatcher(labels.MatchRegexp, "i", ".+"), Shard{3, 20}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := newEnv(b)
			block := e.open(b, dir, name)
			b.ReportAllocs()
			series, chunks := 0, 0
			for b.Loop() {
				q, err := e.gate.Admit(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				r := block.Reader(q)
				p, err := r.Postings(b.Context(), c.m)
				if err != nil {
					b.Fatal(err)
				}
				s := r.Series(p, Select{MinTime: 0, MaxTime: math.MaxInt64, BatchBytes: 64 << 20, Shard: c.shard})
				series, chunks = 0, 0
				for {
					batch, err := s.Next(b.Context())
					if errors.Is(err, ErrNoMoreSeries) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					series += batch.Len()
					chunks += batch.ChunkCount()
					batch.Release()
				}
				r.Close()
				q.Close()
			}
			b.ReportMetric(float64(series), "series/op")
			b.ReportMetric(float64(chunks), "chunks/op")
		})
	}
}
