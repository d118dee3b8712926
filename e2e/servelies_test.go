//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testseed"
)

// servedOutcome queries the past of another gateway, which is in the bucket alone, and returns what the response is. want
// is the complete result.
func servedOutcome(t *testing.T, g *tare, at time.Time, want float64) lieOutcome {
	t.Helper()
	form := url.Values{"query": {`sum(tare_queries_total{instance="gw-1"})`}, "time": {at.Format(time.RFC3339Nano)}}
	code, body := get(t, g.http+"/api/v1/query?"+form.Encode())
	var r struct {
		Warnings []string
		Data     struct {
			Result []struct{ Value [2]any }
		}
	}
	if code != http.StatusOK {
		return lieError
	}
	must(t, json.Unmarshal([]byte(body), &r))
	switch {
	case len(r.Warnings) > 0:
		return lieMarked
	case len(r.Data.Result) == 1 && fmt.Sprint(r.Data.Result[0].Value[1]) == fmt.Sprint(want):
		return lieComplete
	}
	return lieSilent
}

// TestServeLies runs a gateway whose history's bucket responds wrongly to every request, in each way of testbucket.All
// and testbucket.Lies, from the start and after a sync. Responses about the history of another gateway are complete, have
// a warning, or are errors.
func TestServeLies(t *testing.T) {
	seed := testseed.New(t)
	data := t.TempDir()
	past := writePast(t, data)
	server := testbucket.NewServer()
	proxy := testbucket.StartProxy(t, seed, server, server.Get)
	t.Setenv("AWS_ACCESS_KEY_ID", s3Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3Secret)
	blocks := float64(len(blocksIn(t, data+"/history/series")))
	first := startTare(t, mariadb.Addr, "--bucket", plainURL(proxy), "--data-dir", data, "--history-labels", "instance=gw-1,cluster=e2e")
	eventually(t, "all blocks are shipped", func() bool {
		return metricValue(t, first, "tare_history_unshipped_blocks") == 0 && metricValue(t, first, "tare_history_blocks_shipped_total") >= blocks
	})
	if code := first.end(t); code != 0 {
		t.Fatalf("the gateway exits with code %d", code)
	}
	at := past.ends[44]
	want := float64(past.at(at))
	total := make(map[lieOutcome]int)
	for _, fault := range faultsToTry(seed) {
		t.Run(string(fault), func(t *testing.T) {
			rules := testbucket.Rules{Kinds: []testbucket.Fault{fault}, Rate: 1}
			serve := func() *tare {
				return startTare(t, mariadb.Addr, "--bucket", plainURL(proxy), "--history-labels", "instance=gw-2,cluster=e2e",
					"--bucket-timeout", "1s", "--bucket-tries", "2")
			}
			// A well-formed listing of the bucket cannot be doubted before another has been seen, and a gateway that has shipped
			// nothing ends where there is no bucket.
			if !slices.Contains([]testbucket.Fault{testbucket.Lacks, testbucket.Flip, testbucket.NoBucket, testbucket.NoPage}, fault) {
				proxy.Break(rules)
				g := serve()
				eventually(t, "the end of the first sync", func() bool {
					_, body := get(t, g.http+"/api/v1/query?query=tare_queries_total")
					return !strings.Contains(body, "the first sync is under way")
				})
				o := servedOutcome(t, g, at, want)
				total[o]++
				if o == lieSilent {
					t.Errorf("from the start: an incomplete response without a warning\n%s", g.text())
				}
				proxy.Heal()
				g.end(t)
			}
			g := serve()
			defer g.end(t)
			eventually(t, "the other gateway's history", func() bool { return servedOutcome(t, g, at, want) == lieComplete })
			proxy.Break(rules)
			defer proxy.Heal()
			o := servedOutcome(t, g, at, want)
			total[o]++
			if o == lieSilent {
				t.Errorf("after a sync: an incomplete response without a warning\n%s", g.text())
			}
		})
	}
	t.Logf("responses: %v", total)
}
