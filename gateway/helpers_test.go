package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testmysql.Main(m),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // sqlparser's log
}

// A rig is a gateway under test.
type rig struct {
	*gateway.Server
	addr    string
	planner *sqlplan.Planner
	records *recorder

	expectedPanics uint64
}

// A recorder keeps the observed records.
type recorder struct {
	mu   sync.Mutex
	list []querylog.Record
	text []string // normalized text of each record
	errs []string
}

func (r *recorder) Observe(rec *querylog.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *rec)
	r.text = append(r.text, string(rec.Normalized))
	r.errs = append(r.errs, string(rec.ErrorText))
}

// wait returns the record with index i as soon as it exists.
func (r *recorder) wait(t *testing.T, i int) (querylog.Record, string, string) {
	t.Helper()
	testwait.UntilState(t, fmt.Sprintf("%d records", i+1), func() (string, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Sprintf("%q", r.text), len(r.list) > i
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[i], r.text[i], r.errs[i]
}

// awaitQueries waits until the gateway has forwarded n COM_QUERY.
func (r *rig) awaitQueries(t *testing.T, n uint64) {
	t.Helper()
	testwait.Equal(t, "the statements to be passed on", n, func() uint64 {
		return r.metric(t, "tare_commands_total", mysqlwire.ComQuery.String())
	})
}

// metric returns the value of a metric with the values of its labels, 0 if it is not exposed.
func (r *rig) metric(t testing.TB, name string, labels ...string) uint64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if slices.Equal(values, labels) {
				return uint64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return 0
}

// newcomers returns the number of clients that are not logged in.
func (r *rig) newcomers(t testing.TB) int {
	t.Helper()
	return int(r.metric(t, "tare_connections_unauthenticated"))
}

// startGateway runs a gateway in front of the backend until the test ends, and checks that it releases
// everything at its end.
func startGateway(t testing.TB, backend string, change func(*gateway.Options)) *rig {
	t.Helper()
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	log, err := querylog.New(querylog.Options{RingBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{records: &recorder{}}
	o := gateway.Options{
		Backend: gateway.Backend{Addr: backend}, Planner: planner, Log: log, Observers: []gateway.Observer{r.records},
		Diag: slog.New(slog.DiscardHandler),
	}
	if os.Getenv("TARE_TEST_LOG") != "" {
		o.Diag = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&o)
	}
	r.planner = o.Planner
	if r.Server, err = gateway.New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r.Shutdown(ctx)
		if err := testwait.Receive(t, "Serve to return", served); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := log.Close(ctx); err != nil {
			t.Errorf("close the log: %v", err)
		}
		if n := r.metric(t, "tare_session_panics_total"); n != r.expectedPanics {
			t.Errorf("%d sessions panicked, want %d", n, r.expectedPanics)
		}
		if n := r.Sessions(); n != 0 {
			t.Errorf("%d sessions after Shutdown", n)
		}
		if _, lent := r.BufferBytes(); lent != 0 {
			t.Errorf("%d bytes of relay buffers were not given back", lent)
		}
	})
	return r
}

const scriptCaps = mysqlwire.CapLongPassword | mysqlwire.CapProtocol41 | mysqlwire.CapConnectWithDB |
	mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth | mysqlwire.CapTransactions |
	mysqlwire.CapMultiStatements | mysqlwire.CapMultiResults | mysqlwire.CapLocalFiles | mysqlwire.CapDeprecateEOF
