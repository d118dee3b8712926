package storegateway_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

var (
	churnSeries      = flag.Int("churn-series", 600, "series of TestBlockChurn that are in one block each")
	churnGenerations = flag.Int("churn-generations", 12, "how often TestBlockChurn replaces all blocks")
)

// churnSlots is the number of blocks of the time range before compaction.
const churnSlots = 6

// A churnBucket is a bucket whose blocks are replaced: by one for the whole time range, then by several
// again. Each generation has new ids and the same samples.
type churnBucket struct {
	server *testbucket.Server
	forms  [2]map[string]map[string][]byte // blocks before and after compaction: files by id and name
	all    []string                        // ids of all generations
	next   []map[string]string             // by generation: new id of each block of its form
}

// readBlocks returns the files of the blocks in a directory, by id and name.
func readBlocks(t *testing.T, dir string) map[string]map[string][]byte {
	t.Helper()
	blocks := make(map[string]map[string][]byte)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == tombstonesName {
			return err
		}
		id, file, _ := strings.Cut(name, "/")
		if blocks[id] == nil {
			blocks[id] = make(map[string][]byte)
		}
		blocks[id][file], err = os.ReadFile(filepath.Join(dir, name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// churnData returns series that cover the whole time range, and series that exist in one block each.
func churnData(r *rand.Rand, o testblock.RandomOptions, short int) (all []testblock.Series) {
	slot := int64(o.Samples) * o.Step / churnSlots
	add := func(l labels.Labels, from, to, step int64) {
		s := testblock.Series{Labels: l}
		v := 0.0
		for at := from; at < to; at += step {
			if v += float64(r.IntN(20)); r.IntN(50) == 0 {
				v = 0
			}
			s.Samples = append(s.Samples, testblock.Sample{T: at, V: v})
		}
		all = append(all, s)
	}
	for n := range o.Series {
		add(labels.FromStrings("__name__", fmt.Sprint("metric_", n%7), "instance", fmt.Sprint("host-", n), "job", []string{"api", "db"}[n%2]),
			o.Start+r.Int64N(o.Step), o.Start+churnSlots*slot, o.Step)
	}
	for n := range short {
		from := o.Start + int64(n%churnSlots)*slot
		add(labels.FromStrings("__name__", fmt.Sprint("metric_", n%7), "job", "batch", "pod", fmt.Sprint("pod-", n)), from+r.Int64N(o.Step), from+slot, slot/5)
	}
	slices.SortFunc(all, func(a, b testblock.Series) int { return labels.Compare(a.Labels, b.Labels) })
	return all
}

// newChurnTwin returns a gateway over a bucket whose blocks are replaced, and one over the same samples in
// one block.
func newChurnTwin(t *testing.T, seed uint64) (*s3Twin, *churnBucket) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	w := &s3Twin{dir: t.TempDir(), server: testbucket.NewServer(), faulty: testpromql.Faulty{Bucket: "metrics"}}
	w.o = testblock.RandomOptions{Series: 40, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
	series := churnData(r, w.o, *churnSeries)
	for _, s := range series[max(0, len(series)-100):] {
		w.all = append(w.all, s.Labels)
	}
	b := &churnBucket{server: w.server}
	end := w.o.Start + int64(w.o.Samples)*w.o.Step
	slot := (end - w.o.Start) / churnSlots
	several := t.TempDir()
	write := func(dir string, from, to int64) {
		_, err := testblock.Write(dir, testblock.Between(series, from, to), testblock.Options{
			External: map[string]string{"region": "eu"}, ChunkRange: w.o.ChunkRange(), SegmentBytes: 64 << 10,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range int64(churnSlots) {
		write(several, w.o.Start+n*slot, w.o.Start+(n+1)*slot)
	}
	write(w.dir, w.o.Start, end)
	b.forms = [2]map[string]map[string][]byte{readBlocks(t, several), readBlocks(t, w.dir)}
	for n := range *churnGenerations + 1 {
		ids := make(map[string]string)
		for old := range b.forms[n%2] {
			id := ulid.MustNew(uint64(w.o.Start)+uint64(n), ulid.DefaultEntropy()).String()
			ids[old] = id
			b.all = append(b.all, id)
		}
		b.next = append(b.next, ids)
	}
	w.faulty.Blocks = b.all
	b.upload(r, 0)
	w.proxy = testbucket.StartProxy(t, seed, w.server, w.server.Get)
	reporter := report.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	w.healthy = newAPI(t, teststore.Open(t, w.dir, func(o *storegateway.Options) { o.Layout, o.Gate = blocksync.LayoutThanos, churnGate() }), reporter, time.Minute)
	w.reporter, w.bucket, w.data = reporter, s3Bucket(t, w.proxy), t.TempDir()
	w.startPatient(t)
	return w, b
}

// withoutSamples matches series of a remote read that have no samples: their presence depends on where chunks
// start, which differs between the forms of the blocks.
var withoutSamples = regexp.MustCompile(`(?m)^\d+ \[.*\]\n(\n|\z)`)

// blockLevel matches the compaction level of a meta.json.
var blockLevel = regexp.MustCompile(`"level":\s*1\b`)

// churnGate returns a gate for queries of all series. Both gateways have the same gate, since it bounds the
// samples of a query.
func churnGate() *slab.Gate {
	return slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20})
}

// startPatient starts the tested gateway with bucket calls that do not time out.
func (w *s3Twin) startPatient(t *testing.T) {
	t.Helper()
	o := teststore.Options(t, w.bucket)
	o.PlainBucket, o.DataDir, o.Layout, o.CallTimeout = true, w.data, blocksync.LayoutThanos, time.Minute
	o.Gate = churnGate()
	w.gateway = &faultGateway{teststore.New(t, o), o}
	if err := w.gateway.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.tested = newAPI(t, w.gateway.Gateway, w.reporter, time.Minute)
}

// upload uploads the blocks of a generation, each with its meta.json last.
func (b *churnBucket) upload(r *rand.Rand, n int) {
	for old, id := range b.next[n] {
		files := b.forms[n%2][old]
		names := make([]string, 0, len(files))
		for name := range files {
			if name != metaName {
				names = append(names, name)
			}
		}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range append(names, metaName) {
			text := files[name]
			if name == metaName {
				text = []byte(strings.ReplaceAll(string(text), old, id))
				text = blockLevel.ReplaceAll(text, fmt.Append(nil, `"level":`, n+1)) // as a compactor's: blocks of a higher level replace others
			}
			b.server.Put("tsdb/"+id+"/"+name, text)
		}
	}
}

// mark marks the blocks of a generation for deletion at a time.
func (b *churnBucket) mark(n int, at time.Time) {
	for _, id := range b.next[n] {
		mark, _ := json.Marshal(map[string]any{"id": id, "version": 1, "deletion_time": at.Unix()}) // never fails
		b.server.Put("tsdb/"+id+"/deletion-mark.json", mark)
	}
}

// remove deletes the marked blocks of a generation: meta.json first and the mark last.
func (b *churnBucket) remove(r *rand.Rand, n int) {
	for old, id := range b.next[n] {
		prefix := "tsdb/" + id + "/"
		b.server.Delete(prefix + metaName)
		names := make([]string, 0, len(b.forms[n%2][old]))
		for name := range b.forms[n%2][old] {
			names = append(names, name)
		}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			b.server.Delete(prefix + name)
		}
		b.server.Delete(prefix)
	}
}

// A churnProbe is a request whose result depends on samples only, not on the times of blocks.
type churnProbe struct {
	name   string
	stream bool // the response is sent while blocks are read, so the request cannot be retried
	do     func(context.Context, api) testpromql.Response
}

// churnProbe returns a random request of any kind.
func (w *s3Twin) churnProbe(r *rand.Rand, g *testpromql.Generator, client *http.Client) churnProbe {
	start, end := w.o.Start, w.o.Start+int64(w.o.Samples)*w.o.Step
	matchers := []*storepb.LabelMatcher{teststore.Regexp("__name__", fmt.Sprintf("metric_[0-%d]", r.IntN(7)))}
	switch r.IntN(8) {
	case 0:
		p := &storepb.SeriesRequest{MinTime: start, MaxTime: end, Matchers: matchers, SkipChunks: r.IntN(2) == 0}
		return churnProbe{"StoreAPI " + p.String(), true, func(ctx context.Context, a api) testpromql.Response { return seriesSamples(ctx, a, p) }}
	case 1:
		p := &storepb.LabelValuesRequest{Start: start, End: end, Matchers: matchers, Label: []string{"pod", "instance", "__name__"}[r.IntN(3)]}
		return churnProbe{"StoreAPI " + p.String(), false, func(ctx context.Context, a api) testpromql.Response {
			got, err := a.series.LabelValues(ctx, p)
			return asHTTP(fmt.Sprint(got.GetValues()), strings.Join(got.GetWarnings(), " "), err)
		}}
	case 2:
		p := &storepb.LabelNamesRequest{Start: start, End: end, Matchers: matchers}
		return churnProbe{"StoreAPI " + p.String(), false, func(ctx context.Context, a api) testpromql.Response {
			got, err := a.series.LabelNames(ctx, p)
			return asHTTP(fmt.Sprint(got.GetNames()), strings.Join(got.GetWarnings(), " "), err)
		}}
	case 3:
		p := g.Read()
		for slices.ContainsFunc(p.Queries, func(q *prompb.Query) bool { return q.EndTimestampMs < q.StartTimestampMs }) {
			p = g.Read() // a range without time would select series by the times of blocks
		}
		streams := slices.Contains(p.AcceptedResponseTypes, prompb.ReadRequest_STREAMED_XOR_CHUNKS)
		return churnProbe{p.String(), streams, func(ctx context.Context, a api) testpromql.Response {
			got := p.Do(ctx, client, a.base)
			got.Body = withoutSamples.ReplaceAllString(got.Body, "")
			return got
		}}
	}
	p := g.Request()
	for p.Path == "format_query" || p.Path == "parse_query" { // reads no block
		p = g.Request()
	}
	if p.Path != "query" && p.Path != "query_range" { // their results depend on the blocks in a time range
		p.Form.Del("start")
		p.Form.Del("end")
	}
	return churnProbe{p.String(), false, func(ctx context.Context, a api) testpromql.Response { return p.Do(ctx, client, a.base) }}
}

// seriesSamples returns the samples of a response of the StoreAPI, independent of chunk boundaries.
func seriesSamples(ctx context.Context, a api, p *storepb.SeriesRequest) testpromql.Response {
	responses, _, err := teststore.Receive(a.series.Series(ctx, p))
	var warnings []byte
	samples := make(map[string]map[int64]uint64)
	for _, r := range responses {
		warnings = append(warnings, r.GetWarning()...)
		for _, s := range seriesIn(r) {
			name := fmt.Sprint(s.GetLabels())
			if samples[name] == nil {
				samples[name] = make(map[int64]uint64)
			}
			for _, c := range s.GetChunks() {
				chunk, err := chunkenc.FromData(chunkenc.EncXOR, c.GetRaw().GetData())
				if err != nil {
					return testpromql.Response{Err: err}
				}
				it := chunk.Iterator(nil)
				for it.Next() == chunkenc.ValFloat {
					at, v := it.At()
					samples[name][at] = math.Float64bits(v)
				}
				if it.Err() != nil {
					return testpromql.Response{Err: it.Err()}
				}
			}
		}
	}
	return asHTTP(fmt.Sprint(samples), string(warnings), err) // sorted by key
}

// resumed reports whether a response warns only that a block was deleted after some of its series were sent, and that the others
// are from other blocks.
func (w *s3Twin) resumed(r testpromql.Response) bool {
	return strings.Contains(r.Warnings, "are from other blocks: block ") && !strings.Contains(r.Warnings, "incomplete result") &&
		slices.ContainsFunc(w.faulty.Blocks, func(id string) bool { return strings.Contains(r.Warnings, id) })
}

// TestBlockChurn replaces all blocks while requests of every kind are served: several by one, and that one by
// several, with new ids and with syncs at any time. Every response has the data of the samples, which never
// change, or warnings that name blocks (a listing that started before an upload lacks some of its files). If
// blocks are deleted as soon as they are replaced, only streams that have started fail, each with the error
// of a deleted block, or they warn that they continue with other blocks, and are complete. If blocks are
// deleted after marked ones are no longer served and earlier requests have finished, as compactors do by their
// delay, none fails.
func TestBlockChurn(t *testing.T) {
	t.Run("at once", func(t *testing.T) { testBlockChurn(t, false) })
	t.Run("after a delay", func(t *testing.T) { testBlockChurn(t, true) })
}

func testBlockChurn(t *testing.T, delayed bool) {
	seed := testseed.New(t)
	w, bucket := newChurnTwin(t, seed)
	const clients = 3
	var generation, continued atomic.Int64
	var served [clients]atomic.Int64
	// Between two replacements each client finishes its current request and a complete one.
	settle := func() {
		var after [clients]int64
		for c := range after {
			after[c] = served[c].Load() + 2
		}
		testwait.Until(t, "each client to end a request that it has begun since", func() bool {
			for c := range after {
				if served[c].Load() < after[c] {
					return false
				}
			}
			return true
		})
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	outcomes := make(map[testpromql.Outcome]int)
	var mu sync.Mutex
	httpClient := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for c := range uint64(clients) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, c))
			g := testpromql.New(r, w.all, w.o.Start, w.o.Start+int64(w.o.Samples)*w.o.Step)
			for {
				select {
				case <-done:
					return
				default:
				}
				if r.IntN(6) == 0 {
					_ = w.gateway.Sync(t.Context()) // blocks may be deleted during the sync
				}
				if r.IntN(6) == 0 {
					w.gateway.UnloadIdle()
				}
				p := w.churnProbe(r, g, httpClient)
				var want, got testpromql.Response
				outcome, err := w.compare(t.Context(), w.faulty, func(ctx context.Context, a api) testpromql.Response {
					resp := p.do(ctx, a)
					if a == w.tested {
						if !delayed && p.stream && w.resumed(resp) {
							resp.Warnings = "" // the series have to be those without faults
							continued.Add(1)
						}
						got = resp
					} else {
						want = resp
					}
					return resp
				})
				if err != nil && want.Code >= 400 && got.Code == want.Code {
					outcome, err = testpromql.Equal, nil // the error names any two of several series
				}
				if err == nil && outcome == testpromql.Failed && (delayed || !p.stream) {
					err = fmt.Errorf("the request failed: %s", got)
				}
				if err != nil {
					t.Errorf("generation %d: %s: %v", generation.Load(), p.name, err)
				}
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
				served[c].Add(1)
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 99))
	replaceAll := func() {
		defer close(done)
		for n := range *churnGenerations {
			bucket.upload(r, n+1)
			if n%2 == 0 {
				_ = w.gateway.Sync(t.Context()) // both generations are there, the old one without marks
			}
			if delayed {
				bucket.mark(n, time.Now().Add(-1000*time.Hour))
				if err := w.gateway.Resync(t.Context()); err != nil {
					t.Errorf("sync after an upload: %v", err)
				}
				settle()
			} else {
				bucket.mark(n, time.Now())
			}
			bucket.remove(r, n)
			generation.Add(1)
			settle()
		}
	}
	wg.Go(replaceAll)
	testwait.Group(t, "the clients", &wg)
	testwait.Until(t, "the queries to release all", func() bool { return w.gateway.check() == nil })
	t.Logf("responses: %v; %d continued with other blocks", outcomes, continued.Load())
	if outcomes[testpromql.Equal] == 0 {
		t.Errorf("responses: %v", outcomes)
	}
}
