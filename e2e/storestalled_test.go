//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

// stalledFrom is the address of the clients that stop reading, and readingFrom that of the others: the test distinguishes
// clients by address.
const stalledFrom, readingFrom = "127.0.0.2", "127.0.0.3"

// A stalledRequest is a request whose client reads the status of the response and nothing more.
type stalledRequest struct {
	method, path string
	body         []byte
}

// rawQuery requests the samples of 100 series of the data set, which follow each other in time, some 15 MB.
func rawQuery() stalledRequest {
	return stalledRequest{http.MethodGet, "/api/v1/query?time=8640000&query=" + url.QueryEscape(`{foo="bar"}[100d]`), nil}
}

// streamedRead requests all chunks of the data set.
func streamedRead(t *testing.T) stalledRequest {
	t.Helper()
	b, err := (&prompb.ReadRequest{
		Queries: []*prompb.Query{{EndTimestampMs: 1 << 60, Matchers: []*prompb.LabelMatcher{{Name: "foo", Value: "bar"}}}},

		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS},
	}).Marshal()
	must(t, err)
	return stalledRequest{http.MethodPost, "/api/v1/read", snappy.Encode(nil, b)}
}

// send sends the request, and reads nothing. Connections are closed with the test.
func (r stalledRequest) send(t *testing.T, base string) net.Conn {
	t.Helper()
	u, err := url.Parse(base)
	must(t, err)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(stalledFrom)}}
	c, err := d.DialContext(t.Context(), "tcp", u.Host)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", r.method, r.path, u.Host, len(r.body), r.body)
	must(t, err)
	return c
}

// stall sends the request and returns when the status of the response has arrived.
func (r stalledRequest) stall(t *testing.T, base string) {
	t.Helper()
	c := r.send(t, base)
	must(t, c.SetReadDeadline(time.Now().Add(testwait.Limit)))
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, status); err != nil || string(status) != "HTTP/1.1 200" {
		t.Fatalf("the status of %s: %s, %v", r.path, status, err)
	}
}

// sendCall starts a call over gRPC and receives nothing.
func sendCall(t *testing.T, c *grpc.ClientConn, method string, request any) {
	t.Helper()
	stream, err := c.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
	must(t, err)
	must(t, stream.SendMsg(request))
	must(t, stream.CloseSend())
}

// dialFrom connects from an address, with streams whose windows do not grow.
func dialFrom(t *testing.T, from, addr string) *grpc.ClientConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticStreamWindowSize(64<<10),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// readingClient returns an HTTP client at the address of reading clients.
func readingClient() *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(readingFrom)}}
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}, Timeout: time.Minute}
}

// read sends a request and reads the response.
func (r stalledRequest) read(t *testing.T, base string) (int, int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), r.method, base+r.path, bytes.NewReader(r.body))
	must(t, err)
	response, err := readingClient().Do(request)
	must(t, err)
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	must(t, err)
	return response.StatusCode, int(n)
}

// stalledBlocks writes a block with 35 MB of chunks and one with 8,000 values of a label.
func stalledBlocks(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	shape := testblock.BlockSeries()
	shape.Count = 800
	_, err := shape.Write(dir, testblock.Options{External: map[string]string{"instance": "other"}})
	must(t, err)
	many := testblock.Shape{Count: 8000, Samples: 1, Block: 1, Seed: 2}
	_, err = many.Write(dir, testblock.Options{External: map[string]string{"instance": "other"}})
	must(t, err)
	return dir
}

// stallAll has clients of every protocol stop reading, more of each than a store of 64 MiB runs concurrent
// queries.
func stallAll(t *testing.T, s *tare) (stalledHTTP, stalledGRPC int) {
	t.Helper()
	const each = 8
	for range each {
		streamedRead(t).send(t, s.http)
		rawQuery().send(t, s.http)
		// A connection of a stalled call is closed in the end, with its other calls.
		sendCall(t, dialFrom(t, stalledFrom, s.grpc), "/thanos.Store/Series", everySeries())
		sendCall(t, dialFrom(t, stalledFrom, s.grpc), "/thanos.Store/LabelValues", &storepb.LabelValuesRequest{End: 1 << 60, Label: "i"})
	}
	return 2 * each, 2 * each
}

func everySeries() *storepb.SeriesRequest {
	return &storepb.SeriesRequest{MaxTime: 1 << 60, ResponseBatchSize: 64, Matchers: []*storepb.LabelMatcher{{Name: "foo", Value: "bar"}}}
}

// checkLight requests paths while heavy queries wait behind stalled clients, none of which is disconnected.
func checkLight(t *testing.T, p *tare, paths ...string) {
	t.Helper()
	eventually(t, "heavy queries wait", func() bool { return metricValue(t, p, `tare_store_queries_waiting{lane="main"}`) > 0 })
	for _, path := range paths {
		if code, _ := (stalledRequest{http.MethodGet, path, nil}).read(t, p.http); code != http.StatusOK {
			t.Errorf("%s beside stalled clients: %d", path, code)
		}
	}
	if n := metricValue(t, p, `tare_store_slow_clients_total{protocol="http"}`); n != 0 {
		t.Errorf("%v stalled clients were cut", n)
	}
}

// TestStalledLight has clients of every protocol stop reading, none of which is disconnected: light requests
// are served beside them.
func TestStalledLight(t *testing.T) {
	s := startStoreAPI(t, stalledBlocks(t), "--query-bytes", "32MiB", "--process-bytes", "64MiB", "--write-timeout", "1h", "--queue-timeout", "1h",
		"--query-timeout", "1h")
	stallAll(t, s)
	checkLight(t, s, "/api/v1/labels", "/api/v1/label/foo/values", "/api/v1/metadata", "/api/v1/query?query=1%2B1",
		"/api/v1/series?match[]="+url.QueryEscape(`{i=~"0000001.*"}`))
	client := storepb.NewStoreClient(dialFrom(t, readingFrom, s.grpc))
	names, err := client.LabelNames(t.Context(), &storepb.LabelNamesRequest{End: 1 << 60})
	if err != nil || len(names.GetNames()) == 0 {
		t.Errorf("LabelNames beside stalled clients: %v, %v", names, err)
	}
}

// TestStalledClients has clients of every protocol stop reading: heavy requests of another client are served
// in turn, as stalled clients are disconnected and counted.
func TestStalledClients(t *testing.T) {
	s := startStoreAPI(t, stalledBlocks(t), "--query-bytes", "32MiB", "--process-bytes", "64MiB", "--response-bytes", "16MiB",
		"--write-timeout", "2s", "--queue-timeout", "2m")
	stalledHTTP, stalledGRPC := stallAll(t, s)
	for _, r := range []stalledRequest{rawQuery(), streamedRead(t)} {
		if code, n := r.read(t, s.http); code != http.StatusOK || n < 10<<20 {
			t.Errorf("%s beside stalled clients: %d, %d bytes", r.path, code, n)
		}
	}
	if n, err := download(t.Context(), dialStore(t, s.grpc), everySeries()); err != nil || n < 10<<20 {
		t.Errorf("Series beside stalled clients: %d bytes, %v", n, err)
	}
	for protocol, want := range map[string]int{"http": stalledHTTP, "grpc": stalledGRPC} {
		name := fmt.Sprintf("tare_store_slow_clients_total{protocol=%q}", protocol)
		eventually(t, "all stalled clients are cut and counted: "+protocol, func() bool { return int(metricValue(t, s, name)) == want })
	}
	eventually(t, "no query runs", func() bool {
		return metricValue(t, s, "tare_store_queries_running") == 0 && metricValue(t, s, "tare_store_reserved_bytes") == 0 &&
			metricValue(t, s, "tare_store_waiting_responses_bytes") == 0
	})
}

// TestStalledTenant bounds a stalled client: its requests beyond the limit are refused, and another client is
// served immediately, although no client is disconnected during the test.
func TestStalledTenant(t *testing.T) {
	dir := t.TempDir()
	_, err := testblock.BlockSeries().Write(dir, testblock.Options{External: map[string]string{}})
	must(t, err)
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	must(t, os.WriteFile(limits, []byte("clients:\n  "+stalledFrom+": {requests: 2, queue: 1}\n"), 0o600))
	s := startStoreAPI(t, dir, "--query-bytes", "32MiB", "--process-bytes", "96MiB", "--write-timeout", "1h", "--tenant-limits", limits)
	reads := streamedRead(t)
	for range 2 {
		reads.stall(t, s.http)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(stalledFrom)}}
	stalled := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	codes := make(chan int, 2)
	for range 2 { // one waits, the other is refused
		go func() {
			request, err := http.NewRequestWithContext(t.Context(), reads.method, s.http+reads.path, bytes.NewReader(reads.body))
			if err != nil {
				codes <- 0
				return
			}
			response, err := stalled.Do(request)
			if err != nil {
				codes <- 0 // the test has ended
				return
			}
			response.Body.Close()
			codes <- response.StatusCode
		}()
	}
	if code := testwait.Receive(t, "the request beyond the queue", codes); code != http.StatusTooManyRequests {
		t.Errorf("the request beyond the queue: %d", code)
	}
	if code, n := reads.read(t, s.http); code != http.StatusOK || n < 10<<20 {
		t.Errorf("another client: %d, %d bytes", code, n)
	}
	if n := metricValue(t, s, fmt.Sprintf("tare_store_tenant_requests_refused_total{kind=%q,name=%q}", "client", stalledFrom)); n != 1 {
		t.Errorf("%v requests are counted as refused, want 1", n)
	}
}

// TestStalledHistory has clients of a gateway's history stop reading: more than its concurrent queries.
// Pages, labels and expressions without series are served beside them.
func TestStalledHistory(t *testing.T) {
	p := startTare(t, mariadb.Addr, "--bucket", "file://"+stalledBlocks(t), "--history-interval", "1s", "--history-labels", "instance=gw-1",
		"--history-query-bytes", "32MiB", "--history-process-bytes", "32MiB")
	eventually(t, "the history is ready", func() bool {
		code, _ := get(t, p.http+"/api/v1/labels")
		return code == http.StatusOK
	})
	for range 8 {
		streamedRead(t).send(t, p.http)
	}
	checkLight(t, p, "/", "/api/v1/labels", "/api/v1/label/foo/values", "/api/v1/metadata", "/api/v1/query?query=1%2B1",
		"/api/v1/statements", "/metrics", "/-/ready")
}
