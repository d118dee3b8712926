//go:build e2e

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// A writeReceiver is a server that takes remote write. It keeps its data and address when it is started again.
type writeReceiver struct {
	push, query string // URL of remote write; URL before /api/v1
	tenant      string
	start       func(t *testing.T) *child
	process     *child
}

// restart kills the receiver, calls a function while it is down, and starts it again.
func (r *writeReceiver) restart(t *testing.T, down func()) {
	t.Helper()
	r.process.end(syscall.SIGKILL)
	down()
	r.process = r.start(t)
}

// ask sends a query to the receiver.
func (r *writeReceiver) ask(t *testing.T, path string, form url.Values) (a responded) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.query+"/api/v1/"+path+"?"+form.Encode(), nil)
	must(t, err)
	if r.tenant != "" {
		request.Header.Set("X-Scope-OrgID", r.tenant)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	if err := json.Unmarshal(body, &a); err != nil {
		a.Error = fmt.Sprintf("%s: %.1000s", response.Status, body)
	}
	return a
}

// newPrometheusReceiver returns a running Prometheus that takes remote write, also of samples that are two hours old.
func newPrometheusReceiver(t *testing.T) *writeReceiver {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: run e2e/run, which builds what is missing", err)
	}
	dir, addr := t.TempDir(), freeAddr(t)
	file := filepath.Join(dir, "prometheus.yaml")
	must(t, os.WriteFile(file, []byte("storage:\n  tsdb:\n    out_of_order_time_window: 2h\n"), 0o600))
	r := &writeReceiver{push: "http://" + addr + "/api/v1/write", query: "http://" + addr}
	r.start = func(t *testing.T) *child {
		t.Helper()
		p := startChild(t, exec.Command(program, "--config.file", file, "--web.listen-address", addr, "--storage.tsdb.path", filepath.Join(dir, "data"),
			"--web.enable-remote-write-receiver", "--log.level", "warn"), func([]byte) {})
		awaitReady(t, "Prometheus", addr)
		return p
	}
	r.process = r.start(t)
	return r
}

// mimirConfig runs all parts of Mimir in one process, on one address, over a directory.
const mimirConfig = `multitenancy_enabled: true
target: all
usage_stats: {enabled: false}
server: {http_listen_address: 127.0.0.1, http_listen_port: %[1]s, grpc_listen_address: 127.0.0.1, grpc_listen_port: %[2]s, log_level: warn}
common: {storage: {backend: filesystem, filesystem: {dir: %[3]s/common}}}
blocks_storage: {storage_prefix: blocks, bucket_store: {sync_dir: %[3]s/sync}, tsdb: {dir: %[3]s/tsdb}}
ruler_storage: {storage_prefix: rules}
compactor: {data_dir: %[3]s/compactor, sharding_ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
distributor: {ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
ingester: {ring: {instance_addr: 127.0.0.1, replication_factor: 1, min_ready_duration: 0s, final_sleep: 0s, kvstore: {store: inmemory}}}
store_gateway: {sharding_ring: {instance_addr: 127.0.0.1, replication_factor: 1, kvstore: {store: inmemory}}}
ruler: {rule_path: %[3]s/ruler, ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
frontend: {address: 127.0.0.1}
querier: {ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
query_scheduler: {ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
memberlist: {bind_addr: [127.0.0.1], bind_port: %[4]s}
activity_tracker: {filepath: %[3]s/activity}
limits: {out_of_order_time_window: 2h, ingestion_rate: 1000000, ingestion_burst_size: 10000000}
`

// newMimirReceiver returns a running Mimir.
func newMimirReceiver(t *testing.T) *writeReceiver {
	t.Helper()
	if why := os.Getenv("TARE_NO_MIMIR"); why != "" {
		t.Skip(why)
	}
	program, err := exec.LookPath("mimir")
	if err != nil {
		t.Fatalf("%v: run make mimir, which builds it, or set TARE_NO_MIMIR to the reason why there is none", err)
	}
	dir, addr := t.TempDir(), freeAddr(t)
	file := filepath.Join(dir, "mimir.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, mimirConfig, port(t, addr), port(t, freeAddr(t)), dir, port(t, freeAddr(t))), 0o600))
	r := &writeReceiver{push: "http://" + addr + "/api/v1/push", query: "http://" + addr + "/prometheus", tenant: "fleet"}
	r.start = func(t *testing.T) *child {
		t.Helper()
		p := startChild(t, exec.Command(program, "-config.file", file), func([]byte) {})
		eventually(t, "Mimir is ready", func() bool {
			response, err := http.Get("http://" + addr + "/ready")
			if err != nil {
				select {
				case <-p.exited:
					t.Fatalf("Mimir has exited:\n%.20000s", p.text())
				default:
				}
				return false
			}
			response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
		return p
	}
	r.process = r.start(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("mimir:\n%.20000s", r.process.text())
		}
	})
	return r
}

// A writingGateway is a gateway that sends its history.
type writingGateway struct {
	*tare
	instance, data, bucket string
	receiver               *writeReceiver
}

func newWritingGateway(t *testing.T, instance, data string, r *writeReceiver) *writingGateway {
	t.Helper()
	g := &writingGateway{instance: instance, data: data, bucket: t.TempDir(), receiver: r}
	g.run(t)
	return g
}

// run starts the gateway.
func (g *writingGateway) run(t *testing.T) {
	t.Helper()
	args := []string{
		"--bucket", "file://" + g.bucket, "--data-dir", g.data, "--history-labels", "instance=" + g.instance + ",cluster=e2e",
		"--history-interval", "1s", "--history-remote-write", g.receiver.push,
	}
	if g.receiver.tenant != "" {
		args = append(args, "--history-remote-write-tenant", g.receiver.tenant)
	}
	g.tare = startTare(t, mariadb.Addr, args...)
}

// kill kills the gateway and starts it again.
func (g *writingGateway) kill(t *testing.T) {
	t.Helper()
	g.tare.kill()
	g.run(t)
}

// remoteWrite returns a metric of the gateway's remote write, summed over its labels.
func (g *writingGateway) remoteWrite(t *testing.T, name string) (sum float64) {
	t.Helper()
	_, body := get(t, g.http+"/metrics")
	for line := range strings.Lines(body) {
		text, ok := strings.CutPrefix(line, "tare_history_remote_write_"+name)
		if ok && (text[0] == ' ' || text[0] == '{') {
			n, err := strconv.ParseFloat(strings.TrimSpace(text[strings.LastIndexByte(text, ' ')+1:]), 64)
			must(t, err)
			sum += n
		}
	}
	return sum
}

// A trickle calls statements through gateways until it is stopped.
type trickle struct {
	pools   []*sql.DB
	calls   atomic.Int64
	stop    func()
	clients sync.WaitGroup
}

// newTrickle calls statements through a gateway. Calls fail while it is restarted.
func newTrickle(t *testing.T, g *writingGateway) *trickle {
	t.Helper()
	l, end := &trickle{}, make(chan struct{})
	l.stop = sync.OnceFunc(func() {
		close(end)
		testwait.Group(t, "the clients", &l.clients)
	})
	addr := g.addr
	db := open(t, addr, "")
	l.clients.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond): // paces: a rate of calls
			}
			columns := strings.Repeat(", 1", n%7)
			if n%50 == 49 {
				columns += ", no_such_column"
			}
			if rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %d%s", n, columns)); err == nil {
				rows.Close()
				l.calls.Add(1)
			}
		}
	})
	t.Cleanup(l.stop)
	return l
}

// await waits until more calls have succeeded.
func (l *trickle) await(t *testing.T, more int64) {
	t.Helper()
	before := l.calls.Load()
	eventually(t, "calls", func() bool { return l.calls.Load() >= before+more })
}

// TestRemoteWritePrometheus sends histories to Prometheus, TestRemoteWriteMimir to Mimir: see remoteWrites.
func TestRemoteWritePrometheus(t *testing.T) { remoteWrites(t, newPrometheusReceiver(t)) }

// TestRemoteWriteMimir is TestRemoteWritePrometheus with Mimir.
func TestRemoteWriteMimir(t *testing.T) { remoteWrites(t, newMimirReceiver(t)) }

// remoteWrites has a gateway send its history all along, and another one that could not reach the receiver for an hour. The
// receiver is killed while the second catches up, is stopped under load and killed again, and both gateways are killed.
// Afterwards PromQL has the same results at the gateways and at the receiver, and nothing is counted as lost.
func remoteWrites(t *testing.T, r *writeReceiver) {
	t.Helper()
	began := time.Now()
	steady := newWritingGateway(t, "steady", t.TempDir(), r)
	load := newTrickle(t, steady)
	sent := func(g *writingGateway, more float64) {
		t.Helper()
		before := g.remoteWrite(t, "sent_samples_total")
		eventually(t, "samples sent by "+g.instance, func() bool { return g.remoteWrite(t, "sent_samples_total") >= before+more })
	}
	sent(steady, 100) // the receiver has newer samples than those of the hour

	data := t.TempDir()
	hour := pastShape{hours: 1, step: 10 * time.Second, instance: "cut-off"}.write(t, data)
	// Without this file, which the option's first start writes, samples before it are not sent.
	must(t, os.WriteFile(filepath.Join(data, "history", "remote-write.json"), []byte(`{"version":1,"instances":{},"accepted":true}`), 0o600))
	late := newWritingGateway(t, "cut-off", data, r)
	lateLoad := newTrickle(t, late)
	sent(late, 100)
	r.restart(t, func() { lateLoad.await(t, 100) })
	sent(late, 100)
	lateLoad.stop()
	late.kill(t)
	lateLoad = newTrickle(t, late)
	sent(late, 100)

	must(t, r.process.cmd.Process.Signal(syscall.SIGSTOP))
	load.await(t, 200)
	must(t, r.process.cmd.Process.Signal(syscall.SIGCONT))
	sent(steady, 100)
	r.restart(t, func() {
		load.await(t, 200)
		load.stop()
		steady.kill(t)
		load = newTrickle(t, steady)
		load.await(t, 200)
	})
	sent(steady, 100)
	sent(late, 100)
	load.stop()
	lateLoad.stop()

	for _, g := range []*writingGateway{steady, late} {
		from := began
		if g == late {
			from = hour.ends[0]
		}
		compareReceived(t, r, g, from)
		for _, metric := range []string{"lost_samples_total", "lost_seconds_total"} {
			if n := g.remoteWrite(t, metric); n != 0 {
				t.Errorf("%s: %s is %v", g.instance, metric, n)
			}
		}
		t.Logf("%s: since its last start %v samples sent, %v repeated, %v failed requests", g.instance,
			g.remoteWrite(t, "sent_samples_total"), g.remoteWrite(t, "repeated_samples_total"), g.remoteWrite(t, "failures_total"))
	}
	checkHour(t, r, hour)
}

// compareReceived compares PromQL of a gateway with that of the receiver, once all was sent.
func compareReceived(t *testing.T, r *writeReceiver, g *writingGateway, from time.Time) {
	t.Helper()
	to := time.Now() // there are no calls any more
	own := fmt.Sprintf(`instance=%q`, g.instance)
	length := 0
	for n, query := range []string{
		`{__name__=~"tare_.*",` + own + `}`,
		`sum(tare_queries_total{` + own + `})`,
		`sum by (digest) (rate(tare_queries_total{` + own + `}[1m]))`,
		`sum by (digest) (increase(tare_query_errors_total{` + own + `}[2m]))`,
		`histogram_quantile(0.9, sum by (digest) (rate(tare_query_duration_seconds{` + own + `}[1m])))`,
		`histogram_count(sum(tare_query_duration_seconds{` + own + `}))`,
		`resets(tare_queries_total{` + own + `}[5m])`,
		`count by (__name__) (last_over_time({__name__=~"tare_.*",` + own + `}[10s]))`,
	} {
		form := url.Values{
			"query": {query}, "step": {"7"}, "start": {fmt.Sprint(from.Unix())}, "end": {fmt.Sprint(to.Unix())},
		}
		want, got := byMetric(ask(t, g.http, "query_range", form)), responded{}
		same := func() bool {
			want, got = byMetric(ask(t, g.http, "query_range", form)), byMetric(r.ask(t, "query_range", form))
			return want.Status == "success" && got.Status == "success" && closeTo(want.Data, got.Data)
		}
		if n == 0 { // afterwards all was sent
			testwait.UntilState(t, g.instance+": the receiver has all samples", func() (string, bool) {
				if same() {
					return "", true
				}
				time.Sleep(200 * time.Millisecond) // polls: another process
				return fmt.Sprintf("here %s %s, at the receiver %s %s: %s", want.Status, want.Error, got.Status, got.Error, dissent(want.Data, got.Data)), false
			})
		}
		if !same() {
			t.Errorf("%s: %s; here %s %s, at the receiver %s %s: %s", g.instance, query, want.Status, want.Error, got.Status, got.Error, dissent(want.Data, got.Data))
		}
		length += len(fmt.Sprint(want.Data))
	}
	if length < 10_000 {
		t.Errorf("%s: only %d characters were compared", g.instance, length)
	}
}

// checkHour expects the counted statements of the hour at the receiver.
func checkHour(t *testing.T, r *writeReceiver, hour *past) {
	t.Helper()
	for n := 5; n < len(hour.ends); n += len(hour.ends) / 20 {
		at := hour.ends[n]
		a := r.ask(t, "query", url.Values{"query": {`sum(tare_queries_total{instance="cut-off"})`}, "time": {fmt.Sprint(at.Unix())}})
		if want := fmt.Sprintf(" %d]", hour.at(at)); a.Status != "success" || !strings.Contains(fmt.Sprint(a.Data), want) {
			t.Errorf("at round %d: %s %s %v, want %s", n, a.Status, a.Error, a.Data, want)
		}
	}
}
