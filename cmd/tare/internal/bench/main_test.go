package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testmysql.Main(m)) }

// weighed returns this process as the target: its pages are served by the test.
func weighed(t *testing.T) TargetOptions {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	plans := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tare_plan_cache_bytes"})
	plans.Set(4096)
	reg.MustRegister(plans)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return TargetOptions{PID: os.Getpid(), Metrics: srv.URL + "/metrics"}
}

// shortOLTP returns options for a run of some milliseconds on a separate schema.
func shortOLTP(t *testing.T, workload string) OLTPOptions {
	t.Helper()
	o := DefaultOLTPOptions()
	o.DSN = testmysql.Shared(t).DSN("root")
	o.Workload = workload
	o.Rows, o.Threads, o.Warmup, o.Duration = 300, 3, 10*time.Millisecond, 150*time.Millisecond
	return o
}

// runOLTP runs a benchmark that must succeed. On a busy machine no operation may end within the shortest runs: then it
// measures for longer.
func runOLTP(t *testing.T, o OLTPOptions) Result {
	t.Helper()
	for {
		r, err := OLTP(t.Context(), o)
		if err == nil {
			return r
		}
		if !errors.Is(err, errNoOperation) || o.Duration > time.Minute {
			t.Fatal(err)
		}
		o.Duration *= 4
	}
}

// relay copies bytes between clients and a server, and can be stalled.
type relay struct {
	l       net.Listener
	stalled sync.RWMutex // write-locked while bytes are held back
	all     sync.WaitGroup
}

// newRelay starts a relay in front of the server that a DSN names and returns the relay's DSN.
func newRelay(t *testing.T, dsn string) (*relay, string) {
	t.Helper()
	before, rest, ok := strings.Cut(dsn, "@tcp(")
	backend, after, ok2 := strings.Cut(rest, ")")
	if !ok || !ok2 {
		t.Fatalf("DSN %q is not of the expected form", dsn)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l}
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", backend)
			if err != nil {
				c.Close()
				return
			}
			r.all.Go(func() { r.copy(s, c) })
			r.all.Go(func() { r.copy(c, s) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		testwait.Group(t, "the server's goroutines", &r.all)
	})
	return r, fmt.Sprintf("%s@tcp(%s)%s", before, l.Addr(), after)
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.stalled.RLock()
		_, werr := to.Write(buf[:n])
		r.stalled.RUnlock()
		if err != nil || werr != nil {
			return
		}
	}
}

// progressWatch calls do when a line of progress contains text.
func progressWatch(t *testing.T, text string, do func()) io.Writer {
	r, w := io.Pipe()
	var all sync.WaitGroup
	once := sync.OnceFunc(do)
	all.Go(func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if strings.Contains(lines.Text(), text) {
				once()
			}
		}
	})
	t.Cleanup(func() {
		w.Close()
		testwait.Group(t, "the reader to return", &all)
	})
	return w
}

// cancelled returns a canceled context.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
