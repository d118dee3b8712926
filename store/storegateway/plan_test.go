package storegateway_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

// A chunkBucket counts the reads of chunks, and blocks them until gate is closed, if it is not nil.
type chunkBucket struct {
	objstore.Bucket
	reads, waiting atomic.Int64
	gate           chan struct{}
}

func (b *chunkBucket) GetRange(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if strings.Contains(name, "/chunks/") {
		b.reads.Add(1)
		if b.gate != nil {
			b.waiting.Add(1)
			select {
			case <-b.gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return b.Bucket.GetRange(ctx, name, off, n)
}

// plannedStore returns a store of blocks of the shape, and a counter of reads of chunks.
func plannedStore(t *testing.T, shape testblock.Shape, o slab.GateOptions) (*storegateway.Gateway, *chunkBucket) {
	t.Helper()
	dir := t.TempDir()
	if _, err := shape.Write(dir, testblock.Options{External: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	files, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := &chunkBucket{Bucket: files}
	options := teststore.Options(t, b)
	options.Gate = slab.NewGate(o)
	g := teststore.New(t, options)
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g, b
}

// longSeries are two series of some 400 KB of chunks.
var longSeries = testblock.Shape{Count: 2, Samples: 50_000, Interval: time.Second, Seed: 1}

// TestPlanRefuses requests a series whose chunks exceed the bytes of a query: the request fails before any
// chunk is read.
func TestPlanRefuses(t *testing.T) {
	g, b := plannedStore(t, longSeries, slab.GateOptions{Bytes: 4 << 20, PerQuery: 400 << 10, Light: 1 << 20})
	base := newHTTPServer(t, g, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	all := `{foo="bar"}`
	for _, query := range []string{
		"/api/v1/query?time=60000&query=" + url.QueryEscape(`count_over_time(`+all+`[1d])`),
		"/api/v1/query_range?start=0&end=60000&step=600&query=" + url.QueryEscape(`scalar(`+all+`) + `+all),
	} {
		code, respond := getJSON(t, base+query, "")
		if text, _ := respond["error"].(string); code != http.StatusUnprocessableEntity || !strings.Contains(text, "chunks ask for") || !strings.Contains(text, ": block 0") {
			t.Errorf("%s: %d %v", query, code, respond)
		}
	}
	_, _, err := teststore.Receive(client.Series(t.Context(), &storepb.SeriesRequest{MaxTime: 1 << 40, Matchers: []*storepb.LabelMatcher{teststore.Equal("foo", "bar")}}))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "chunks ask for") || !strings.Contains(err.Error(), "block 0") {
		t.Errorf("Series: %v", err)
	}
	if n := b.reads.Load(); n != 0 {
		t.Errorf("%d reads of chunks", n)
	}
	// The same blocks, one chunk of each series.
	if code, respond := getJSON(t, base+"/api/v1/query?time=300&query="+url.QueryEscape(`count(`+all+`)`), ""); code != http.StatusOK {
		t.Errorf("a query that fits: %d %v", code, respond)
	}
	if b.reads.Load() == 0 {
		t.Error("a query that fits read no chunks: the reads are not counted")
	}
	teststore.WaitForIdle(t, g)
}

// TestPlansRunTogether runs twelve concurrent queries where there are bytes for one that needs all bytes of a
// query.
func TestPlansRunTogether(t *testing.T) {
	const queries = 12
	g, b := plannedStore(t, testblock.Shape{Count: 4, Samples: 240, Interval: 15 * time.Second, Seed: 1},
		slab.GateOptions{Bytes: 32 << 20, PerQuery: 32 << 20})
	b.gate = make(chan struct{})
	base := newHTTPServer(t, g, nil)
	var all sync.WaitGroup
	for range queries {
		all.Go(func() {
			r, err := http.Get(base + "/api/v1/query_range?start=0&end=3600&step=60&query=" + url.QueryEscape(`sum(rate({foo="bar"}[5m]))`))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Errorf("a query: %s", r.Status)
			}
		})
	}
	testwait.Until(t, "all queries to wait for chunks", func() bool { return b.waiting.Load() >= queries })
	if s := g.Gate().Stats(); s.Running != queries || s.Waiting != 0 || s.Held > s.Bytes {
		t.Errorf("of %d queries: %+v", queries, s)
	}
	close(b.gate)
	testwait.Group(t, "the queries", &all)
	teststore.WaitForIdle(t, g)
}

// TestPlanWaits runs a query whose plan does not fit beside another: it fails to grow before it reads a
// chunk, reserves nothing while it waits, and is admitted with the bytes that it needs, which are less than
// the maximum of a query.
func TestPlanWaits(t *testing.T) {
	shape := longSeries
	shape.Count = 8
	g, b := plannedStore(t, shape, slab.GateOptions{Bytes: 16 << 20, PerQuery: 8 << 20})
	base := newHTTPServer(t, g, nil)
	var others []*slab.Quota
	for range 2 {
		q, err := g.Gate().AdmitFor(t.Context(), slab.AdmitOptions{First: 7 << 20})
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, q)
	}
	filler, err := g.Gate().AdmitFor(t.Context(), slab.AdmitOptions{First: 512 << 10}) // 1.5 MiB remain free
	if err != nil {
		t.Fatal(err)
	}
	code := make(chan int, 1)
	go func() {
		r, err := http.Get(base + "/api/v1/query?time=400000&query=" + url.QueryEscape(`count_over_time({foo="bar"}[10d])`))
		if err != nil {
			t.Error(err)
			code <- 0
			return
		}
		defer r.Body.Close()
		code <- r.StatusCode
	}()
	s := testwait.Value(t, "the query to wait", g.Gate().Stats, func(s slab.GateStats) bool { return s.Waiting == 1 })
	if s.Running != 3 || s.Held != 0 || s.Short == 0 {
		t.Errorf("the query waits: %+v", s)
	}
	if n := b.reads.Load(); n != 0 {
		t.Errorf("%d reads of chunks before the query was admitted with its plan", n)
	}
	filler.Close()
	others[0].Close() // of the 9 MiB then free, the query takes less than 8
	if c := testwait.Receive(t, "the query", code); c != http.StatusOK {
		t.Errorf("the query: %d", c)
	}
	others[1].Close()
	teststore.WaitForIdle(t, g)
}
