package storeapi

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
)

// startBlock writes a block of random series, all in encodings with start timestamps.
func startBlock(t *testing.T, dir string) (id string) {
	t.Helper()
	o := testblock.RandomOptions{Series: 120, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(rand.New(rand.NewPCG(testseed.New(t), 7)), o)
	for i := range series {
		start := o.Start - 1000
		for j := range series[i].Samples {
			if j%50 == 0 {
				start = series[i].Samples[j].T - 1
			}
			series[i].Samples[j].ST = start
		}
	}
	written, err := testblock.Write(dir, slices.Values(series), testblock.Options{ChunkRange: o.ChunkRange(), StartTimestamps: true})
	if err != nil {
		t.Fatal(err)
	}
	return written.String()
}

// readByPrometheus returns the samples of each series of a block as Prometheus reads them, and the encodings of
// their chunks.
func readByPrometheus(t *testing.T, dir string) (samples map[string][]string, encodings map[chunkenc.Encoding]bool) {
	t.Helper()
	b, err := tsdb.OpenBlock(promslog.NewNopLogger(), dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	q, err := tsdb.NewBlockChunkQuerier(b, math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	samples, encodings = make(map[string][]string), make(map[chunkenc.Encoding]bool)
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
	for set.Next() {
		name := set.At().Labels().String()
		it := set.At().Iterator(nil)
		for it.Next() {
			chunk := it.At().Chunk
			encodings[chunk.Encoding()] = true
			samples[name] = appendSamples(t, samples[name], chunk.Iterator(nil), true)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return samples, encodings
}

func appendSamples(t *testing.T, dst []string, it chunkenc.Iterator, hint bool) []string {
	t.Helper()
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		dst = append(dst, testblock.SampleText(it, kind, hint))
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return dst
}

// TestStartTimestampChunks compares the samples of chunks with start timestamps, as the StoreAPI and PromQL's
// storage return them, with those that Prometheus reads from the block.
func TestStartTimestampChunks(t *testing.T) {
	dir := t.TempDir()
	want, encodings := readByPrometheus(t, filepath.Join(dir, startBlock(t, dir)))
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR2, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST} {
		if !encodings[e] {
			t.Fatalf("the block has no chunk of encoding %s", e)
		}
	}
	g := teststore.Open(t, dir, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer()))
	responses, _, err := teststore.Receive(client.Series(t.Context(), teststore.Everything()))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]string)
	for _, r := range responses {
		b := labels.NewScratchBuilder(8)
		for _, l := range r.GetSeries().GetLabels() {
			b.Add(l.GetName(), l.GetValue())
		}
		name := b.Labels().String()
		for _, c := range r.GetSeries().GetChunks() {
			chunk, err := chunkenc.FromData(chunkenc.Encoding(c.GetRaw().GetType())+chunkenc.EncXOR, c.GetRaw().GetData())
			if err != nil {
				t.Fatal(err)
			}
			texts := appendSamples(t, nil, chunk.Iterator(nil), true)
			first, last := timeOfSample(texts[0]), timeOfSample(texts[len(texts)-1])
			if first != c.GetMinTime() || last != c.GetMaxTime() {
				t.Errorf("%s: a chunk of times %d to %d has samples from %d to %d", name, c.GetMinTime(), c.GetMaxTime(), first, last)
			}
			got[name] = append(got[name], texts...)
		}
	}
	compareSamples(t, "StoreAPI", got, want)
	compareSamples(t, "PromQL", readQueryable(t, g.Queryable(func(context.Context) (string, error) { return "", nil })), withoutHints(want))
}

// timeOfSample returns the time at the start of a sample's text.
func timeOfSample(text string) (at int64) {
	_, _ = fmt.Sscanf(text, "%d", &at)
	return at
}

// withoutHints removes the counter reset hints from the texts of histograms.
func withoutHints(all map[string][]string) map[string][]string {
	out := make(map[string][]string)
	for name, texts := range all {
		for _, text := range texts {
			if parts := strings.Fields(text); len(parts) > 2 {
				text = text[:strings.LastIndexByte(text, ' ')]
			}
			out[name] = append(out[name], text)
		}
	}
	return out
}

func readQueryable(t *testing.T, queryable storage.Queryable) map[string][]string {
	t.Helper()
	q, err := queryable.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	all := make(map[string][]string)
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
	for set.Next() {
		all[set.At().Labels().String()] = appendSamples(t, nil, set.At().Iterator(nil), false)
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return all
}

func compareSamples(t *testing.T, what string, got, want map[string][]string) {
	t.Helper()
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%s: %d series, want %d", what, len(got), len(want))
	}
	for name, texts := range want {
		for i := range texts {
			if i >= len(got[name]) || got[name][i] != texts[i] {
				t.Fatalf("%s: %s: sample %d of %d is %q, want %q", what, name, i, len(got[name]), slices.Concat(got[name], []string{"missing"})[min(i, len(got[name]))], texts[i])
			}
		}
		if len(got[name]) > len(texts) {
			t.Fatalf("%s: %s: %d samples, want %d", what, name, len(got[name]), len(texts))
		}
	}
}

// editChunks calls edit for each chunk of a block's first segment with its encoding byte and data, and
// recomputes the checksums.
func editChunks(t *testing.T, block string, edit func(encodingAndData []byte)) {
	t.Helper()
	name := filepath.Join(block, "chunks", "000001")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := 8; at < len(b); {
		n, width := binary.Uvarint(b[at:])
		content := b[at+width : at+width+1+int(n)]
		edit(content)
		at += width + len(content)
		binary.BigEndian.PutUint32(b[at:], crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
		at += 4
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedStartTimestampChunks expects errors that name block and series for chunks with valid checksums that
// have fewer samples than their header states, or an unknown encoding. The StoreAPI then skips the block with a warning. The bits that pad the last byte of a chunk can
// decode as a sample, whose time then is not after that of the sample before it.
func TestDamagedStartTimestampChunks(t *testing.T) {
	for _, c := range []struct {
		name, want string
		edit       func([]byte)
	}{
		{"more samples than data", "decode chunk|samples are not in the order of time", func(b []byte) { b[1] |= 0x3f; b[2] = 0xff }},
		{"unknown encoding", "encoding 9 is unknown", func(b []byte) { b[0] = 9 }},
		{"encoding 0", "encoding 0 is unknown", func(b []byte) { b[0] = 0 }},
		{"not aggregates", "aggregate", func(b []byte) { b[0] = 255; b[1] = 0xff }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			id := startBlock(t, dir)
			editChunks(t, filepath.Join(dir, id), c.edit)
			g := teststore.Open(t, dir, nil)
			q, err := g.Queryable(func(context.Context) (string, error) { return "", nil }).Querier(math.MinInt64, math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
			if !set.Next() {
				t.Fatal(set.Err())
			}
			it := set.At().Iterator(nil)
			for it.Next() != chunkenc.ValNone {
			}
			if it.Err() == nil || !strings.Contains(it.Err().Error(), id) {
				t.Errorf("PromQL: %v", it.Err())
			}
			client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer()))
			r := teststore.Everything()
			r.SkipChunks, r.Aggregates = true, []storepb.Aggr{storepb.Aggr_COUNT}
			if responses, _, err := teststore.Receive(client.Series(t.Context(), r)); err != nil || len(responses) == 0 {
				t.Errorf("labels only: %d series, %v", len(responses), err)
			}
			for range 2 { // the first request finds the block damaged
				r.SkipChunks = false
				responses, _, err := teststore.Receive(client.Series(t.Context(), r))
				if err != nil || len(responses) != 1 {
					t.Fatalf("%d responses, %v", len(responses), err)
				}
				warning := responses[0].GetWarning()
				for _, part := range []string{c.want, "incomplete result", "block " + id + ` \([^()]*\): chunks/000001 at `, `series \{`} {
					if !regexp.MustCompile(part).MatchString(warning) {
						t.Errorf("warning %q, want %q", warning, part)
					}
				}
			}
		})
	}
}
