//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
)

// TestStoreOverlappingChunks has a store serve one block in which the chunks of each series overlap: its responses are
// those of a Prometheus that has the same samples in blocks that overlap, and a Thanos querier has the same responses from
// it as from Thanos' store.
func TestStoreOverlappingChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 21))
	const start, step, samples, parts = int64(1_700_000_000_000), int64(15_000), 400, 3
	ours, theirs := t.TempDir(), t.TempDir()
	var all []testblock.Series
	var lists []labels.Labels
	divided := make([][]testblock.Series, parts)
	for n := range 30 {
		ls := labels.FromStrings("__name__", []string{"up", "requests_total"}[n%2], "instance", strconv.Itoa(n), "job", []string{"a", "b"}[n%3/2])
		lists = append(lists, ls)
		pieces := make([]testblock.Series, parts)
		v := 0.0
		for i := range int64(samples) {
			v += float64(rng.IntN(10))
			at := rng.IntN(parts)
			pieces[at].Labels = ls
			pieces[at].Samples = append(pieces[at].Samples, testblock.Sample{T: start + i*step, V: v})
		}
		for i, p := range pieces {
			divided[i] = append(divided[i], p)
		}
		all = append(all, pieces...)
	}
	_, err := testblock.WriteChunks(ours, all, map[string]string{"cluster": "eu"})
	must(t, err)
	for _, d := range divided {
		_, err := testblock.WriteChunks(theirs, d, nil)
		must(t, err)
	}
	end := start + samples*step
	s := startStoreAPI(t, ours, "--layout", "prometheus")
	w := &prometheusTwin{store: s.http, prometheus: startPrometheus(t, theirs, "{}\n"), rng: rng, generator: testpromql.New(rng, lists, start, end)}
	counts := make(map[int]int)
	for range 150 {
		counts[w.compare(t, w.generator.Request(), nil)]++
	}
	t.Logf("responses of Prometheus by status: %v, %d unstable", counts, w.unstable)
	if counts[http.StatusOK] < 50 {
		t.Errorf("only %d comparisons of data", counts[http.StatusOK])
	}
	// Thanos' querier leaves out samples of a chunk within the time of another one, from any store.
	api := startStoreAPI(t, ours, "--layout", "thanos")
	querier := startThanos(t, "--endpoint", api.grpc)
	reference := startThanos(t, "--endpoint", startThanosStore(t, fmt.Sprintf("--objstore.config={type: FILESYSTEM, config: {directory: %q}}", ours)))
	for _, expr := range []string{"up", "sum by (job) (rate(requests_total[2m]))", "count_over_time(up[5m])"} {
		query := "/api/v1/query_range?" + url.Values{"query": {expr}, "start": {fmt.Sprint(start / 1000)}, "end": {fmt.Sprint(end / 1000)}, "step": {"30"}}.Encode()
		var want, got string
		eventually(t, "series from Thanos' store", func() bool { _, want = get(t, reference+query); return len(want) > 1000 })
		eventually(t, "series from the store", func() bool { _, got = get(t, querier+query); return len(got) > 1000 })
		if got != want {
			t.Errorf("%s: %s", expr, firstDifference(want, got))
		}
	}
}
