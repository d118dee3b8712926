//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/weigh"
)

// A counting codec marshals requests and only counts responses, so that the client costs little beside the
// server.
type counting struct{}

func (counting) Name() string { return "proto" }

func (counting) Marshal(v any) (mem.BufferSlice, error) {
	b, err := v.(*storepb.SeriesRequest).MarshalVT()
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (counting) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

// download requests all series and returns the bytes of the response.
func download(ctx context.Context, c *grpc.ClientConn, request *storepb.SeriesRequest) (int, error) {
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/thanos.Store/Series")
	if err != nil {
		return 0, err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if err := stream.CloseSend(); err != nil {
		return 0, err
	}
	total := 0
	for {
		var n int
		err := stream.RecvMsg(&n)
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		total += n
	}
}

func dialStore(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(counting{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func allSeries(batch int64) *storepb.SeriesRequest {
	return &storepb.SeriesRequest{
		MinTime: math.MinInt64, MaxTime: math.MaxInt64, ResponseBatchSize: batch,
		Matchers: []*storepb.LabelMatcher{{Type: storepb.LabelMatcher_EQ, Name: "foo", Value: "bar"}},
	}
}

// A peak is the maximum memory of a process while it was watched.
type peak struct {
	heap, rss int64
	stop      context.CancelFunc
	done      chan struct{}
}

// watch samples a store's heap and resident memory until end.
func watch(t *testing.T, s *tare) *peak {
	t.Helper()
	process, err := weigh.Open(s.cmd.Process.Pid)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	p := &peak{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			p.heap = max(p.heap, int64(gauge(ctx, s.http, "go_memory_classes_heap_objects_bytes")))
			if u, err := process.Usage(); err == nil {
				p.rss = max(p.rss, u.PeakRSS)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond): // paces: the samples
			}
		}
	}()
	return p
}

func (p *peak) end() {
	p.stop()
	<-p.done
}

// gauge returns a metric without labels, 0 if it is unavailable.
func gauge(ctx context.Context, base, name string) float64 {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil || families[name] == nil {
		return 0
	}
	m := families[name].GetMetric()[0]
	return m.GetGauge().GetValue() + m.GetUntyped().GetValue() + m.GetCounter().GetValue()
}

const mebibyte = 1 << 20

// storeBase is the memory of a store's process besides its budgets, as stated in docs/reference/storeapi.md.
const storeBase = 192 * mebibyte

// TestStoreShapes reads a million series of one sample, and a hundred thousand of a hundred, from four blocks
// through the real server, and logs the cost. The heap stays within the budgets and 64 MiB.
func TestStoreShapes(t *testing.T) {
	for _, shape := range []struct {
		name   string
		of     func(int) testblock.Shape
		series int
	}{
		{"1,000,000 series x 1 sample", testblock.Million, 1_000_000},
		{"100,000 series x 100 samples", testblock.HundredThousand, 100_000},
	} {
		t.Run(shape.name, func(t *testing.T) {
			dir := t.TempDir()
			for n := range 4 {
				_, err := shape.of(n).Write(dir, testblock.Options{})
				must(t, err)
			}
			const query, cache = 64, 64
			s := startStoreAPI(t, dir, "--query-bytes", fmt.Sprint(query, "MiB"), "--process-bytes", fmt.Sprint(query, "MiB"), "--index-cache-bytes", fmt.Sprint(cache, "MiB"))
			conn := dialStore(t, s.grpc)
			for round, batch := range []int64{64, 64, 1} {
				p := watch(t, s)
				began := time.Now()
				n, err := download(t.Context(), conn, allSeries(batch))
				took := time.Since(began)
				p.end()
				must(t, err)
				t.Logf("round %d, %d series a message: %.1f MB in %v, %.0f ns a series; heap at most %.1f MiB, resident at most %.1f MiB",
					round, batch, float64(n)/1e6, took, float64(took.Nanoseconds())/float64(shape.series), float64(p.heap)/mebibyte, float64(p.rss)/mebibyte)
				if p.heap > (query+cache+64)*mebibyte {
					t.Errorf("the heap came to %d MiB: budgets are %d + %d MiB, and 64 MiB are allowed on top", p.heap/mebibyte, query, cache)
				}
				if p.rss > (query+cache)*mebibyte+storeBase {
					t.Errorf("%d MiB were resident", p.rss/mebibyte)
				}
			}
			status, body := get(t, s.http+"/api/v1/status/blocks")
			if status != http.StatusOK || !strings.Contains(body, `"held_bytes":0`) {
				t.Errorf("after all of it: %d %.600s", status, body)
			}
			_, body = get(t, s.http+"/debug/querylog?for=0s&format=text")
			for line := range strings.Lines(body) {
				t.Logf("%.700s", strings.TrimSpace(line))
			}
		})
	}
}

// TestStoreHeavyQueries has 64 concurrent clients request everything from a store with a budget of 256 MiB:
// each gets all of it or an error with the exceeded limit, and the process stays within its budgets and the
// stated base. Then some clients disconnect in the middle, and no bytes stay reserved.
func TestStoreHeavyQueries(t *testing.T) {
	dir := t.TempDir()
	shape := testblock.BlockSeries()
	shape.Count = 300
	_, err := shape.Write(dir, testblock.Options{})
	must(t, err)
	const process, cache = 256, 32
	s := startStoreAPI(t, dir, "--query-bytes", "16MiB", "--process-bytes", fmt.Sprint(process, "MiB"), "--index-cache-bytes", fmt.Sprint(cache, "MiB"))
	conns := make([]*grpc.ClientConn, 8)
	for i := range conns {
		conns[i] = dialStore(t, s.grpc)
	}
	want, err := download(t.Context(), conns[0], allSeries(64))
	must(t, err)
	p := watch(t, s)
	began := time.Now()
	var clients sync.WaitGroup
	var mu sync.Mutex
	finished, refused := 0, 0
	for i := range 64 {
		clients.Go(func() {
			for range 3 {
				n, err := download(t.Context(), conns[i%len(conns)], allSeries(64))
				mu.Lock()
				switch {
				case err == nil && n == want:
					finished++
				case status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "the limit is"):
					refused++
				default:
					t.Errorf("client %d: %d of %d bytes, %v", i, n, want, err)
				}
				mu.Unlock()
			}
		})
	}
	testwait.Group(t, "the queries to finish", &clients)
	p.end()
	t.Logf("%d finished, %d refused, %.1f MB each, in %v; heap at most %.1f MiB, resident at most %.1f MiB",
		finished, refused, float64(want)/1e6, time.Since(began), float64(p.heap)/mebibyte, float64(p.rss)/mebibyte)
	if finished == 0 {
		t.Error("no client got its answer")
	}
	if p.rss > (process+cache)*mebibyte+storeBase {
		t.Errorf("%d MiB were resident; budgets are %d MiB", p.rss/mebibyte, process+cache)
	}
	// Clients that disconnect, each after another part of the response.
	for i := range 20 {
		ctx, leave := context.WithCancel(t.Context())
		stream, err := conns[0].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/thanos.Store/Series")
		must(t, err)
		must(t, stream.SendMsg(allSeries(64)))
		for range i {
			var n int
			must(t, stream.RecvMsg(&n))
		}
		leave()
	}
	eventually(t, "nothing is held", func() bool {
		_, body := get(t, s.http+"/api/v1/status/blocks")
		return strings.Contains(body, `"held_bytes":0`) && strings.Contains(body, `"running":0`)
	})
}
