package storegateway_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// A panickingBucket panics in reads of the files that name matches.
type panickingBucket struct {
	objstore.Bucket

	mu   sync.Mutex
	name string // substring of the name; "": none
}

func (b *panickingBucket) GetRange(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	b.mu.Lock()
	match := b.name != "" && strings.Contains(name, b.name)
	b.mu.Unlock()
	if match {
		panic("BUG: read of " + name)
	}
	return b.Bucket.GetRange(ctx, name, off, n)
}

func (b *panickingBucket) panicIn(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.name = name
}

// TestPanics lets reads of an index and of chunks panic in any goroutine: the requests fail with the status
// of an internal error, each panic is logged with its stack and counted, and all resources of the requests
// are released.
func TestPanics(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, nil)
	files := objstore.NewInMemBucket()
	blocks, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if err := objstore.UploadDir(t.Context(), discardLog{}, files, block, filepath.Base(block)); err != nil {
			t.Fatal(err)
		}
	}
	bucket := &panickingBucket{Bucket: files}
	var log bytes.Buffer
	reporter := report.New(slog.New(slog.NewTextHandler(&log, nil)))
	var a api
	var g *storegateway.Gateway
	reopen := func(t *testing.T) { // without any part of the blocks in memory
		o := teststore.Options(t, bucket)
		o.Layout, o.CallTries = blocksync.LayoutPrometheus, 1
		g = teststore.New(t, o)
		if err := g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		a = newAPI(t, g, reporter, time.Minute)
	}

	sum := "/api/v1/query_range?start=1700000000&end=1700003000&step=60&query=" + url.QueryEscape(`sum({__name__=~".+"})`)
	requests := map[string]func(t *testing.T) bool{ // report whether the request failed
		"query": func(t *testing.T) bool { return failsInternally(t, a.base+sum) },
		"series": func(t *testing.T) bool {
			return failsInternally(t, a.base+"/api/v1/series?match[]="+url.QueryEscape(`{job=~".+"}`))
		},
		"labels": func(t *testing.T) bool {
			return failsInternally(t, a.base+"/api/v1/labels?match[]="+url.QueryEscape(`{job=~".+"}`))
		},
		"StoreAPI": func(t *testing.T) bool {
			_, _, err := teststore.Receive(a.series.Series(t.Context(), teststore.Everything()))
			if err != nil && (status.Code(err) != codes.Internal || strings.Contains(err.Error(), "BUG")) {
				t.Errorf("StoreAPI: %v", err)
			}
			return err != nil
		},
	}
	for name, request := range requests {
		for file, touches := range map[string]bool{"/index": true, "/chunks/": name == "query" || name == "StoreAPI"} {
			t.Run(name+" "+strings.Trim(file, "/"), func(t *testing.T) {
				reopen(t)
				log.Reset()
				bucket.panicIn(file)
				failed := request(t)
				bucket.panicIn("")
				if text := log.String(); failed != touches || failed != strings.Contains(text, "level=ERROR") || failed && !strings.Contains(text, "panickingBucket") {
					t.Errorf("failed: %t, log: %.2000s", failed, text)
				}
				if request(t) {
					t.Error("the request after it fails too")
				}
				teststore.WaitForIdle(t, g)
			})
		}
	}
}

func failsInternally(t *testing.T, target string) bool {
	t.Helper()
	code, respond := getJSON(t, target, "")
	if code == http.StatusOK {
		return false
	}
	if text, _ := respond["error"].(string); code != http.StatusInternalServerError || respond["errorType"] != "internal" || strings.Contains(text, "BUG") {
		t.Errorf("%d %v", code, respond)
	}
	return true
}

// TestReadHints sends hints of a function that needs no samples: the response is the same as without hints.
func TestReadHints(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, nil)
	g := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 256 << 20, PerQuery: 64 << 20})
	})
	base := newHTTPServer(t, g, nil)
	query := func(h *prompb.ReadHints) *prompb.Query {
		return &prompb.Query{
			StartTimestampMs: 1700000000000, EndTimestampMs: 1700003000000, Hints: h,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "job", Value: ".+"}},
		}
	}
	for _, form := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS} {
		all := remoteRead(t, base, form, query(nil))
		if len(all) < 1000 {
			t.Fatalf("%v: only %d bytes are read", form, len(all))
		}
		for _, f := range []string{"series", "rate", "", "x"} {
			h := &prompb.ReadHints{StartMs: 1700000000000, EndMs: 1700003000000, Func: f, StepMs: 1000, RangeMs: 5000, By: true, Grouping: []string{"job"}}
			if got := remoteRead(t, base, form, query(h)); !bytes.Equal(got, all) {
				t.Errorf("%v: func %q changes the response: %d bytes, want %d", form, f, len(got), len(all))
			}
		}
	}
}
