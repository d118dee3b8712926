//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
)

const (
	downsampledStart = int64(1_699_920_000_000) // a whole day
	downsampledStep  = int64(120_000)
	day              = int64(24 * 3600 * 1000)
)

// downsampledSeries are counters with resets, gauges, unusual floats and histograms of some days. Thanos cannot
// downsample histograms with custom bounds.
func downsampledSeries(days int64) []testblock.Series {
	o := testblock.RandomOptions{Series: 50, Samples: int(days * day / downsampledStep), Start: downsampledStart, Step: downsampledStep}
	all := slices.DeleteFunc(testblock.Random(rand.New(rand.NewPCG(5, 6)), o), func(s testblock.Series) bool {
		return slices.ContainsFunc(s.Samples, func(x testblock.Sample) bool {
			return x.H != nil && x.H.Schema == histogram.CustomBucketsSchema || x.FH != nil && x.FH.Schema == histogram.CustomBucketsSchema
		})
	})
	for n := range all {
		s := &all[n]
		if slices.ContainsFunc(s.Samples, func(x testblock.Sample) bool { return x.H != nil || x.FH != nil }) {
			b := labels.NewBuilder(s.Labels)
			s.Labels = b.Set("__name__", "hist"+strings.TrimPrefix(b.Get("__name__"), "metric")).Labels()
		}
		for i := range s.Samples {
			if math.IsInf(s.Samples[i].V, 0) { // an average of infinities is none
				s.Samples[i].V = 3
			}
		}
	}
	slices.SortFunc(all, func(a, b testblock.Series) int { return labels.Compare(a.Labels, b.Labels) })
	return all
}

// floatsOnly removes histograms from a result.
func floatsOnly(data any) any {
	d, _ := data.(map[string]any)
	result, _ := d["result"].([]any)
	d["result"] = slices.DeleteFunc(slices.Clone(result), func(series any) bool {
		s, _ := series.(map[string]any)
		delete(s, "histogram")
		delete(s, "histograms")
		return s["value"] == nil && s["values"] == nil
	})
	return d
}

// thanosBucket returns the flag of Thanos' commands for a bucket in a directory.
func thanosBucket(dir string) string {
	return fmt.Sprintf("--objstore.config={type: FILESYSTEM, config: {directory: %q}}", dir)
}

// startThanosCommand runs a Thanos command with HTTP and returns its child and the address.
func startThanosCommand(t *testing.T, httpFlag string, args ...string) (*child, string) {
	t.Helper()
	path, err := exec.LookPath("thanos")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which builds it", err)
	}
	addr := freeAddr(t)
	c := startChild(t, exec.Command(path, append(args, httpFlag, addr)...), func([]byte) {})
	t.Cleanup(func() {
		c.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("thanos %s:\n%.20000s", args[0], c.text())
		}
	})
	return c, addr
}

// blocksOf returns the blocks of a bucket by resolution in milliseconds and first time.
func blocksOf(t *testing.T, dir string) map[int64]map[int64]string {
	t.Helper()
	all := map[int64]map[int64]string{0: {}, 300_000: {}, 3_600_000: {}}
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	must(t, err)
	for _, name := range metas {
		b, err := os.ReadFile(name)
		must(t, err)
		var m struct {
			MinTime int64
			Thanos  struct{ Downsample struct{ Resolution int64 } }
		}
		must(t, json.Unmarshal(b, &m))
		day := (m.MinTime - downsampledStart) / day
		all[m.Thanos.Downsample.Resolution][day] = filepath.Dir(name)
	}
	return all
}

// downsampledBucket writes three blocks, of days 0 to 11, 11 to 22 and 22 to 23, and has Thanos downsample them:
// the first two to 5 minutes and an hour. Then it removes the raw samples of the first and the hours of the second.
func downsampledBucket(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	series := downsampledSeries(23)
	for _, days := range [][2]int64{{0, 11}, {11, 22}, {22, 23}} {
		_, err := testblock.Write(dir, testblock.Between(series, downsampledStart+days[0]*day, downsampledStart+days[1]*day),
			testblock.Options{External: map[string]string{"cluster": "eu"}, ChunkRange: 100 * day})
		must(t, err)
	}
	c, _ := startThanosCommand(t, "--http-address", "tools", "bucket", "downsample", thanosBucket(dir), "--data-dir", t.TempDir(), "--log.format=json")
	eventually(t, "two blocks are downsampled twice", func() bool {
		b := blocksOf(t, dir)
		return len(b[300_000]) == 2 && len(b[3_600_000]) == 2
	})
	c.end(syscall.SIGTERM)
	b := blocksOf(t, dir)
	must(t, os.RemoveAll(b[0][0]))
	must(t, os.RemoveAll(b[3_600_000][11]))
	return dir
}

// closeTo reports whether two decoded JSON values are equal, except for the last digits of numbers in texts.
func closeTo(a, b any) bool {
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		if !ok || x == y {
			return ok
		}
		f, errF := strconv.ParseFloat(x, 64)
		g, errG := strconv.ParseFloat(y, 64)
		return errF == nil && errG == nil && math.Abs(f-g) <= 1e-9*max(math.Abs(f), math.Abs(g))
	case []any:
		y, ok := b.([]any)
		return ok && len(x) == len(y) && !slices.ContainsFunc(indices(len(x)), func(i int) bool { return !closeTo(x[i], y[i]) })
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if !closeTo(v, y[k]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// TestDownsampled compares queries over a bucket that Thanos has downsampled, at each resolution: by Thanos' store
// and querier, by the same querier over tare store, and by tare store's PromQL.
func TestDownsampled(t *testing.T) {
	dir := downsampledBucket(t)
	tare := startStoreAPI(t, dir)
	grpc := freeAddr(t)
	_, storeHTTP := startThanosCommand(t, "--http-address", "store", thanosBucket(dir), "--data-dir", t.TempDir(), "--grpc-address", grpc, "--log.format=json")
	awaitReady(t, "thanos store", storeHTTP)
	reference, through := startThanos(t, "--endpoint", grpc), startThanos(t, "--endpoint", tare.grpc)
	for base, store := range map[string]string{reference: grpc, through: tare.grpc} {
		eventually(t, "the querier knows the store", func() bool {
			_, body := get(t, base+"/api/v1/stores")
			return strings.Contains(body, store) && strings.Contains(body, `"lastError":null`)
		})
	}
	at := func(ms int64) string { return strconv.FormatInt(ms/1000, 10) }
	compared, points := 0, 0
	// Averages of histograms are compared through the StoreAPI only: Thanos' querier divides them in the memory of
	// its decoder, which then decodes the next one wrongly.
	averages := 2
	for n, query := range []string{
		`{__name__=~"metric_.*|hist_.*"}`, `last_over_time({__name__=~"metric_.*|hist_.*"}[6h])`,
		`sum by (job) (metric_2)`, `avg(metric_3)`, `delta(metric_4[6h])`, `avg_over_time(metric_2[6h])`, `rate(metric_1[6h]) / avg_over_time(metric_1[6h])`,
		`min by (job) (metric_4)`, `max(metric_5)`, `count by (__name__) ({__name__=~"metric_.*|hist_.*"})`,
		`sum_over_time({__name__=~"metric_.*|hist_.*"}[6h])`, `min_over_time(metric_0[6h])`, `max_over_time(metric_1[3h])`, `count_over_time(metric_3[6h])`,
		`rate({__name__=~"metric_.*|hist_.*"}[6h])`, `increase(metric_0[1d])`, `rate(metric_3[5m])`, `rate(metric_4[20m]) + rate(metric_4[4h])`, `irate(metric_1[5h])`, `sum by (job) (rate({__name__=~"metric_.*"}[2h]))`, `resets(metric_2[1d])`,
		`quantile_over_time(0.5, metric_6[6h])`, `histogram_count(increase({__name__=~"hist_.*"}[6h]))`,
	} {
		for _, resolution := range []string{"0s", "5m", "1h", "auto", "7m"}[:4+n%2] {
			for _, form := range []url.Values{
				{"start": {at(downsampledStart + day)}, "end": {at(downsampledStart + 23*day)}, "step": {"7200"}},
				{"start": {at(downsampledStart + 10*day)}, "end": {at(downsampledStart + 12*day)}, "step": {"1500"}},
				{"time": {at(downsampledStart + 21*day + 7_000_000)}},
			} {
				path := "query_range"
				if form.Has("time") {
					path = "query"
				}
				form.Set("query", query)
				form.Set("max_source_resolution", resolution)
				form.Set("dedup", "false")
				want, got, direct := sorted(ask(t, reference, path, form)), sorted(ask(t, through, path, form)), sorted(ask(t, tare.http, path, form))
				if want.Status != "success" {
					if got.Status != want.Status {
						t.Errorf("%s %v: thanos' store: %s; tare: %.300v", path, form, want.Error, got)
					}
					continue
				}
				compared++
				points += len(fmt.Sprint(want.Data))
				if !reflect.DeepEqual(got.Data, want.Data) {
					t.Errorf("StoreAPI: %s %v: thanos' store: %s; tare: %s %s", path, form, dissent(want.Data, got.Data), got.Status, got.Error)
				}
				if resolution == "0s" || resolution == "auto" && path == "query" {
					continue // Thanos' querier removes resets of raw counters and samples that are NaN; Prometheus does not
				}
				if n < averages {
					direct.Data, want.Data = floatsOnly(direct.Data), floatsOnly(want.Data)
				}
				if !closeTo(direct.Data, want.Data) {
					t.Errorf("PromQL: %s %v: thanos: %s; tare: %s %s", path, form, dissent(want.Data, direct.Data), direct.Status, direct.Error)
				}
			}
		}
	}
	if compared < 200 || points < 1_000_000 {
		t.Errorf("only %d results of %d characters were compared", compared, points)
	}
}

// dissent returns the part of two values' texts around the first difference.
func dissent(want, got any) string {
	a, b := fmt.Sprint(want), fmt.Sprint(got)
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	from := max(n-200, 0)
	return fmt.Sprintf("…%s, not …%s", a[from:min(n+100, len(a))], b[from:min(n+100, len(b))])
}

// TestDownsampledShown expects the resolution in explain and in the infos of a PromQL response, and a warning where
// a request allows no block that has the samples.
func TestDownsampledShown(t *testing.T) {
	s := startStoreAPI(t, downsampledBucket(t))
	form := url.Values{
		"query": {`sum(metric_1)`}, "start": {strconv.FormatInt((downsampledStart+day)/1000, 10)},
		"end": {strconv.FormatInt((downsampledStart+23*day)/1000, 10)}, "step": {"3600"}, "explain": {"1"},
	}
	type explained struct {
		Status          string
		Error           string
		Warnings, Infos []string
		Explain         struct{ Blocks []struct{ Resolution int64 } }
	}
	for _, c := range []struct {
		resolution  string
		resolutions []int64
		infos       string
		warns       bool
	}{
		{"", []int64{0, 0}, "", true},
		{"0s", []int64{0, 0}, "", true},
		{"4m", []int64{0, 0}, "", true},
		{"auto", []int64{0, 300_000, 300_000}, "downsampled to 5m, in 2 blocks", false},
		{"5m", []int64{0, 300_000, 300_000}, "downsampled to 5m, in 2 blocks", false},
		{"1h", []int64{0, 300_000, 3_600_000}, "downsampled to 1h, in 1 blocks", false},
	} {
		form.Set("max_source_resolution", c.resolution)
		code, body := get(t, s.http+"/api/v1/query_range?"+form.Encode())
		var a explained
		must(t, json.Unmarshal([]byte(body), &a))
		var got []int64
		for _, b := range a.Explain.Blocks {
			got = append(got, b.Resolution)
		}
		slices.Sort(got)
		warned := strings.Contains(fmt.Sprint(a.Warnings), "reason downsampled")
		if code != http.StatusOK || !slices.Equal(got, c.resolutions) || !strings.Contains(fmt.Sprint(a.Infos), c.infos) || c.infos == "" && len(a.Infos) > 0 || warned != c.warns {
			t.Errorf("max_source_resolution=%q: %d, resolutions %v, infos %q, warnings %q; want %v, %q, warning: %t", c.resolution, code, got, a.Infos, a.Warnings, c.resolutions, c.infos, c.warns)
		}
	}
	form.Set("max_source_resolution", "often")
	if code, body := get(t, s.http+"/api/v1/query_range?"+form.Encode()); code != http.StatusBadRequest || !strings.Contains(body, "max_source_resolution") {
		t.Errorf("an invalid resolution: %d %s", code, body)
	}
}
