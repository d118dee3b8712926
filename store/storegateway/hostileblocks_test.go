package storegateway_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
)

var hostileTrials = flag.Int("hostile-trials", 25, "changes that TestHostileBlocks tries; 0: each change of each kind of field")

// hostileBytes are what the requests of TestHostileBlocks may allocate besides twice as much as without a change: a query's budget.
const hostileBytes = 16 << 20

// hostileNames are the files of a block.
var hostileNames = []string{indexName, "chunks/000001", metaName, tombstonesName}

// hostileBlocks are the files of three blocks of consecutive times, of which the second has deleted samples.
type hostileBlocks struct {
	files  map[string][]byte
	thanos map[string][]byte // the meta.json that a bucket of Thanos has
	blocks []string
	end    int64 // of their samples

	gate *slab.Gate // of the last store
}

func newHostileBlocks(t *testing.T, seed uint64) *hostileBlocks {
	t.Helper()
	dir, blocks, end := matrixBlocks(t, seed)
	h := &hostileBlocks{files: make(map[string][]byte), thanos: make(map[string][]byte), blocks: blocks, end: end}
	for _, id := range blocks {
		meta, err := os.ReadFile(filepath.Join(dir, id, metaName))
		run(t, err)
		h.thanos[id+"/"+metaName] = withoutSizes(t, meta)
	}
	b, err := tsdb.OpenBlock(promslog.NewNopLogger(), filepath.Join(dir, blocks[1]), nil, nil)
	run(t, err)
	middle := (b.Meta().MinTime + b.Meta().MaxTime) / 2
	run(t, b.Delete(t.Context(), middle, middle+100_000, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")))
	run(t, b.Close())
	run(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		short, err := filepath.Rel(dir, name)
		if err == nil {
			h.files[short], err = os.ReadFile(name)
		}
		return err
	}))
	return h
}

// serve returns the API of a store over the blocks, with another text of one file; nil: the file is missing.
func (h *hostileBlocks) serve(t *testing.T, layout blocksync.Layout, changed string, text []byte) api {
	t.Helper()
	a, _ := h.serveFailing(t, layout, changed, text)
	return a
}

// serveFailing also returns the bucket.
func (h *hostileBlocks) serveFailing(t *testing.T, layout blocksync.Layout, changed string, text []byte) (api, *testbucket.Failing) {
	t.Helper()
	bucket := testbucket.NewFailing(objstore.NewInMemBucket())
	for name, original := range h.files {
		if meta := h.thanos[name]; meta != nil && layout == blocksync.LayoutThanos {
			original = meta
		}
		if name == changed {
			original = text
		}
		if original != nil {
			testbucket.Upload(t, bucket, name, string(original))
		}
	}
	o := teststore.Options(t, bucket)
	o.Layout, h.gate = layout, o.Gate
	g := teststore.New(t, o)
	run(t, g.Sync(t.Context()))
	return newAPI(t, g, report.New(slog.New(slog.NewTextHandler(t.Output(), nil))), requestLimit/2), bucket
}

// ask returns the samples of all blocks, and the warnings that name the second block.
func (h *hostileBlocks) ask(t *testing.T, a api) (samples map[string]bool, warnings []string) {
	t.Helper()
	got := h.send(t, a)
	var body struct {
		Data struct {
			Result []struct {
				Metric             json.RawMessage
				Values, Histograms [][2]json.RawMessage
			}
		}
		Warnings []string
	}
	if err := json.Unmarshal([]byte(got.Body), &body); err != nil || got.Code != http.StatusOK {
		t.Fatalf("%v", got)
	}
	samples = make(map[string]bool)
	for _, series := range body.Data.Result {
		for _, sample := range append(series.Values, series.Histograms...) {
			samples[string(series.Metric)+" "+string(sample[0])+" "+string(sample[1])] = true
		}
	}
	for _, w := range body.Warnings {
		if strings.Contains(w, "incomplete result") && strings.Contains(w, h.blocks[1]) {
			warnings = append(warnings, w)
		}
	}
	return samples, warnings
}

// send sends the query of all samples.
func (h *hostileBlocks) send(t *testing.T, a api) testpromql.Response {
	t.Helper()
	target := "/api/v1/query?" + url.Values{"query": {`{__name__=~".+"}[3d]`}, "time": {strconv.FormatInt(h.end/1000, 10)}}.Encode()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.base+target, nil)
	run(t, err)
	return testpromql.Exchange(http.DefaultClient, r)
}

// askAll sends requests of the other kinds to a store, all of which succeed, and returns the bytes that they allocate.
func (h *hostileBlocks) askAll(t *testing.T, a api) uint64 {
	t.Helper()
	const day = 24 * 3600
	end := h.end / 1000
	span := url.Values{"start": {strconv.FormatInt(end-3*day, 10)}, "end": {strconv.FormatInt(end, 10)}}
	with := func(more ...string) string {
		v := maps.Clone(span)
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return "?" + v.Encode()
	}
	everything := `{__name__=~".+"}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, target := range []string{
		"/api/v1/query_range" + with("query", "count by (__name__) ("+everything+")", "step", "3600"),
		"/api/v1/query_range" + with("query", "count(last_over_time("+everything+"[1h]))", "step", "1800"),
		"/api/v1/query?time=" + strconv.FormatInt(end, 10) + "&query=" + url.QueryEscape("count("+everything+" offset 12h)"),
		"/api/v1/series" + with("match[]", everything),
		"/api/v1/labels" + with(),
		"/api/v1/labels" + with("match[]", everything),
		"/api/v1/label/__name__/values" + with(),
		"/api/v1/label/region/values" + with("match[]", everything),
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.base+target, nil)
		run(t, err)
		if got := testpromql.Exchange(http.DefaultClient, r); got.Code != http.StatusOK {
			t.Errorf("%s: %.500v", target, got)
		}
	}
	all := []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}}
	for _, form := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS} {
		remoteRead(t, a.base, form, &prompb.Query{StartTimestampMs: h.end - 3*day*1000, EndTimestampMs: h.end, Matchers: all})
	}
	for _, r := range []*storepb.SeriesRequest{teststore.Everything(), {MinTime: h.end - 3*day*1000, MaxTime: h.end, Matchers: teststore.Everything().Matchers, SkipChunks: true}} {
		r.PartialResponseStrategy = storepb.PartialResponseStrategy_WARN
		if _, _, err := teststore.Receive(a.series.Series(t.Context(), r)); err != nil {
			t.Errorf("Series: %v", err)
		}
	}
	if _, err := a.series.LabelNames(t.Context(), &storepb.LabelNamesRequest{Start: h.end - 3*day*1000, End: h.end, PartialResponseStrategy: storepb.PartialResponseStrategy_WARN}); err != nil {
		t.Errorf("LabelNames: %v", err)
	}
	if _, err := a.series.LabelValues(t.Context(), &storepb.LabelValuesRequest{Label: "__name__", Start: h.end - 3*day*1000, End: h.end, PartialResponseStrategy: storepb.PartialResponseStrategy_WARN}); err != nil {
		t.Errorf("LabelValues: %v", err)
	}
	runtime.ReadMemStats(&after)
	if s := h.gate.Stats(); s.Peak > s.Bytes || s.Held != 0 {
		t.Errorf("the queries held up to %d bytes of %d, now %d", s.Peak, s.Bytes, s.Held)
	}
	return after.TotalAlloc - before.TotalAlloc
}

// others returns the samples that other blocks than the second have.
func (h *hostileBlocks) others(t *testing.T, layout blocksync.Layout) map[string]bool {
	t.Helper()
	without := &hostileBlocks{files: make(map[string][]byte), thanos: h.thanos, blocks: h.blocks, end: h.end}
	for name, text := range h.files {
		if !strings.HasPrefix(name, h.blocks[1]) {
			without.files[name] = text
		}
	}
	samples, _ := without.ask(t, without.serve(t, layout, "", nil))
	return samples
}

// A hostileChange is one change of a file of the second block.
type hostileChange struct {
	layout       blocksync.Layout
	name, change string
	field        fileField
	seal         bool // the checksum is right
}

func (c hostileChange) String() string {
	return fmt.Sprintf("%s, %s: %s at %d, %s, right checksum %t", c.layout, c.name, c.field.kind, c.field.from, c.change, c.seal)
}

// changes returns every change of one field of each kind.
func (h *hostileBlocks) changes(t *testing.T, r *rand.Rand) (all []hostileChange) {
	t.Helper()
	for _, layout := range []blocksync.Layout{blocksync.LayoutPrometheus, blocksync.LayoutThanos} {
		for _, name := range hostileNames {
			kinds := make(map[string][]fileField)
			for _, f := range fieldsOf(t, name, h.text(layout, name)) {
				if f.to > f.from {
					kinds[f.kind] = append(kinds[f.kind], f)
				}
			}
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				for _, change := range fieldChanges {
					f := kinds[kind][r.IntN(len(kinds[kind]))]
					all = append(all, hostileChange{layout, name, change, f, false})
					if f.sealed.to > 0 && change != "file ends" {
						all = append(all, hostileChange{layout, name, change, f, true})
					}
				}
			}
		}
	}
	return all
}

// text returns a file of the second block.
func (h *hostileBlocks) text(layout blocksync.Layout, name string) []byte {
	if meta := h.thanos[h.blocks[1]+"/"+name]; meta != nil && layout == blocksync.LayoutThanos {
		return meta
	}
	return h.files[h.blocks[1]+"/"+name]
}

// TestHostileBlocks changes each kind of field of a block: of its index, its chunks, its meta.json and its tombstones,
// with the old checksums or right ones. Queries return all samples of the other blocks, and those of the block or a
// warning that names it. Requests of all other kinds succeed, within their budget and with little more memory than before. With right checksums, and in the labels of a meta.json, which has no checksum, the samples of
// the block may be others.
func TestHostileBlocks(t *testing.T) {
	seed := testseed.New(t)
	r := rand.New(rand.NewPCG(seed, 9))
	h := newHostileBlocks(t, seed)
	want, others := make(map[blocksync.Layout]map[string]bool), make(map[blocksync.Layout]map[string]bool)
	for _, layout := range []blocksync.Layout{blocksync.LayoutPrometheus, blocksync.LayoutThanos} {
		want[layout], _ = h.ask(t, h.serve(t, layout, "", nil))
		if others[layout] = h.others(t, layout); len(others[layout]) == 0 || len(want[layout]) <= len(others[layout]) {
			t.Fatal(len(want[layout]), len(others[layout]))
		}
	}
	changes := h.changes(t, r)
	r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	if *hostileTrials > 0 {
		changes = changes[:min(len(changes), *hostileTrials)]
	}
	outcomes := make(map[string]int)
	allowed := 2*h.askAll(t, h.serve(t, blocksync.LayoutPrometheus, "", nil)) + hostileBytes
	for _, c := range changes {
		t.Run(c.String(), func(t *testing.T) {
			text := changedField(h.text(c.layout, c.name), c.field, c.change, c.seal)
			a := h.serve(t, c.layout, h.blocks[1]+"/"+c.name, text)
			got, warnings := h.ask(t, a)
			if n := h.askAll(t, a); n > allowed {
				t.Errorf("the requests allocate %d bytes, those of the unchanged blocks less than %d", n, allowed)
			}
			for s := range others[c.layout] {
				if !got[s] {
					t.Fatalf("a sample of another block is missing: %s; warnings %v", s, warnings)
				}
			}
			switch {
			case len(warnings) > 0:
				outcomes["warned"]++
			case maps.Equal(got, want[c.layout]):
				outcomes["equal"]++
			case c.seal, c.name == metaName && c.field.kind == "region":
				outcomes["other samples"]++
			default:
				t.Error("other samples of the block, and no warning")
			}
		})
	}
	t.Logf("%d changes: %v", len(changes), outcomes)
	if outcomes["warned"] == 0 {
		t.Error("no block was found damaged")
	}
}

// TestHostileReferences has indexes with right checksums refer to chunk files that the block lacks.
func TestHostileReferences(t *testing.T) {
	h := newHostileBlocks(t, testseed.New(t))
	others := h.others(t, blocksync.LayoutPrometheus)
	index := h.files[h.blocks[1]+"/"+indexName]
	fields := indexFields(index)
	for _, file := range []uint64{1, 2, 1 << 16, math.MaxUint32} {
		t.Run(fmt.Sprint("chunk file ", file), func(t *testing.T) {
			text := referTo(t, index, fields, file)
			got, warnings := h.ask(t, h.serve(t, blocksync.LayoutPrometheus, h.blocks[1]+"/"+indexName, text))
			if len(warnings) != 1 || !strings.Contains(warnings[0], "the block has 1 chunk files") || !maps.Equal(got, others) {
				t.Errorf("%d samples, want %d; warnings %q", len(got), len(others), warnings)
			}
		})
	}
}

// TestFilesMissingLater has files of a block disappear after the sync: for good, for one request, or behind errors of
// the bucket. A bucket that fails is no damage of the block.
func TestFilesMissingLater(t *testing.T) {
	h := newHostileBlocks(t, testseed.New(t))
	all, _ := h.ask(t, h.serve(t, blocksync.LayoutPrometheus, "", nil))
	others := h.others(t, blocksync.LayoutPrometheus)
	for _, name := range []string{indexName, "chunks/000001"} {
		file := h.blocks[1] + "/" + name
		for _, c := range []struct {
			what    string
			fail    func(*testbucket.Failing)
			want    map[string]bool // nil: an error of the bucket
			warning string
		}{
			{"deleted", func(b *testbucket.Failing) { run(t, b.Delete(t.Context(), file)) }, others, name + " is missing"},
			{"404 once", func(b *testbucket.Failing) {
				b.Fail(testbucket.FailRule{Name: file, Times: 1, How: testbucket.FailMissing})
			}, all, ""},
			{"404 to reads only", func(b *testbucket.Failing) {
				b.Fail(testbucket.FailRule{Op: "range", Name: file, Times: -1, How: testbucket.FailMissing})
			}, nil, ""},
			{"503", func(b *testbucket.Failing) {
				b.Fail(testbucket.FailRule{Name: file, Times: -1, How: testbucket.FailError})
			}, nil, ""},
			{"403", func(b *testbucket.Failing) {
				b.Fail(testbucket.FailRule{Name: file, Times: -1, How: testbucket.FailDenied})
			}, nil, ""},
		} {
			t.Run(name+" "+c.what, func(t *testing.T) {
				a, bucket := h.serveFailing(t, blocksync.LayoutPrometheus, "", nil)
				c.fail(bucket)
				if c.want == nil {
					if got := h.send(t, a); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body, file) {
						t.Errorf("got %v, want 503 and the file", got)
					}
					bucket.Heal()
					c.want = all
				}
				got, warnings := h.ask(t, a)
				if !maps.Equal(got, c.want) || (len(warnings) > 0) != (c.warning != "") || !strings.Contains(strings.Join(warnings, ""), c.warning) {
					t.Errorf("%d samples, want %d; warnings %q", len(got), len(c.want), warnings)
				}
			})
		}
	}
}
