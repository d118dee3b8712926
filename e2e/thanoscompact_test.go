//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

// A bucketBlock is the part of a block's meta.json that a compactor decides by.
type bucketBlock struct {
	MinTime, MaxTime int64
	Compaction       struct{ Level int }
	Thanos           struct {
		Labels     map[string]string
		Downsample struct{ Resolution int64 }
	}
}

// bucketBlocks returns the blocks of a bucket in a directory that have a label, by time and resolution.
func bucketBlocks(t *testing.T, dir, name, value string) (all []bucketBlock) {
	t.Helper()
	for _, id := range blocksIn(t, dir) {
		text, err := os.ReadFile(filepath.Join(dir, id, "meta.json"))
		if os.IsNotExist(err) {
			continue // it was deleted meanwhile
		}
		must(t, err)
		var b bucketBlock
		if json.Unmarshal(text, &b) == nil && b.Thanos.Labels[name] == value { // the file may be incomplete while it is written
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b bucketBlock) int {
		if a.MinTime != b.MinTime {
			return int(a.MinTime - b.MinTime)
		}
		return int(a.Thanos.Downsample.Resolution - b.Thanos.Downsample.Resolution)
	})
	return all
}

// atResolution returns the number of blocks of a resolution.
func atResolution(all []bucketBlock, resolution time.Duration) (n int) {
	for _, b := range all {
		if b.Thanos.Downsample.Resolution == resolution.Milliseconds() {
			n++
		}
	}
	return n
}

// shipPast writes days of history into a data directory, and has a gateway ship them to a bucket in a directory.
func shipPast(t *testing.T, data, bucket string) *past {
	t.Helper()
	p := pastShape{hours: 5 * 24, step: 2 * time.Minute, compact: true}.write(t, data)
	g := startTare(t, mariadb.Addr, "--bucket", "file://"+bucket, "--data-dir", data, "--history-labels", "instance=gw-1,cluster=e2e")
	last := p.ends[len(p.ends)-1].Add(-4 * time.Hour).UnixMilli() // later samples may be in no block
	for shipped, start := -1, p.ends[0].UnixMilli(); start < last; {
		testwait.UntilState(t, "another block in the bucket", func() (string, bool) { // each within the limit of a wait
			time.Sleep(20 * time.Millisecond) // polls: another process
			blocks := bucketBlocks(t, bucket, "cluster", "e2e")
			for _, b := range blocks {
				if b.MinTime <= start+10*60*1000 {
					start = max(start, b.MaxTime)
				}
			}
			before := shipped
			shipped = len(blocks)
			return fmt.Sprintf("%d blocks, without a gap up to %s of %s", shipped, time.UnixMilli(start).UTC(), time.UnixMilli(last).UTC()), shipped > before || start >= last
		})
	}
	if code := g.end(t); code != 0 {
		t.Fatalf("tare ends with code %d:\n%s", code, g.text())
	}
	return p
}

// compactedDays is the time of the generator's blocks.
const compactedDays = 26

// writeForCompactor writes blocks of the generator as sidecars leave them: twelve of two hours, twelve of two days, and
// one of the last day. 14 days of Thanos' largest level start at day 9 of these: compaction ends with blocks of 9 and 14
// days, and the last two. The downsampling ignores NaN, which would change sums: there are stale markers alone.
func writeForCompactor(t *testing.T, dir string) {
	t.Helper()
	series := downsampledSeries(compactedDays)
	for _, s := range series {
		for i, v := range s.Samples {
			if math.IsNaN(v.V) && !value.IsStaleNaN(v.V) {
				s.Samples[i].V = 1
			}
		}
	}
	write := func(from, to int64) {
		_, err := testblock.Write(dir, testblock.Between(series, from, to), testblock.Options{External: map[string]string{"cluster": "eu"}, ChunkRange: 100 * day})
		must(t, err)
	}
	for from := downsampledStart; from < downsampledStart+day; from += day / 12 {
		write(from, from+day/12)
	}
	for from := downsampledStart + day; from < downsampledStart+25*day; from += 2 * day {
		write(from, from+2*day)
	}
	write(downsampledStart+25*day, downsampledStart+26*day)
}

// thanosVerify has Thanos look for defects of the blocks of a bucket.
func thanosVerify(t *testing.T, dir string) {
	t.Helper()
	_, said, err := command(t, "", "thanos", "tools", "bucket", "verify", thanosBucket(dir), "--issues=index_known_issues", "--issues=overlapped_blocks", "--issues=duplicated_compaction")
	if err != nil || strings.Contains(said, "level=warn") || strings.Contains(said, "level=error") || !strings.Contains(said, "verify task completed") {
		t.Errorf("thanos tools bucket verify: %v\n%.10000s", err, said)
	}
}

// thanosCompact compacts and downsamples a bucket until nothing is left to do. Replaced blocks are deleted at once.
func thanosCompact(t *testing.T, dir string) {
	t.Helper()
	path, err := exec.LookPath("thanos")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which builds it", err)
	}
	c := startChild(t, exec.Command(path, "compact", thanosBucket(dir), "--data-dir", t.TempDir(), "--http-address", freeAddr(t),
		"--consistency-delay=0s", "--delete-delay=0s", "--log.format=json"), func([]byte) {})
	testwait.Receive(t, "the end of the compactor", c.exited)
	if code := c.end(syscall.SIGTERM); code != 0 || strings.Contains(c.text(), `"level":"error"`) || strings.Contains(c.text(), "halting") {
		t.Fatalf("thanos compact ends with code %d:\n%.20000s", code, c.text())
	}
}

// rawQueries are queries of raw samples over a bucket of writeForCompactor and shipPast.
func rawQueries(p *past) (forms []url.Values) {
	at := func(ms int64) string { return strconv.FormatInt(ms/1000, 10) }
	for _, query := range []string{
		`{cluster="eu"}`, `sum by (__name__) (rate({__name__=~"metric_.*",cluster="eu"}[10m]))`, `count({cluster="eu"})`,
		`histogram_quantile(0.9, rate({__name__=~"hist_.*",cluster="eu"}[1h]))`, `max_over_time({__name__=~"metric_.*",cluster="eu"}[6h])`,
	} {
		forms = append(forms, url.Values{"query": {query}, "start": {at(downsampledStart)}, "end": {at(downsampledStart + compactedDays*day)}, "step": {"3593"}})
	}
	for _, query := range []string{
		`{cluster="e2e"}`, `sum(tare_queries_total)`, `sum by (digest) (rate(tare_queries_total[10m]))`,
		`histogram_quantile(0.99, sum by (digest) (rate(tare_query_duration_seconds[10m])))`, `histogram_count(sum(tare_query_duration_seconds))`,
	} {
		// The last hours are in no block yet.
		forms = append(forms, url.Values{"query": {query}, "start": {at(p.ends[0].UnixMilli())}, "end": {at(p.ends[len(p.ends)-1].Add(-5 * time.Hour).UnixMilli())}, "step": {"1009"}})
	}
	return forms
}

// TestThanosCompact has a gateway ship days of history to a bucket that has blocks of the generator too. Thanos verifies,
// compacts and downsamples them, while a store serves queries: each response is complete, marked as incomplete or an
// error. Afterwards raw samples are the same, sums, minima and maxima at 5 minutes and an hour are those of the raw
// samples, and the gateway uploads nothing again.
func TestThanosCompact(t *testing.T) {
	bucket, data := t.TempDir(), t.TempDir()
	writeForCompactor(t, bucket)
	p := shipPast(t, data, bucket)
	thanosVerify(t, bucket)
	forms := rawQueries(p)
	live := startStoreAPI(t, bucket, "--sync-interval", "1s")
	want := make([]any, len(forms))
	for i, form := range forms {
		a := byMetric(ask(t, live.http, "query_range", form))
		if want[i] = a.Data; a.Status != "success" || warned(a) || len(fmt.Sprint(a.Data)) < 1000 {
			t.Fatalf("%v before the compaction: %s %s %v", form, a.Status, a.Error, a.Warnings)
		}
	}
	before := len(bucketBlocks(t, bucket, "cluster", "e2e"))
	whileQueried(t, live.http, forms, want, func() { thanosCompact(t, bucket) })
	thanosVerify(t, bucket)

	eu, shipped := bucketBlocks(t, bucket, "cluster", "eu"), bucketBlocks(t, bucket, "cluster", "e2e")
	if raw, minutes, hours := atResolution(eu, 0), atResolution(eu, 5*time.Minute), atResolution(eu, time.Hour); raw != 4 || minutes != 3 || hours != 1 {
		t.Errorf("the generator's blocks after the compaction: %d raw, %d of 5m, %d of 1h; want 4, 3 and 1: %+v", raw, minutes, hours, eu)
	}
	if raw, minutes := atResolution(shipped, 0), atResolution(shipped, 5*time.Minute); raw >= before || minutes == 0 {
		t.Errorf("the history's blocks after the compaction: %d raw of %d, %d of 5m", raw, before, minutes)
	}
	fresh := startStoreAPI(t, bucket)
	for name, base := range map[string]string{"the store during the compaction": live.http, "a new store": fresh.http} {
		for i, form := range forms {
			if a := byMetric(ask(t, base, "query_range", form)); a.Status != "success" || warned(a) || !reflect.DeepEqual(a.Data, want[i]) {
				t.Errorf("%s, %v: %s %s %v: %s", name, form, a.Status, a.Error, a.Warnings, dissent(want[i], a.Data))
			}
		}
	}
	checkAggregates(t, fresh.http, `{__name__=~"metric_.*",cluster="eu"}`, downsampledStart+10*day, downsampledStart+20*day, "5m", "1h")
	from := shipped[0].MinTime // of a block that is downsampled to 5 minutes
	for _, b := range shipped {
		if b.Thanos.Downsample.Resolution != 0 {
			from = b.MinTime
		}
	}
	checkAggregates(t, fresh.http, `{__name__="tare_queries_total",cluster="e2e"}`, from, from+day, "5m")
	checkNotShippedAgain(t, p, data, bucket)
}

// whileQueried runs a function while range queries are sent: each response is that of want, incomplete with a
// warning, or an error.
func whileQueried(t *testing.T, base string, forms []url.Values, want []any, run func()) {
	t.Helper()
	var complete, marked, failed atomic.Int64
	stop := make(chan struct{})
	var loader sync.WaitGroup
	end := sync.OnceFunc(func() {
		close(stop)
		testwait.Group(t, "the queries", &loader)
	})
	defer end()
	loader.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			i := n % len(forms)
			switch how, err := judge(base, "query_range", forms[i], want[i]); {
			case err != nil:
				t.Errorf("during the compaction: %v: %v", forms[i], err)
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
	run()
	end()
	t.Logf("during the compaction: %d complete responses, %d marked as incomplete, %d errors", complete.Load(), marked.Load(), failed.Load())
	if complete.Load() == 0 {
		t.Error("no complete response during the compaction")
	}
}

// checkAggregates compares sums, minima and maxima of six hours at downsampled resolutions with those of the raw samples.
// An aggregate of Thanos is at the last millisecond of its interval, so windows that end there have whole intervals.
func checkAggregates(t *testing.T, base, selector string, from, to int64, resolutions ...string) {
	t.Helper()
	const window = int64(6 * 3600 * 1000)
	from += window - from%window + window
	for _, function := range []string{"sum_over_time", "min_over_time", "max_over_time"} {
		form := url.Values{
			"query": {function + "(" + selector + "[6h])"}, "step": {"21600"},
			"start": {fmt.Sprintf("%d.999", from/1000-1)}, "end": {fmt.Sprintf("%d.999", to/1000-1)},
		}
		raw := byMetric(ask(t, base, "query_range", form)).Data
		for _, resolution := range resolutions {
			form.Set("max_source_resolution", resolution)
			form.Set("explain", "1")
			code, body := get(t, base+"/api/v1/query_range?"+form.Encode())
			var e struct {
				Explain struct{ Blocks []struct{ Resolution int64 } }
			}
			must(t, json.Unmarshal([]byte(body), &e))
			wanted, err := time.ParseDuration(resolution)
			must(t, err)
			read := false
			for _, b := range e.Explain.Blocks {
				read = read || b.Resolution == wanted.Milliseconds()
			}
			got := byMetric(ask(t, base, "query_range", form))
			if !read || got.Status != "success" || len(samplesOf(raw)) < 3 || !closeTo(raw, got.Data) {
				t.Errorf("%v: %d, read at %s: %t; %s %s: %s", form, code, resolution, read, got.Status, got.Error, dissent(raw, got.Data))
			}
		}
		form.Del("max_source_resolution")
	}
}

// checkNotShippedAgain starts the gateway again: its PromQL over the compacted bucket has the counted values, and a
// block that was replaced does not come back.
func checkNotShippedAgain(t *testing.T, p *past, data, bucket string) {
	t.Helper()
	before := blocksIn(t, bucket)
	g := startTare(t, mariadb.Addr, "--bucket", "file://"+bucket, "--data-dir", data, "--history-labels", "instance=gw-1,cluster=e2e", "--history-interval", "1s")
	for n := 100; n < len(p.ends); n += len(p.ends) / 20 {
		form := url.Values{"query": {`sum(tare_queries_total{instance="gw-1",cluster="e2e"})`}, "time": {fmt.Sprint(p.ends[n].Unix())}}
		want := fmt.Sprintf(" %d]", p.at(p.ends[n]))
		var a responded
		eventually(t, "the history of round "+strconv.Itoa(n), func() bool { // once the gateway has synced
			a = ask(t, g.http, "query", form)
			return a.Status == "success" && strings.Contains(fmt.Sprint(a.Data), want)
		})
	}
	if code := g.end(t); code != 0 {
		t.Errorf("tare ends with code %d:\n%s", code, g.text())
	}
	for _, id := range blocksIn(t, bucket) {
		if slices.Contains(before, id) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(bucket, id, "meta.json"))
		must(t, err)
		var b bucketBlock
		must(t, json.Unmarshal(text, &b))
		if b.MaxTime < p.ends[len(p.ends)-1].Add(-8*time.Hour).UnixMilli() {
			t.Errorf("block %s of %d to %d was uploaded after the compaction", id, b.MinTime, b.MaxTime)
		}
	}
}
