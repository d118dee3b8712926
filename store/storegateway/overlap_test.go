package storegateway_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/store/storegateway"
)

// An overlapTwin has series whose chunks overlap within a block, and Prometheus' reader of the same chunks, in blocks
// that overlap each other instead.
type overlapTwin struct {
	gateway    *storegateway.Gateway
	theirs     []*tsdb.Block
	start, end int64
	several    int // series with overlapping chunks
}

func newOverlapTwin(t *testing.T, r *rand.Rand, o selectOptions) *overlapTwin {
	t.Helper()
	ro := testblock.RandomOptions{Series: 10 + r.IntN(20), Samples: 200 + r.IntN(300), Start: r.Int64N(1e12) - 5e11, Step: 15_000}
	all := testblock.Random(r, ro)
	w := &overlapTwin{start: ro.Start, end: ro.Start + int64(ro.Samples)*ro.Step}
	parts := make([][]testblock.Series, 2+r.IntN(5))
	for _, s := range all {
		n := 1 + r.IntN(len(parts))
		if n > 1 {
			w.several++
		}
		for i, p := range spread(r, s, n) {
			parts[i] = append(parts[i], p)
		}
	}
	ours, theirs := t.TempDir(), t.TempDir()
	blocks := 1 + r.IntN(3)
	for b := range blocks {
		var mixed []testblock.Series
		for i := b; i < len(parts); i += blocks {
			mixed = append(mixed, parts[i]...)
		}
		if len(mixed) > 0 {
			_, err := testblock.WriteChunks(ours, mixed, map[string]string{})
			run(t, err)
		}
	}
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		id, err := testblock.WriteChunks(theirs, p, nil)
		run(t, err)
		b, err := tsdb.OpenBlock(nil, filepath.Join(theirs, id.String()), nil, nil)
		run(t, err)
		t.Cleanup(func() { run(t, b.Close()) })
		w.theirs = append(w.theirs, b)
	}
	w.gateway = newSelectGateway(t, ours, o)
	return w
}

// spread divides the samples of a series in n parts at random, in runs; some samples are in several parts.
func spread(r *rand.Rand, s testblock.Series, n int) []testblock.Series {
	parts := make([]testblock.Series, n)
	for i := range parts {
		parts[i].Labels = s.Labels
	}
	at, again := 0, 0
	for _, x := range s.Samples {
		if r.IntN(20) == 0 || r.IntN(2) == 0 && n > 3 {
			at, again = r.IntN(n), r.IntN(n)
		}
		parts[at].Samples = append(parts[at].Samples, x)
		if again != at && r.IntN(3) == 0 {
			parts[again].Samples = append(parts[again].Samples, x)
		}
	}
	return parts
}

// overlapSamples returns the samples of a select as lines, without counter reset hints, which depend on the chunks. With
// r it seeks between them.
func overlapSamples(t *testing.T, set storage.SeriesSet, r *rand.Rand) (lines []string) {
	t.Helper()
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		lines = append(lines, set.At().Labels().String())
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			lines = append(lines, testblock.SampleText(it, kind, false))
			if r != nil && r.IntN(10) == 0 {
				if kind = it.Seek(it.AtT() + r.Int64N(2_000_000)); kind == chunkenc.ValNone {
					break
				}
				lines = append(lines, testblock.SampleText(it, kind, false))
			}
		}
		run(t, it.Err())
	}
	run(t, set.Err())
	return lines
}

// read returns the samples that a reader has, after seeks if there are any.
func (w *overlapTwin) read(t *testing.T, from storage.Queryable, mint, maxt int64, seeks *rand.Rand) []string {
	t.Helper()
	q, err := from.Querier(mint, maxt)
	run(t, err)
	defer q.Close()
	return overlapSamples(t, q.Select(t.Context(), true, nil, named()...), seeks)
}

// TestOverlappingChunks reads blocks in which the chunks of a series overlap: each sample comes once, in the order of
// time, as from Prometheus' reader of blocks that overlap.
func TestOverlappingChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.New(t), 17))
	compared := 0
	for range 2 {
		w := newOverlapTwin(t, r, selectOptions{})
		ours, theirs := w.gateway.Queryable(noTenant), queryBlocks(w.theirs)
		for range 5 {
			mint := w.start + r.Int64N(w.end-w.start) - 1_000_000
			maxt := mint + r.Int64N(w.end-w.start+2_000_000)
			want := w.read(t, theirs, mint, maxt, nil)
			if d := difference(want, w.read(t, ours, mint, maxt, nil)); d != "" {
				t.Fatalf("from %d to %d: %s", mint, maxt, d)
			}
			q, err := w.gateway.ChunkQueryable(noTenant).ChunkQuerier(mint, maxt)
			run(t, err)
			got := dumpChunks(t, q.Select(t.Context(), true, nil, named()...))
			run(t, q.Close())
			if d := difference(want, got); d != "" {
				t.Fatalf("as chunks from %d to %d: %s", mint, maxt, d)
			}
			seeks := func() *rand.Rand { return rand.New(rand.NewPCG(uint64(mint), uint64(maxt))) }
			if d := difference(w.read(t, theirs, mint, maxt, seeks()), w.read(t, ours, mint, maxt, seeks())); d != "" {
				t.Fatalf("seeking from %d to %d: %s", mint, maxt, d)
			}
			compared += len(want)
		}
		if w.several == 0 {
			t.Error("no series has overlapping chunks")
		}
	}
	if compared < 1000 {
		t.Errorf("only %d samples were compared", compared)
	}
}

// TestOverlappingChunksAreSent compares the chunks of a stream of series, of blocks in which the chunks of a series overlap,
// with those that Prometheus reads from blocks that overlap each other instead.
func TestOverlappingChunksAreSent(t *testing.T) {
	w := newOverlapTwin(t, rand.New(rand.NewPCG(testseed.New(t), 18)), selectOptions{})
	want := make(map[string][]string)
	for _, b := range w.theirs {
		q, err := tsdb.NewBlockChunkQuerier(b, math.MinInt64, math.MaxInt64)
		run(t, err)
		for set := q.Select(t.Context(), true, nil, named()...); set.Next(); {
			series := set.At().Labels().String()
			for it := set.At().Iterator(nil); it.Next(); {
				c := it.At()
				want[series] = append(want[series], chunkText(c.MinTime, c.MaxTime, byte(c.Chunk.Encoding()), c.Chunk.Bytes()))
			}
		}
		run(t, q.Close())
	}
	var lines []string
	for _, series := range slices.SortedFunc(maps.Keys(want), strings.Compare) {
		slices.Sort(want[series])
		lines = append(lines, series+" "+strings.Join(slices.Compact(want[series]), " "))
	}
	request := forever()
	request.Matchers = named()
	got := rawSet(t, w.gateway, request)
	slices.Sort(got)
	slices.Sort(lines)
	if d := difference(lines, got); d != "" || w.several == 0 {
		t.Errorf("%d series with overlapping chunks: %s", w.several, d)
	}
}

// TestMisorderedChunks has an index with right checksums list chunks of a series out of the order of their times, and one
// chunk with two times: the block is damaged. The warning names the block once.
func TestMisorderedChunks(t *testing.T) {
	series := func(from, to int64) (s testblock.Series) {
		s.Labels = labels.FromStrings("__name__", "up")
		for at := from; at < to; at += 1000 {
			s.Samples = append(s.Samples, testblock.Sample{T: at, V: 1})
		}
		return s
	}
	const start = int64(1_700_000_000_000)
	for _, c := range []struct{ field, reason string }{
		{"", ""},
		{"first time of a chunk", "the chunks of a series are not in the order of their times"},
		{"reference of a chunk", "the chunks of a series are not in the order of their times"},
		{"last time of a chunk", "series entry ends early or has a number out of range"},
	} {
		t.Run(c.field, func(t *testing.T) {
			dir := t.TempDir()
			id, err := testblock.WriteChunks(dir, []testblock.Series{series(start, start+60_000), series(start+30_000, start+90_000)}, map[string]string{})
			run(t, err)
			file := filepath.Join(dir, id.String(), indexName)
			text, err := os.ReadFile(file)
			run(t, err)
			fields := indexFields(text)
			at := slices.IndexFunc(fields, func(f fileField) bool { return f.kind == "length of a series" })
			if i := slices.IndexFunc(fields, func(f fileField) bool { return f.kind == c.field }); i >= 0 {
				text = changedField(text, fields[i], map[string]string{
					"first time of a chunk": "far before", "reference of a chunk": "zero", "last time of a chunk": "negative",
				}[c.field], true)
				run(t, os.WriteFile(file, text, 0o600))
			}
			a := newAPI(t, newSelectGateway(t, dir, selectOptions{}), report.New(slog.New(slog.NewTextHandler(t.Output(), nil))), requestLimit/2)
			_, body := getJSON(t, a.base+"/api/v1/query?query=count_over_time(up[2m])&time="+strconv.FormatInt(start/1000+100, 10), "")
			want := fmt.Sprintf("incomplete result: 1 blocks of the time range are not served, reason damaged; block %s (%s to %s): index at %d: %s",
				id, time.UnixMilli(start).UTC().Format(time.RFC3339), time.UnixMilli(start+89_001).UTC().Format(time.RFC3339), fields[at].from, c.reason)
			got := fmt.Sprint(body["warnings"])
			if c.reason == "" {
				if text := fmt.Sprint(body["data"]); got != "<nil>" || !strings.Contains(text, " 90]") {
					t.Errorf("warnings %s, %s", got, text)
				}
				return
			}
			if got != "["+want+"]" {
				t.Errorf("got\n%s, want\n%s", got, want)
			}
		})
	}
}
