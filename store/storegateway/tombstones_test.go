package storegateway_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// A deletedTwin is a gateway and Prometheus' reader over blocks from which Prometheus deletes series.
type deletedTwin struct {
	*twin
	dir string
	ids []string
}

func newDeletedTwin(t *testing.T, seed uint64) *deletedTwin {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 17))
	ro := testblock.RandomOptions{Series: 80, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
	all := testblock.Random(r, ro)
	w := &deletedTwin{twin: &twin{start: ro.Start, end: ro.Start + int64(ro.Samples)*ro.Step}, dir: t.TempDir()}
	w.names = []string{"__name__", "job", "instance", "le", "zone", "zzz_last", "nowhere"}
	span := (w.end - w.start) / 3
	for n := range int64(3) {
		from, to := w.start+n*span, w.start+(n+1)*span
		if n == 1 {
			to += span / 3 // overlaps the next block
		}
		id, err := testblock.Write(w.dir, testblock.Between(all, from, to), testblock.Options{ChunkRange: ro.ChunkRange()})
		if err != nil {
			t.Fatal(err)
		}
		b, err := tsdb.OpenBlock(nil, filepath.Join(w.dir, id.String()), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		w.blocks, w.ids = append(w.blocks, b), append(w.ids, id.String())
	}
	w.gateway = teststore.Open(t, w.dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutPrometheus })
	return w
}

// delete deletes series of some blocks, as Prometheus' API does.
func (w *deletedTwin) delete(t *testing.T, r *rand.Rand) {
	t.Helper()
	mint, maxt := w.times(r)
	ms := w.matchers(r)
	for i, b := range w.blocks {
		if r.IntN(3) == 0 {
			continue
		}
		if err := b.Delete(t.Context(), mint, maxt, ms...); err != nil {
			t.Fatal(err)
		}
		// Timestamps of a file system may be coarser than the interval between two deletions.
		later := time.Now().Add(time.Duration(r.Int64N(1e15)))
		if err := os.Chtimes(filepath.Join(w.dir, w.ids[i], metaName), later, later); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.gateway.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.gateway.Blocks()); n != len(w.blocks) {
		t.Fatalf("%d blocks are served: %v", n, w.gateway.Skipped())
	}
}

// TestDeletedSeries compares every way of reading with Prometheus while series are deleted from the blocks.
func TestDeletedSeries(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newDeletedTwin(t, seed)
			r := rand.New(rand.NewPCG(seed, 3))
			lines := 0
			for range 12 {
				w.delete(t, r)
				for range 4 {
					lines += w.compare(t, r)
				}
			}
			deleted := 0
			handles, _ := w.gateway.Open("", math.MinInt64, math.MaxInt64, blocksync.Raw)
			for _, h := range handles {
				deleted += len(h.Deletions())
			}
			blocksync.ReleaseAll(handles)
			if deleted < 20 || lines < 1000 {
				t.Errorf("samples of %d series were deleted, %d lines were compared: too few to tell", deleted, lines)
			}
		})
	}
}

func (w *deletedTwin) compare(t *testing.T, r *rand.Rand) int {
	t.Helper()
	mint, maxt := w.times(r)
	ms := w.matchers(r)
	what := fmt.Sprintf("%v from %d to %d", ms, mint, maxt)
	got, err := w.gateway.Queryable(noTenant).Querier(mint, maxt)
	if err != nil {
		t.Fatal(err)
	}
	a := unlessPanics(func() []string { return dump(t, w.querier(t, mint, maxt).Select(t.Context(), true, nil, ms...)) })
	if a == nil {
		return 0
	}
	b := dump(t, got.Select(t.Context(), true, nil, ms...))
	if diff := difference(a, b); diff != "" {
		t.Fatalf("%s (-Prometheus +gateway):\n%s", what, diff)
	}
	if err := got.Close(); err != nil {
		t.Fatal(err)
	}
	chunked, err := w.gateway.ChunkQueryable(noTenant).ChunkQuerier(mint, maxt)
	if err != nil {
		t.Fatal(err)
	}
	c := dumpChunks(t, chunked.Select(t.Context(), true, nil, ms...))
	d := unlessPanics(func() []string {
		return dumpChunks(t, w.chunkQuerier(t, mint, maxt).Select(t.Context(), true, nil, ms...))
	})
	if diff := difference(d, c); d != nil && diff != "" {
		t.Fatalf("chunks of %s (-Prometheus +gateway):\n%s", what, diff)
	}
	if err := chunked.Close(); err != nil {
		t.Fatal(err)
	}
	// The StoreAPI's chunks extend beyond the range; compare over all time.
	if diff := difference(w.allSamples(t, ms), w.storeSamples(t, ms)); diff != "" {
		t.Fatalf("samples of %v over all time (-Prometheus +StoreAPI):\n%s", ms, diff)
	}
	return len(b)
}

// unlessPanics returns nil if Prometheus panics: adding the range of a query to the deleted ranges indexes
// past their end if a deletion extends beyond the range (tsdb/tombstones, Intervals.Add).
func unlessPanics(read func() []string) (lines []string) {
	defer func() {
		if _, ok := recover().(runtime.Error); ok {
			lines = nil
		}
	}()
	return read()
}

// allSamples returns the series and times of Prometheus' samples.
func (w *deletedTwin) allSamples(t *testing.T, ms []*labels.Matcher) []string {
	t.Helper()
	var lines []string
	for _, line := range dump(t, w.querier(t, math.MinInt64, math.MaxInt64).Select(t.Context(), true, nil, ms...)) {
		if !strings.HasPrefix(line, "{") {
			line, _, _ = strings.Cut(line, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// storeSamples returns the same for the chunks that the StoreAPI sends.
func (w *deletedTwin) storeSamples(t *testing.T, ms []*labels.Matcher) []string {
	t.Helper()
	q, err := w.gateway.Admit(t.Context(), storegateway.Admission{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set, err := q.Select(t.Context(), storegateway.Request{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Matchers: ms})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	lines := []string{}
	for set.Next() {
		lines = append(lines, labelsOf(set.At()).String())
		var times []int64
		for _, c := range set.At().Chunks {
			chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Encoding), c.Data)
			if err != nil {
				t.Fatal(err)
			}
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				times = append(times, it.AtT())
			}
		}
		slices.Sort(times)
		for _, at := range slices.Compact(times) {
			lines = append(lines, fmt.Sprint(at))
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestDamagedTombstones damages or removes the tombstones file: the block is not served, and results have a
// warning.
func TestDamagedTombstones(t *testing.T) {
	w := newDeletedTwin(t, 1)
	if err := w.blocks[1].Delete(t.Context(), w.start, w.end, named()...); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(w.dir, w.ids[1], tombstonesName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 4))
	for i := range 30 {
		damaged := slices.Clone(whole)
		switch i % 3 {
		case 0:
			damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
		case 1:
			damaged = damaged[:r.IntN(len(damaged))]
		default:
			damaged = nil
		}
		if err := os.WriteFile(name, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if damaged == nil {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		g := teststore.Open(t, w.dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutPrometheus })
		base := newHTTPServer(t, g, nil)
		_, respond := getJSON(t, fmt.Sprintf("%s/api/v1/query?time=%d&query=%s", base, w.start/1000+2000, url.QueryEscape(`count({__name__=~".+"})`)), "")
		if text := fmt.Sprint(respond["warnings"]); !strings.Contains(text, w.ids[1]) || !strings.Contains(text, "2023-11-1") || !strings.Contains(text, "tombstones") {
			if bytes.Equal(damaged, whole) || len(damaged) > 4 && damaged[4] != whole[4] && len(g.Blocks()) == 3 {
				continue
			}
			t.Fatalf("trial %d, %d of %d bytes: %v", i, len(damaged), len(whole), respond)
		}
	}
}

func named() []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, "")}
}
