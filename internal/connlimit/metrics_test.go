package connlimit

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
)

// TestCollector has the counts of limits in metrics.
func TestCollector(t *testing.T) {
	grpc, http := New(4), New(1)
	a, b := AddressOf("192.0.2.1:1"), AddressOf("192.0.2.2:1")
	for range 3 {
		grpc.Acquire(a) // half of 4
	}
	if !grpc.Acquire(b) {
		t.Error("no room for another address")
	}
	if !http.Acquire(a) || http.Acquire(b) {
		t.Error("a limit of 1")
	}
	if err := testutil.CollectAndCompare(Collector(map[string]*Limit{"grpc": grpc, "http": http}), strings.NewReader(`
# HELP tare_listener_limit Limit of open connections and requests in flight.
# TYPE tare_listener_limit gauge
tare_listener_limit{of="grpc"} 4
tare_listener_limit{of="http"} 1
# HELP tare_listener_open Open connections and requests in flight, of HTTP or gRPC.
# TYPE tare_listener_open gauge
tare_listener_open{of="grpc"} 3
tare_listener_open{of="http"} 1
# HELP tare_listener_refused_total Connections closed and requests refused with 503, because a limit was reached.
# TYPE tare_listener_refused_total counter
tare_listener_refused_total{of="grpc"} 1
tare_listener_refused_total{of="http"} 1
`)); err != nil {
		t.Error(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if n := OpenFiles(); limit.Cur < 1<<31 && uint64(n) != limit.Cur {
		t.Errorf("%d open files, want %d", n, limit.Cur)
	}
}
