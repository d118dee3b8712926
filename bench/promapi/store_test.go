package promapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// seriesOf returns all series of a storage.
func seriesOf(t testing.TB, s *teststorage.TestStorage) []testblock.Series {
	t.Helper()
	q, err := s.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var list []testblock.Series
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	for set.Next() {
		one := testblock.Series{Labels: set.At().Labels()}
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			x := testblock.Sample{T: it.AtT()}
			switch vt {
			case chunkenc.ValFloat:
				_, x.V = it.At()
			case chunkenc.ValHistogram:
				_, x.H = it.AtHistogram(nil)
			case chunkenc.ValFloatHistogram:
				_, x.FH = it.AtFloatHistogram(nil)
			}
			one.Samples = append(one.Samples, x)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		list = append(list, one)
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return list
}

// newStorePair returns Prometheus' handler over its own TSDB and the store's over a bucket of the same
// blocks, two of which overlap. Each has a separate engine.
func newStorePair(t testing.TB, maxSamples int) (theirs, ours http.Handler) {
	t.Helper()
	s := teststorage.New(t)
	fill(t, s)
	series := seriesOf(t, s)
	bucketDir, dbDir := t.TempDir(), t.TempDir()
	for _, window := range [][2]int64{{0, 1_200_000}, {1_200_000, 2_400_000}, {2_000_000, lastTime + 1}} {
		part := slices.Collect(testblock.Between(series, window[0], window[1]))
		if _, err := testblock.Write(bucketDir, slices.Values(part), testblock.Options{ChunkRange: 4 * lastTime}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dbDir, os.DirFS(bucketDir)); err != nil {
		t.Fatal(err)
	}
	opts := tsdb.DefaultOptions()
	opts.RetentionDuration = 0
	opts.EnableOverlappingCompaction = false
	db, err := tsdb.Open(dbDir, promslog.NewNopLogger(), nil, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.DisableCompactions()
	if n := len(db.Blocks()); n != 3 {
		t.Fatalf("Prometheus opened %d blocks in %s", n, filepath.Base(dbDir))
	}

	bucket, err := filesystem.NewBucket(bucketDir)
	if err != nil {
		t.Fatal(err)
	}
	gate := slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20})
	g, err := storegateway.New(storegateway.Options{
		Options: blocksync.Options{
			Bucket:      bucket,
			LocalBucket: bucketDir,
			DataDir:     t.TempDir(),
			Layout:      blocksync.LayoutPrometheus,
			Cache:       tsblock.NewCache(64 << 20),
			Pool:        slab.NewPool(slab.PoolOptions{}),
			Log:         slog.New(slog.DiscardHandler),
		},
		Gate: gate,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if s := gate.Stats(); s.Held != 0 || s.Running != 0 {
			t.Errorf("the gate is left with %+v", s)
		}
	})
	ours = storeAPI(t, g, maxSamples)
	plain := parser.NewParser(parser.Options{ExperimentalDurationExpr: true}) // as Prometheus v3.15
	return prometheusAPI(t, withoutExemplars{db}, newEngine(maxSamples, plain), plain), ours
}

// withoutExemplars adapts a database to the interface of Prometheus' handler.
type withoutExemplars struct{ *tsdb.DB }

func (withoutExemplars) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) {
	return nil, fmt.Errorf("a block has no exemplars")
}

// sortedResult sorts the series of a response: the engine's instant results and unsorted selects have no
// order.
func sortedResult(t *testing.T, body string) string {
	t.Helper()
	var a struct {
		Status, ErrorType, Error string
		Data                     json.RawMessage
		Warnings, Infos          []string
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	slices.Sort(a.Warnings)
	slices.Sort(a.Infos)
	var data struct {
		ResultType string
		Result     []json.RawMessage
	}
	var list []json.RawMessage
	kind := ""
	if json.Unmarshal(a.Data, &data) == nil && data.ResultType != "scalar" && data.ResultType != "string" {
		list, kind = data.Result, data.ResultType
	} else if json.Unmarshal(a.Data, &list) != nil {
		return body
	}
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = string(x)
	}
	slices.Sort(texts)
	return fmt.Sprintf("%s %s %s %s %q %q\n%s", a.Status, a.ErrorType, a.Error, kind, a.Warnings, a.Infos, strings.Join(texts, "\n"))
}

// sameNumbers compares responses whose floats may differ in the last bits, since the engine adds in map
// order.
func sameNumbers(a, b string) bool {
	isNumber := func(r rune) bool { return strings.ContainsRune("0123456789.+-eE", r) }
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == '"' || r == ',' || r == '[' || r == ']' || r == '\n' })
	}
	x, y := split(a), split(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		if strings.TrimFunc(x[i], isNumber) != "" || strings.TrimFunc(y[i], isNumber) != "" {
			return false
		}
		f, err1 := strconv.ParseFloat(x[i], 64)
		g, err2 := strconv.ParseFloat(y[i], 64)
		if err1 != nil || err2 != nil || math.Abs(f-g) > 1e-12*max(math.Abs(f), math.Abs(g)) {
			return false
		}
	}
	return true
}

// TestStoreSameAsPrometheus sends requests to the store's API and to Prometheus' own, both over the same
// blocks, and expects the same responses, including errors, warnings and infos.
func TestStoreSameAsPrometheus(t *testing.T) {
	const requests = 2500
	for _, maxSamples := range []int{8_000_000, 2_000} {
		t.Run(fmt.Sprintf("samples=%d", maxSamples), func(t *testing.T) {
			theirs, ours := newStorePair(t, maxSamples)
			g := generator{rand.New(rand.NewPCG(11, uint64(maxSamples)))}
			codes := map[int]int{}
			kinds := map[string]int{}
			failures, rounded, warned := 0, 0, 0
			for i := range requests {
				method, path, form := g.request()
				endpoint := strings.TrimPrefix(path, "/api/v1/")
				switch {
				case strings.HasPrefix(endpoint, "query_exemplars"), strings.HasPrefix(endpoint, "status"), form.Has("limit"), form.Has("stats"):
					continue // does not read blocks, or depends on the order of series
				case strings.Contains(form.Get("query"), "limitk"), strings.Contains(form.Get("query"), "topk"), strings.Contains(form.Get("query"), "bottomk"):
					continue // returns the first of equals
				case strings.Contains(form.Get("query"), "[") && strings.Contains(form.Get("query"), ":") && strings.Contains(form.Get("query"), "count_values"):
					continue
				}
				want := askTheirs(theirs, newRequest(method, path, form))
				got := ask(ours, newRequest(method, path, form))
				if want.Code == http.StatusMethodNotAllowed || want.Code == http.StatusNoContent {
					continue
				}
				codes[want.Code]++
				kinds[strings.SplitN(endpoint, "/", 2)[0]]++
				if strings.Contains(want.Body, `"warnings":`) || strings.Contains(want.Body, `"infos":`) {
					warned++
				}
				wantText, gotText := sortedResult(t, want.Body), sortedResult(t, got.Body)
				if omitted.MatchString(wantText) && omitted.MatchString(gotText) {
					continue
				}
				if want.Code == got.Code && wantText == gotText {
					continue
				}
				if want.Code == got.Code && sameNumbers(wantText, gotText) {
					rounded++
					continue
				}
				failures++
				t.Errorf("request %d: %s %s %v\nwant %s\ngot  %s", i, method, path, form,
					excerpt(response{Code: want.Code, Body: wantText}, response{Body: gotText}), excerpt(response{Code: got.Code, Body: gotText}, response{Body: wantText}))
				if failures > 10 {
					t.FailNow()
				}
			}
			t.Logf("codes %v, endpoints %v, %d with annotations, %d differ in the last bits of sums", codes, kinds, warned, rounded)
			if codes[200] < 500 || codes[422] < 2 || warned < 20 {
				t.Errorf("codes %v with %d annotated: the generator makes too few of a kind", codes, warned)
			}
		})
	}
}

func storeAPI(t testing.TB, g *storegateway.Gateway, maxSamples int) http.Handler {
	t.Helper()
	h, err := storegateway.NewHTTPAPI(g, storegateway.HTTPOptions{MaxSamples: maxSamples, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
