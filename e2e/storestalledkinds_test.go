//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// moreThanBuffers exceeds the bytes that the kernel buffers of a response whose client stops reading, and
// mostRead is the maximum that such a client reads before.
const moreThanBuffers, mostRead = 6 << 20, 1 << 20

// sampledRead requests four million samples of the data set, decoded.
func sampledRead(t *testing.T) stalledRequest {
	t.Helper()
	b, err := (&prompb.ReadRequest{Queries: []*prompb.Query{{EndTimestampMs: 1 << 60, Matchers: []*prompb.LabelMatcher{
		{Type: prompb.LabelMatcher_RE, Name: "i", Value: "0[0-3].*"}, {Name: "foo", Value: "bar"},
	}}}}).Marshal()
	must(t, err)
	return stalledRequest{http.MethodPost, "/api/v1/read", snappy.Encode(nil, b)}
}

// manySeries requests the labels of 80,000 series.
func manySeries() stalledRequest {
	return stalledRequest{http.MethodGet, "/api/v1/series?limit=0&match[]=" + url.QueryEscape(`{foo="bar"}`), nil}
}

// stallWithin sends the request, reads some bytes of the response, and then stops.
func (r stalledRequest) stallWithin(t *testing.T, base string, bytes int64) {
	t.Helper()
	c := r.send(t, base)
	must(t, c.(*net.TCPConn).SetReadBuffer(256<<10)) // a smaller one is read slowly
	must(t, c.SetReadDeadline(time.Now().Add(testwait.Limit)))
	if n, err := io.CopyN(io.Discard, c, bytes); err != nil {
		t.Errorf("%s: %d bytes of a response and %v, want %d", r.path, n, err, bytes)
	}
}

// stallCallWithin sends a call's request, receives some messages, and then stops.
func stallCallWithin(t *testing.T, c *grpc.ClientConn, request *storepb.SeriesRequest, messages int) {
	t.Helper()
	stream, err := storepb.NewStoreClient(c).Series(t.Context(), request)
	must(t, err)
	for range messages {
		_, err := stream.Recv()
		must(t, err)
	}
}

// goroutines returns the number of the process' goroutines.
func goroutines(t *testing.T, p *tare) int { return int(metricValue(t, p, "go_goroutines")) }

// TestStalledKinds has clients of every kind of large response stop reading somewhere within it. All are
// disconnected and counted, and the process has no more goroutines and reserved bytes than before.
func TestStalledKinds(t *testing.T) {
	rnd := testseed.Rand(t)
	dir := stalledBlocks(t)
	many := testblock.Shape{Count: 80_000, Samples: 1, Seed: 3}
	_, err := many.Write(dir, testblock.Options{External: map[string]string{"instance": "many"}})
	must(t, err)
	s := startStoreAPI(t, dir, "--query-bytes", "128MiB", "--process-bytes", "512MiB", "--write-timeout", "2s", "--queue-timeout", "2m")
	kinds := map[string]stalledRequest{
		"range vector": rawQuery(), "streamed read": streamedRead(t), "sampled read": sampledRead(t), "series": manySeries(),
	}
	for name, r := range kinds {
		if code, n := r.read(t, s.http); code != http.StatusOK || n < moreThanBuffers {
			t.Fatalf("%s: %d, %d bytes, want more than %d", name, code, n, moreThanBuffers)
		}
	}
	base := goroutines(t, s)
	const each = 6
	for range each {
		for _, r := range kinds {
			r.stallWithin(t, s.http, 1+rnd.Int64N(mostRead))
		}
		stallCallWithin(t, dialFrom(t, stalledFrom, s.grpc), everySeries(), rnd.IntN(5))
	}
	checkCut(t, s, each*len(kinds), each)
	eventually(t, "the goroutines of stalled clients end", func() bool { return goroutines(t, s) <= base })
	for name, r := range kinds {
		if code, n := r.read(t, s.http); code != http.StatusOK || n < moreThanBuffers {
			t.Errorf("%s after stalled clients: %d, %d bytes", name, code, n)
		}
	}
}

// checkCut waits until the given number of clients has been disconnected, and the store has released their
// reserved bytes.
func checkCut(t *testing.T, s *tare, http, grpc int) {
	t.Helper()
	for protocol, want := range map[string]int{"http": http, "grpc": grpc} {
		name := fmt.Sprintf("tare_store_slow_clients_total{protocol=%q}", protocol)
		eventually(t, fmt.Sprintf("%d stalled clients are cut and counted: %s", want, protocol), func() bool { return int(metricValue(t, s, name)) == want })
	}
	eventually(t, "no query runs", func() bool {
		return metricValue(t, s, "tare_store_queries_running") == 0 && metricValue(t, s, "tare_store_reserved_bytes") == 0 &&
			metricValue(t, s, "tare_store_waiting_responses_bytes") == 0
	})
}

// TestStalledActiveSeries has clients of active series stop reading somewhere within the response: the
// frontend disconnects them after its --timeout, and releases the shards' connections.
func TestStalledActiveSeries(t *testing.T) {
	rnd := testseed.Rand(t)
	item := []byte(`{"__name__":"http_requests_total","instance":"instance-17","job":"prometheus","path":"/api/v1/items"},`)
	items := bytes.TrimSuffix(bytes.Repeat(item, moreThanBuffers/len(item)), []byte(","))
	downstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, b := range [][]byte{[]byte(`{"data":[`), items, []byte(`]}`)} {
			if _, err := w.Write(b); err != nil {
				return // the frontend has disconnected
			}
		}
	}))
	downstream.Config.SetKeepAlivesEnabled(false) // idle connections have goroutines
	downstream.Start()
	defer downstream.Close()
	p := start(t, []string{
		"frontend", "--downstream", downstream.URL, "--http", "127.0.0.1:0", "--shards", "4", "--diag-format", "json", "--timeout", "5s",
	})
	active := stalledRequest{http.MethodGet, "/api/v1/cardinality/active_series?selector=http_requests_total", nil}
	if code, n := active.read(t, p.http); code != http.StatusOK || n < 4*len(items) {
		t.Fatalf("active series: %d, %d bytes", code, n)
	}
	base := goroutines(t, p)
	for range 8 {
		active.stallWithin(t, p.http, 1+rnd.Int64N(mostRead))
	}
	eventually(t, "the goroutines of stalled clients end", func() bool { return goroutines(t, p) <= base })
	if code, n := active.read(t, p.http); code != http.StatusOK || n < 4*len(items) {
		t.Errorf("active series after stalled clients: %d, %d bytes", code, n)
	}
}
