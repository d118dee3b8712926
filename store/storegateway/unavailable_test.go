package storegateway_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

const countAll = "/api/v1/query?time=1700000500&query="

// all reads everything in a brokenBlock.
func (b *brokenBlock) all(f *faultGateway) string {
	info := f.Blocks()[0]
	return fmt.Sprintf("/api/v1/query_range?start=%d&end=%d&step=15&query=%s", info.MinTime/1000, info.MaxTime/1000, url.QueryEscape(`count({__name__!=""})`))
}

// TestBucketUnavailable lets the bucket refuse, hang and stall: HTTP responds with 503 and the StoreAPI with
// Unavailable, and both name the bucket and the block.
func TestBucketUnavailable(t *testing.T) {
	b := newBrokenBlock(t)
	for _, kind := range []testbucket.Failure{testbucket.FailError, testbucket.FailBroken, testbucket.FailHang, testbucket.FailDenied} {
		bucket := b.bucket(t, nil)
		o := teststore.Options(t, bucket)
		o.Layout, o.CallTimeout, o.CallTries = blocksync.LayoutThanos, 50*time.Millisecond, 2
		g := teststore.New(t, o)
		testwait.Until(t, "a sync whose calls are in time", func() bool { return g.Sync(t.Context()) == nil })
		f := &faultGateway{g, o}
		base := newHTTPServer(t, g, nil)
		bucket.Fail(testbucket.FailRule{Times: -1, How: kind})
		code, respond := getJSON(t, base+b.all(f), "")
		text := fmt.Sprint(respond["error"])
		if code != http.StatusServiceUnavailable || respond["errorType"] != "unavailable" || !strings.Contains(text, b.id.String()) || !strings.Contains(text, "bucket "+bucket.Name()) {
			t.Errorf("%s: %d %v", kind, code, respond)
		}
		_, _, err := teststore.Receive(storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer())).Series(t.Context(), teststore.Everything()))
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), b.id.String()) {
			t.Errorf("%s: StoreAPI: %v", kind, err)
		}
		bucket.Heal()
		testwait.UntilState(t, "a query after the faults whose calls are in time", func() (string, bool) {
			code, respond := getJSON(t, base+b.all(f), "")
			return fmt.Sprint(kind, code, respond["error"]), code == http.StatusOK
		})
	}
}

// TestTimeoutNames lets the bucket hang until the query times out: the error names the object that the query
// waited for.
func TestTimeoutNames(t *testing.T) {
	b := newBrokenBlock(t)
	for _, file := range []string{indexName, "chunks"} {
		bucket := b.bucket(t, nil)
		f := newFaultGateway(t, bucket)
		api, err := storegateway.NewHTTPAPI(f.Gateway, storegateway.HTTPOptions{Log: slog.New(slog.DiscardHandler), Timeout: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(api)
		defer server.Close()
		bucket.Fail(testbucket.FailRule{Op: "range", Name: file, Times: -1, How: testbucket.FailHang})
		testwait.UntilState(t, "a query that comes to the read that hangs", func() (string, bool) {
			code, respond := getJSON(t, server.URL+b.all(f), "")
			text := fmt.Sprint(respond["error"])
			if code != http.StatusServiceUnavailable {
				t.Fatalf("%s: %d %v", file, code, respond)
			}
			return text, strings.Contains(text, b.id.String()+"/"+file) && strings.Contains(text, bucket.Name())
		})
	}
}

// TestHedge hangs one read of a query after the other: a second read succeeds long before the call times out.
func TestHedge(t *testing.T) {
	b := newBrokenBlock(t)
	for call := range 4 {
		bucket := b.bucket(t, nil)
		o := teststore.Options(t, bucket)
		registry := prometheus.NewRegistry()
		o.Layout, o.CallTimeout, o.CallTries, o.CallHedge, o.Registerer = blocksync.LayoutThanos, time.Minute, 1, 20*time.Millisecond, registry
		g := teststore.New(t, o)
		if err := g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := &faultGateway{g, o}
		hedges := func() float64 { return gathered(t, registry)["tare_store_read_hedges_total{}"] }
		bucket.FailCall(call, testbucket.FailRule{Op: "range", Times: 1, How: testbucket.FailHang})
		got, err := f.read(t.Context())
		if err != nil || got != b.want || bucket.Fired.Load() == 1 && hedges() == 0 {
			t.Errorf("call %d: %v, as without: %t, %v hedges", call, err, got == b.want, hedges())
		}
	}
}

// TestQueueTimeout runs a query that takes all bytes: waiting queries fail after QueueTimeout, over both
// protocols.
func TestQueueTimeout(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, nil)
	g := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 16 << 20, PerQuery: 16 << 20})
		o.QueueTimeout = 20 * time.Millisecond
	})
	base := newHTTPServer(t, g, nil)
	q, err := g.Admit(t.Context(), storegateway.Admission{})
	if err != nil {
		t.Fatal(err)
	}
	code, respond := getJSON(t, base+countAll+"up", "")
	if text := fmt.Sprint(respond["error"]); code != http.StatusServiceUnavailable || respond["errorType"] != "unavailable" || !strings.Contains(text, "queue-timeout") {
		t.Errorf("%d %v", code, respond)
	}
	if _, _, err := teststore.Receive(storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer())).Series(t.Context(), teststore.Everything())); status.Code(err) != codes.Unavailable {
		t.Errorf("StoreAPI: %v", err)
	}
	q.Close()
	testwait.UntilState(t, "a query after it that is admitted in time", func() (string, bool) {
		code, respond := getJSON(t, base+countAll+"up", "")
		return fmt.Sprint(code, respond["error"]), code == http.StatusOK
	})
}

// TestBlockReplacedUnderQueries replaces each block by another with the same samples just before a query: no
// query fails, and all return the same samples.
func TestBlockReplacedUnderQueries(t *testing.T) {
	first, second := newBrokenBlock(t), newBrokenBlock(t)
	bucket := first.bucket(t, nil)
	f := newFaultGateway(t, bucket)
	base := newHTTPServer(t, f.Gateway, nil)
	query := first.all(f)
	_, want := getJSON(t, base+query, "")
	put := func(b *brokenBlock) {
		for name, text := range b.files {
			testbucket.Upload(t, bucket, b.id.String()+"/"+name, string(text))
		}
	}
	remove := func(b *brokenBlock) {
		for name := range b.files {
			if err := bucket.Delete(t.Context(), b.id.String()+"/"+name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 8 {
		old, next := first, second
		if i%2 == 1 {
			old, next = second, first
		}
		put(next)
		remove(old)
		code, respond := getJSON(t, base+query, "")
		if code != http.StatusOK || fmt.Sprint(respond["data"]) != fmt.Sprint(want["data"]) {
			t.Fatalf("round %d: %d %.300v", i, code, respond)
		}
	}
	testwait.UntilState(t, "the queries to release all", func() (string, bool) {
		err := f.check()
		return fmt.Sprint(err), err == nil
	})
}

// TestTenantNames sends requests with invalid tenant names.
func TestTenantNames(t *testing.T) {
	o := teststore.Options(t, objstore.NewInMemBucket())
	o.Layout = blocksync.LayoutMimir
	g := teststore.New(t, o)
	for tenant, want := range map[string]error{"": storegateway.ErrNoTenant, "ann": nil, "a/b": storegateway.ErrBadTenant, "..": storegateway.ErrBadTenant, "a b": storegateway.ErrBadTenant, "a|b": storegateway.ErrBadTenant} {
		if err := g.CheckTenant(tenant); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", tenant, err, want)
		}
	}
}
