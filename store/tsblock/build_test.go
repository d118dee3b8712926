package tsblock

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"

	"github.com/taredb/tare/internal/slab"
)

// A testSeries is a series of a test's index.
type testSeries struct {
	labels labels.Labels
	chunks []chunks.Meta
}

// writeIndex writes a block that has a meta.json and an index, written by Prometheus' own writer, but no
// chunks. It returns the directory of the block and its name.
func writeIndex(t testing.TB, series []testSeries) (dir, name string) {
	t.Helper()
	id := ulid.MustNew(1, rand.NewChaCha8([32]byte{1}))
	dir, name = t.TempDir(), id.String()
	if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(series, func(a, b testSeries) int { return labels.Compare(a.labels, b.labels) })
	series = slices.CompactFunc(series, func(a, b testSeries) bool { return labels.Equal(a.labels, b.labels) })
	symbols := map[string]struct{}{}
	for _, s := range series {
		s.labels.Range(func(l labels.Label) { symbols[l.Name], symbols[l.Value] = struct{}{}, struct{}{} })
	}
	sorted := make([]string, 0, len(symbols))
	for s := range symbols {
		sorted = append(sorted, s)
	}
	slices.Sort(sorted)
	w, err := index.NewWriter(t.Context(), filepath.Join(dir, name, "index"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sorted {
		if err := w.AddSymbol(s); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range series {
		if err := w.AddSeries(storage.SeriesRef(i), s.labels, s.chunks...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(Meta{ULID: id, MinTime: 0, MaxTime: 1 << 40, Version: 1, Stats: metaStats{NumSeries: uint64(len(series))}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name, MetaFile), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, name
}

// randomSeries returns n series with few and many distinct values, missing labels, and unusual characters.
func randomSeries(rng *rand.Rand, n int) []testSeries {
	var all []testSeries
	ref := chunks.ChunkRef(8)
	for i := range n {
		b := labels.NewBuilder(labels.EmptyLabels())
		b.Set("__name__", fmt.Sprintf("metric_%d", rng.IntN(5)))
		b.Set("unique", fmt.Sprintf("%07d%s", i*5760, "aaaaaaaaaabbbbbbbbbb"[:rng.IntN(20)]))
		if rng.IntN(3) > 0 {
			b.Set("some", []string{"a", "b", "ab", "abc", "\n", "ü", "x|y", "a.c"}[rng.IntN(8)])
		}
		if rng.IntN(2) > 0 {
			b.Set("mod", fmt.Sprintf("v%d", rng.IntN(100)))
		}
		if rng.IntN(50) == 0 {
			b.Set("long", string(make([]byte, rng.IntN(40_000)))+"end")
		}
		all = append(all, testSeries{labels: b.Labels()})
	}
	slices.SortFunc(all, func(a, b testSeries) int { return labels.Compare(a.labels, b.labels) })
	for i := range all {
		var metas []chunks.Meta
		at := int64(rng.IntN(1000))
		for range rng.IntN(6) {
			length := int64(rng.IntN(500))
			metas = append(metas, chunks.Meta{Ref: ref, MinTime: at, MaxTime: at + length})
			at += length + 1 + int64(rng.IntN(300))
			ref += chunks.ChunkRef(10 + rng.IntN(1000))
			if rng.IntN(200) == 0 {
				ref = (ref>>32+1)<<32 + 8
			}
		}
		all[i].chunks = metas
	}
	return all
}

// A testEnv has the options that blocks of a test share.
type testEnv struct {
	options Options
	gate    *slab.Gate
}

func newEnv(t testing.TB) *testEnv {
	e := &testEnv{
		options: Options{
			Cache: NewCache(64 << 20), Pool: slab.NewPool(slab.PoolOptions{}),
			Entries: NewEntries(slab.EntriesOptions{}), LocalDir: t.TempDir(),
		},
		gate: slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20}),
	}
	t.Cleanup(func() {
		if held := e.gate.Stats().Held; held != 0 {
			t.Errorf("%d bytes are still reserved", held)
		}
		if p := e.options.Pool.Stats(); p.Calls != p.Releases || p.Misused != 0 {
			t.Errorf("slabs of bytes: %+v", p)
		}
		if p := e.options.Entries.Stats(); p.Calls != p.Releases || p.Misused != 0 {
			t.Errorf("slabs of entries: %+v", p)
		}
	})
	return e
}

// open opens a block of a directory; it is closed at the end of the test.
func (e *testEnv) open(t testing.TB, dir, name string) *Block {
	t.Helper()
	source := Dir(dir)
	b, err := openBlock(t.Context(), source, name, e.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// reader returns a reader with a quota; done closes both.
func (e *testEnv) reader(t testing.TB, b *Block) (r *Reader, done func()) {
	t.Helper()
	q, err := e.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r = b.Reader(q)
	return r, func() {
		r.Close()
		q.Close()
	}
}

// openBlock returns the block with the prefix.
func openBlock(ctx context.Context, source Source, prefix string, o Options) (*Block, error) {
	size, err := source.Size(ctx, prefix+"/"+MetaFile)
	if err != nil {
		return nil, err
	}
	text := make([]byte, size)
	if _, err := source.ReadRange(ctx, prefix+"/"+MetaFile, 0, text); err != nil {
		return nil, err
	}
	m, err := ParseMeta(text)
	if err != nil {
		return nil, err
	}
	return New(source, prefix, m, o)
}
