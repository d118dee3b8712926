package tsblock

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
)

// readSelection reads the series of matchers with a new reader.
func readSelection(t *testing.T, e *testEnv, b *Block, s Select, ms ...*labels.Matcher) ([]row, Stats) {
	t.Helper()
	r, done := e.reader(t, b)
	defer done()
	p, err := r.Postings(t.Context(), ms...)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(t.Context(), r.Series(p, s))
	if err != nil {
		t.Fatal(err)
	}
	return rows, r.Stats()
}

// TestKnownSelections reads random selections of one block again and again, with random ranges of time, shards, and
// functions that keep some series, and compares each with that of a block whose cache is empty.
func TestKnownSelections(t *testing.T) {
	rng := testseed.Rand(t)
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 60, Samples: 300, Start: 1_000_000, Step: 15_000}
	series := testblock.Random(rng, o)
	id, err := testblock.Write(dir, slices.Values(series), testblock.Options{ChunkRange: o.ChunkRange()})
	if err != nil {
		t.Fatal(err)
	}
	e, name := newEnv(t), id.String()
	b := e.open(t, dir, name)
	var choices [][]*labels.Matcher
	for range 12 { // most labels of a random series
		var ms []*labels.Matcher
		series[rng.IntN(len(series))].Labels.Range(func(l labels.Label) {
			if rng.IntN(4) > 0 {
				ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
			}
		})
		if len(ms) == 0 || rng.IntN(2) == 0 {
			ms = append(ms, labels.MustNewMatcher(matcherTypes[rng.IntN(4)], "zone", []string{"", "eu", ".*", "u.*"}[rng.IntN(4)]))
		}
		choices = append(choices, ms)
	}
	known, found := 0, 0
	for i := range 120 {
		ms := choices[rng.IntN(len(choices))]
		s := Select{MinTime: o.Start + rng.Int64N(o.Step*int64(o.Samples)) - o.Step, SkipChunks: rng.IntN(4) == 0}
		s.MaxTime = s.MinTime + rng.Int64N(o.Step*200)
		if rng.IntN(2) == 0 {
			s.MinTime, s.MaxTime = 0, 1<<60
		}
		if rng.IntN(3) == 0 {
			s.Shard = Shard{rng.Uint64N(2), 2}
		}
		if rng.IntN(3) == 0 {
			s.Keep = func(ls []Label) bool { return len(ls)%2 == 0 }
		}
		got, stats := readSelection(t, e, b, s, ms...)
		cold := newEnv(t)
		want, _ := readSelection(t, cold, cold.open(t, dir, name), s, ms...)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("query %d, %v %+v: -cold +known\n%s", i, ms, s, d)
		}
		found += len(got)
		if stats.Table.Items == 0 {
			known++
		}
	}
	if known < 20 || found < 20 {
		t.Errorf("%d selections were known, and %d series were read", known, found)
	}
}

// TestKnownSelectionReadsNothing reads a selection of few series twice: the second time no page is used, neither of the
// index nor of its header. A selection of many series is not kept, nor one with long matchers.
func TestKnownSelectionReadsNothing(t *testing.T) {
	dir := t.TempDir()
	id, err := testblock.Write(dir, testblock.SameSeries(1, 200, 20), testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t)
	b := e.open(t, dir, id.String())
	whole := Select{MaxTime: 1 << 60}
	for _, c := range []struct {
		value  string
		series int
		known  bool
	}{
		{"00.+", 1, true}, {"1[0-4].*", 55, false}, {"none.*", 0, true}, {"00.+" + fmt.Sprintf("|%0*d.+", knownBytes, 7), 1, false},
	} {
		m := labels.MustNewMatcher(labels.MatchRegexp, "i", c.value)
		first, _ := readSelection(t, e, b, whole, m)
		next, stats := readSelection(t, e, b, whole, m)
		if len(first) != c.series || !cmp.Equal(first, next) {
			t.Errorf("%.20s: %d series, then %d, want %d", c.value, len(first), len(next), c.series)
		}
		unused := stats.Table == Usage{} && stats.Series.Cached+stats.Series.Fetched+stats.Symbols.Cached+stats.Symbols.Fetched == 0
		if unused != c.known {
			t.Errorf("%.20s: pages were used: %t; %+v", c.value, !unused, stats)
		}
	}
	// Each block has its own selections.
	other, err := testblock.Write(dir, testblock.SameSeries(2, 3, 20), testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := labels.MustNewMatcher(labels.MatchRegexp, "i", "0.+")
	if rows, _ := readSelection(t, e, b, whole, m); len(rows) != 10 {
		t.Errorf("%d series of the first block", len(rows))
	}
	if rows, _ := readSelection(t, e, e.open(t, dir, other.String()), whole, m); len(rows) != 3 {
		t.Errorf("%d series of the other block", len(rows))
	}
}

// loadSelection reads the chunks of a selection with a new reader, and returns their bytes.
func loadSelection(t *testing.T, e *testEnv, b *Block, s Select, ms ...*labels.Matcher) (chunks []string, stats Usage) {
	t.Helper()
	r, done := e.reader(t, b)
	defer done()
	p, err := r.Postings(t.Context(), ms...)
	if err != nil {
		t.Fatal(err)
	}
	for series := r.Series(p, s); ; {
		batch, err := series.Next(t.Context())
		if errors.Is(err, ErrNoMoreSeries) {
			return chunks, r.Stats().Chunks
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := r.LoadChunks(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for i := range batch.Len() {
			for j := range batch.Chunks(i) {
				encoding, data := batch.Data(i, j)
				chunks = append(chunks, fmt.Sprintf("%d %d %x", batch.SeriesRef(i), encoding, data))
			}
		}
		batch.Release()
	}
}

// TestKnownChunks reads the chunks of random selections of one block again and again, in random ranges of time, and
// compares each with that of a block whose cache is empty. Chunks of few series are read once, those of many each time.
func TestKnownChunks(t *testing.T) {
	rng := testseed.Rand(t)
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 60, Samples: 600, Start: 1_000_000, Step: 15_000}
	series := testblock.Random(rng, o)
	id, err := testblock.Write(dir, slices.Values(series), testblock.Options{ChunkRange: o.ChunkRange()})
	if err != nil {
		t.Fatal(err)
	}
	e, name := newEnv(t), id.String()
	b := e.open(t, dir, name)
	known, many := 0, 0
	for i := range 150 {
		var ms []*labels.Matcher
		series[rng.IntN(6)].Labels.Range(func(l labels.Label) {
			ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
		})
		if rng.IntN(4) == 0 {
			ms = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "zone", "|eu|.*")}
		}
		s := Select{MinTime: o.Start + rng.Int64N(o.Step*int64(o.Samples))}
		s.MaxTime = s.MinTime + rng.Int64N(o.Step*200)
		got, stats := loadSelection(t, e, b, s, ms...)
		cold := newEnv(t)
		want, _ := loadSelection(t, cold, cold.open(t, dir, name), s, ms...)
		if !slices.Equal(got, want) {
			t.Fatalf("query %d, %v %+v: %d chunks, want %d", i, ms, s, len(got), len(want))
		}
		switch {
		case len(got) == 0:
		case len(got) > knownChunks:
			many++
			if stats.Reads == 0 || stats.Cached > 0 {
				t.Errorf("query %d: %d chunks %+v", i, len(got), stats)
			}
		case stats.Cached > 0:
			known++
			if stats.Reads+stats.Fetched+stats.Wasted > 0 || stats.Items != int64(len(got)) {
				t.Errorf("query %d: known chunks were read: %+v", i, stats)
			}
		}
	}
	if known < 3 || many < 5 {
		t.Errorf("the chunks of %d queries were known; %d queries read many", known, many)
	}
}

// TestKnownChunkDamaged damages known chunks in memory: they are read again.
func TestKnownChunkDamaged(t *testing.T) {
	dir := t.TempDir()
	id, err := testblock.Write(dir, testblock.SameSeries(1, 3, 20), testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t)
	b := e.open(t, dir, id.String())
	all, m := Select{MaxTime: 1 << 60}, labels.MustNewMatcher(labels.MatchRegexp, "i", ".+")
	want, stats := loadSelection(t, e, b, all, m)
	if len(want) != 3 || stats.Reads == 0 {
		t.Fatalf("%d chunks, %+v", len(want), stats)
	}
	for _, at := range []int{0, 5, -1} {
		damaged := 0
		b.options.Cache.pages.DeleteFunc(func(k pageKey, chunk []byte) bool {
			if k.file >= chunkFile {
				chunk[(at+len(chunk))%len(chunk)] ^= 1
				damaged++
			}
			return false
		})
		if damaged != 3 {
			t.Fatalf("%d chunks are known", damaged)
		}
		for i, reads := range []bool{true, false} {
			got, stats := loadSelection(t, e, b, all, m)
			if !slices.Equal(got, want) || stats.Reads > 0 != reads {
				t.Errorf("byte %d, load %d: %v, want %v; %+v", at, i, got, want, stats)
			}
		}
	}
}
