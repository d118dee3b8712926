//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

var fleetBlocks = flag.Int("fleet.blocks", 36, "blocks of TestStoreFleet")

// fleetBucket writes blocks of consecutive times, each with the same series of three clusters in turn, and returns
// the times of its samples.
func fleetBucket(t *testing.T, dir string, blocks int) (mint, maxt int64) {
	t.Helper()
	const samples, step = 120, int64(15_000)
	o := testblock.RandomOptions{Series: 120, Samples: samples * (blocks/3 + 1), Start: 1_700_000_000_000, Step: step}
	series := testblock.Random(rand.New(rand.NewPCG(8, 9)), o)
	for n := range blocks {
		from := o.Start + int64(n/3)*samples*step
		_, err := testblock.Write(dir, testblock.Between(series, from, from+samples*step), testblock.Options{
			External: map[string]string{"cluster": []string{"eu", "us", "ap"}[n%3]}, ChunkRange: o.ChunkRange(),
		})
		must(t, err)
	}
	return o.Start, o.Start + int64((blocks+2)/3)*samples*step
}

// A storeFleet has the instances of tare store over one bucket, each with a part of its blocks.
type storeFleet struct {
	dir       string
	addrs     []string // gRPC
	data      []string // data directories
	instances []*tare
	started   []time.Duration // from the start of the process until it was ready
}

func startFleet(t *testing.T, dir string, shards int) *storeFleet {
	t.Helper()
	f := &storeFleet{dir: dir, instances: make([]*tare, shards), started: make([]time.Duration, shards)}
	for i := range shards {
		f.addrs, f.data = append(f.addrs, freeAddr(t)), append(f.data, t.TempDir())
		f.run(t, i)
	}
	return f
}

// run starts instance i.
func (f *storeFleet) run(t *testing.T, i int) {
	t.Helper()
	began := time.Now()
	args := []string{"--grpc", f.addrs[i], "--data-dir", f.data[i]}
	if n := len(f.instances); n > 1 {
		args = append(args, "--shard", fmt.Sprintf("%d/%d", i+1, n))
	}
	f.instances[i] = startStoreAPI(t, f.dir, args...)
	f.started[i] = time.Since(began)
}

// startQuerier runs a querier over all instances, and waits until it knows them. It queries them even while they are
// unreachable, so that responses without one have a warning.
func (f *storeFleet) startQuerier(t *testing.T) string {
	t.Helper()
	var args []string
	for _, addr := range f.addrs {
		args = append(args, "--endpoint-strict", addr)
	}
	querier := startThanos(t, args...)
	eventually(t, "the querier knows all instances", func() bool {
		_, body := get(t, querier+"/api/v1/stores")
		return strings.Count(body, `"lastError":null`) >= len(f.addrs) && !strings.Contains(body, `"minTime":-9223372036854775808`)
	})
	return querier
}

// storeTimes returns the external labels and the time range that a querier has of all its stores together.
func storeTimes(t *testing.T, querier string) (labels []string, mint, maxt int64) {
	t.Helper()
	_, body := get(t, querier+"/api/v1/stores")
	var r struct {
		Data map[string][]struct {
			LabelSets        []map[string]string
			MinTime, MaxTime int64
		}
	}
	must(t, json.Unmarshal([]byte(body), &r))
	first := true
	for _, stores := range r.Data {
		for _, s := range stores {
			for _, set := range s.LabelSets {
				labels = append(labels, fmt.Sprint(set))
			}
			if first {
				mint, maxt, first = s.MinTime, s.MaxTime, false
			}
			mint, maxt = min(mint, s.MinTime), max(maxt, s.MaxTime)
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels), mint, maxt
}

// fleetQueries are the requests of TestStoreFleet, by path.
func fleetQueries(mint, maxt int64) map[string][]url.Values {
	at := func(ms int64) string { return strconv.FormatInt(ms/1000, 10) }
	ranged := func(query string) url.Values {
		return url.Values{"query": {query}, "start": {at(mint)}, "end": {at(maxt)}, "step": {"300"}, "dedup": {"false"}}
	}
	return map[string][]url.Values{
		"query_range": {
			ranged(`{__name__=~"metric_[0-3]",job="api"}`), ranged(`count by (cluster, __name__) ({__name__=~".+"})`),
			ranged(`sum by (cluster) (rate({__name__=~"metric_[456]"}[5m]))`), ranged(`metric_2{cluster="us"}`),
		},
		"query": {
			{"query": {`count by (cluster) ({__name__=~".+"})`}, "time": {at((mint + maxt) / 2)}, "dedup": {"false"}},
			{"query": {`{__name__=~"metric_[01]",job="api"}[` + strconv.FormatInt((maxt-mint)/1000, 10) + `s]`}, "time": {at(maxt)}, "dedup": {"false"}},
		},
		"labels":               {{"start": {at(mint)}, "end": {at(maxt)}}},
		"label/cluster/values": {{"start": {at(mint)}, "end": {at(maxt)}}},
		"series":               {{"match[]": {`{__name__=~"metric_1"}`}, "start": {at(mint)}, "end": {at(maxt)}, "dedup": {"false"}}},
	}
}

// TestStoreFleet compares three instances, each with a shard of the blocks, behind a Thanos querier with one instance
// behind another. Then it kills one of the three under load and starts it again: responses meanwhile are errors, or
// complete, or have a warning and only samples of the complete response.
func TestStoreFleet(t *testing.T) {
	dir := t.TempDir()
	mint, maxt := fleetBucket(t, dir, *fleetBlocks)
	one, three := startFleet(t, dir, 1), startFleet(t, dir, 3)
	whole, sharded := one.startQuerier(t), three.startQuerier(t)
	for _, f := range []*storeFleet{one, three} {
		for i, s := range f.instances {
			t.Logf("instance %d of %d over %d blocks: ready after %s, %.0f MiB resident", i+1, len(f.instances), *fleetBlocks, f.started[i].Round(time.Millisecond), mib(residentBytes(t, s.cmd.Process.Pid, "VmRSS")))
		}
	}
	labelsOne, minOne, maxOne := storeTimes(t, whole)
	labelsThree, minThree, maxThree := storeTimes(t, sharded)
	if len(labelsOne) != 3 || !slices.Equal(labelsOne, labelsThree) || minOne != minThree || maxOne != maxThree {
		t.Errorf("three instances announce %v, %d to %d; one %v, %d to %d", labelsThree, minThree, maxThree, labelsOne, minOne, maxOne)
	}
	var cases []fleetCase
	for path, forms := range fleetQueries(mint, maxt) {
		for _, form := range forms {
			want, got := byMetric(ask(t, whole, path, form)), byMetric(ask(t, sharded, path, form))
			if want.Status != "success" || warned(got) || !reflect.DeepEqual(got.Data, want.Data) || len(fmt.Sprint(want.Data)) < 10 {
				t.Errorf("%s %v: three instances: %s %s %v, one: %s; %s", path, form, got.Status, got.Error, got.Warnings, want.Error, dissent(want.Data, got.Data))
			}
			if strings.HasPrefix(path, "query") {
				cases = append(cases, fleetCase{path, form, want.Data})
			}
		}
	}
	checkReplaced(t, three, sharded, cases)
	for i, s := range three.instances {
		t.Logf("instance %d of 3 after the load: %.0f MiB resident", i+1, mib(residentBytes(t, s.cmd.Process.Pid, "VmRSS")))
	}
}

// A fleetCase is a query with its complete result.
type fleetCase struct {
	path string
	form url.Values
	want any
}

// checkReplaced runs queries while an instance is killed and started again.
func checkReplaced(t *testing.T, f *storeFleet, querier string, cases []fleetCase) {
	t.Helper()
	var complete, marked, failed atomic.Int64
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	defer end()
	var loaders sync.WaitGroup
	for n := range 3 {
		loaders.Go(func() {
			for i := n; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				c := cases[i%len(cases)]
				form := url.Values{"partial_response": {strconv.FormatBool(i/len(cases)%2 == 0)}}
				for k, v := range c.form {
					form[k] = v
				}
				switch how, err := judge(querier, c.path, form, c.want); {
				case err != nil:
					t.Errorf("%v: %v", form, err)
					return
				case how == "complete":
					complete.Add(1)
				case how == "marked":
					marked.Add(1)
				default:
					failed.Add(1)
				}
			}
		})
	}
	eventually(t, "complete responses before the kill", func() bool { return complete.Load() >= 10 })
	f.instances[1].kill()
	testwait.UntilState(t, "responses without the instance are marked", func() (string, bool) {
		counts := fmt.Sprintf("%d complete, %d marked, %d refused", complete.Load(), marked.Load(), failed.Load())
		return counts, marked.Load() >= 20
	})
	f.run(t, 1)
	before := int64(0)
	eventually(t, "complete responses with the new instance", func() bool {
		form := url.Values{"partial_response": {"true"}}
		for k, v := range cases[0].form {
			form[k] = v
		}
		how, err := judge(querier, cases[0].path, form, cases[0].want)
		if err != nil {
			t.Fatal(err)
		}
		if how == "complete" {
			before++
		}
		return before >= 3
	})
	end()
	testwait.Group(t, "the queries", &loaders)
	t.Logf("under load: %d complete, %d marked as partial, %d refused", complete.Load(), marked.Load(), failed.Load())
}

// judge returns whether a response is "complete", "marked" as partial or "failed". It returns an error for a response
// that is wrong: a partial one without a warning, or raw samples that the complete one does not have.
func judge(base, path string, form url.Values, want any) (string, error) {
	response, err := http.Get(base + "/api/v1/" + path + "?" + form.Encode())
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var got responded
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		return "", err
	}
	got = byMetric(got)
	switch {
	case got.Status != "success":
		return "failed", nil
	case reflect.DeepEqual(got.Data, want) && !warned(got):
		return "complete", nil
	case !warned(got):
		return "", fmt.Errorf("a partial response has no warning: %s", dissent(want, got.Data))
	case !strings.HasSuffix(form.Get("query"), "]"):
		return "marked", nil // its values are of fewer series, or of the last samples before a gap
	}
	known := make(map[string]bool)
	for _, text := range samplesOf(want) {
		known[text] = true
	}
	for _, text := range samplesOf(got.Data) {
		if !known[text] {
			return "", fmt.Errorf("the complete response does not have %.300s", text)
		}
	}
	return "marked", nil
}

// warned reports whether a response has a warning that is not about its expression.
func warned(a responded) bool {
	return slices.ContainsFunc(a.Warnings, func(w string) bool { return !strings.HasPrefix(w, "PromQL ") })
}

// byMetric sorts the series of a matrix or vector by their labels.
func byMetric(a responded) responded {
	d, ok := a.Data.(map[string]any)
	if !ok {
		return a
	}
	result, _ := d["result"].([]any)
	metric := func(x any) string { s, _ := x.(map[string]any); return fmt.Sprint(s["metric"]) }
	slices.SortFunc(result, func(x, y any) int { return strings.Compare(metric(x), metric(y)) })
	a.Data = map[string]any{"resultType": d["resultType"], "result": result}
	return a
}

// samplesOf returns a text of each sample of a matrix with its labels.
func samplesOf(data any) (all []string) {
	d, _ := data.(map[string]any)
	result, _ := d["result"].([]any)
	for _, one := range result {
		s, _ := one.(map[string]any)
		for _, kind := range []string{"values", "histograms"} {
			samples, _ := s[kind].([]any)
			for _, v := range samples {
				all = append(all, fmt.Sprint(s["metric"], v))
			}
		}
	}
	return all
}
