//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testblock"
)

// startStoreAPI runs `tare store` over a bucket in a directory, with the StoreAPI.
func startStoreAPI(t *testing.T, dir string, args ...string) *tare {
	t.Helper()
	s := start(t, append([]string{
		"store", "--bucket", "file://" + dir, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
		"--data-dir", t.TempDir(), "--diag-format", "json",
	}, args...))
	eventually(t, "synced", func() bool {
		code, _ := get(t, s.http+"/-/ready")
		return code == http.StatusOK
	})
	return s
}

// freeAddr returns an address without a listener.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// startThanos runs a Thanos querier over stores and returns its URL.
func startThanos(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("thanos")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which builds it", err)
	}
	addr := freeAddr(t)
	cmd := exec.Command(path, append([]string{
		"query", "--http-address", addr, "--grpc-address", freeAddr(t), "--log.format=json",
	}, args...)...)
	q := startChild(t, cmd, func([]byte) {})
	t.Cleanup(func() {
		q.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("thanos query:\n%s", q.text())
		}
	})
	awaitReady(t, "thanos query", addr)
	return "http://" + addr
}

// A responded is the part of a response of Prometheus' HTTP API that must be equal on two servers.
type responded struct {
	Status   string
	Error    string
	Data     any
	Warnings []string
}

func ask(t *testing.T, base, path string, form url.Values) responded {
	t.Helper()
	code, body := get(t, base+"/api/v1/"+path+"?"+form.Encode())
	var a responded
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s/%s: %d %s", base, path, code, body)
	}
	return a
}

// sorted sorts unordered results: the series of a matrix or vector.
func sorted(a responded) responded {
	var list []any
	switch d := a.Data.(type) {
	case []any:
		list = d
	case map[string]any:
		list, _ = d["result"].([]any)
	}
	slices.SortFunc(list, func(x, y any) int {
		return strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
	})
	if d, ok := a.Data.(map[string]any); ok {
		delete(d, "stats")
		delete(d, "analysis")
		delete(d, "explanation")
	}
	return a
}

// fleet writes blocks of two replicas with the same data, and of one separate Prometheus, and returns the
// time range of their samples, in milliseconds.
func fleet(t *testing.T, dir string) (mint, maxt int64) {
	t.Helper()
	o := testblock.RandomOptions{Series: 150, Samples: 200, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(rand.New(rand.NewPCG(1, 2)), o)
	maxt = o.Start + int64(o.Samples)*2*o.Step
	for _, external := range []map[string]string{{"cluster": "eu", "replica": "a"}, {"cluster": "eu", "replica": "b"}, {"cluster": "us", "replica": "a"}} {
		half := o.Start + int64(o.Samples)*o.Step/2
		for _, part := range [][2]int64{{o.Start, half}, {half, maxt}} {
			_, err := testblock.Write(dir, testblock.Between(series, part[0], part[1]), testblock.Options{External: external, ChunkRange: o.ChunkRange()})
			must(t, err)
		}
	}
	return o.Start, maxt
}

// TestThanosQuerier attaches a Thanos querier to tare store and sends both the same queries: the querier uses
// the StoreAPI, the test the store's HTTP API. They agree on values, labels and names, with every transfer
// option of a querier.
func TestThanosQuerier(t *testing.T) {
	dir := t.TempDir()
	mint, maxt := fleet(t, dir)
	s := startStoreAPI(t, dir)
	at := func(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }
	middle := at((mint + maxt) / 2)
	ranged := url.Values{"start": {at(mint)}, "end": {at(maxt)}, "step": {"60"}}
	for _, way := range []struct {
		name string
		args []string
	}{
		{"plain", nil},
		{"snappy", []string{"--grpc-compression=snappy"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			thanos := startThanos(t, append(way.args, "--endpoint", s.grpc)...)
			eventually(t, "the querier knows the store", func() bool {
				_, body := get(t, thanos+"/api/v1/stores")
				return strings.Contains(body, s.grpc) && strings.Contains(body, `"lastError":null`)
			})
			for _, query := range []string{
				`{__name__=~".+"}`, `sum by (__name__) ({__name__=~".+"})`, `count by (cluster, replica) ({__name__=~".+"})`,
				`count_over_time(metric_3{cluster="us"}[5m])`, `last_over_time(metric_1{cluster="us"}[5m])`, `max_over_time({job=~".+",replica="a",__name__="metric_2"}[10m])`, `{cluster="nowhere",__name__=~".+"}`,
			} {
				for path, form := range map[string]url.Values{"query": {"time": {middle}}, "query_range": ranged} {
					f := url.Values{"query": {query}, "dedup": {"false"}, "partial_response": {"false"}, "max_source_resolution": {"0s"}}
					for k, v := range form {
						f[k] = v
					}
					got, want := sorted(ask(t, thanos, path, f)), sorted(ask(t, s.http, path, f))
					// The engine's warnings do not concern the store.
					warnings := slices.DeleteFunc(got.Warnings, func(w string) bool { return strings.HasPrefix(w, "PromQL ") })
					if want.Status != "success" || !reflect.DeepEqual(got.Data, want.Data) || len(warnings) > 0 {
						t.Errorf("%s of %s: thanos %.300v %s %v; tare %.300v %s", path, query, got.Data, got.Error, got.Warnings, want.Data, want.Error)
					}
				}
			}
			for path, form := range map[string]url.Values{
				"labels": {}, "label/job/values": {}, "label/cluster/values": {}, "series": {"match[]": {`{cluster="us"}`}, "dedup": {"false"}},
			} {
				form["start"], form["end"] = ranged["start"], ranged["end"]
				got, want := sorted(ask(t, thanos, path, form)), sorted(ask(t, s.http, path, form))
				if want.Status != "success" || len(want.Data.([]any)) == 0 || !reflect.DeepEqual(got.Data, want.Data) {
					t.Errorf("%s: thanos %.300v %s; tare %.300v %s", path, got.Data, got.Error, want.Data, want.Error)
				}
			}
			// Replicas become one series, for which the store omits the label.
			deduplicated := startThanos(t, append(way.args, "--endpoint", s.grpc, "--query.replica-label=replica")...)
			eventually(t, "the querier answers", func() bool {
				a := ask(t, deduplicated, "query", url.Values{"query": {`count({__name__=~".+",cluster="eu"})`}, "time": {middle}})
				b := ask(t, s.http, "query", url.Values{"query": {`count({__name__=~".+",cluster="eu",replica="a"})`}, "time": {middle}})
				return len(a.Warnings) == 0 && reflect.DeepEqual(a.Data.(map[string]any)["result"], b.Data.(map[string]any)["result"])
			})
		})
	}
}
