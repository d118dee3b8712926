package storegateway_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

// TestTenantLimits brings a client to its limit of requests: another request waits, a third is refused with
// 429 or ResourceExhausted, metrics name the client, and raised limits admit the waiting request.
func TestTenantLimits(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, nil)
	registry := prometheus.NewRegistry()
	limiter := storegateway.NewLimiter(storegateway.TenantLimits{Clients: map[string]slab.KeyLimits{"127.0.0.1": {Requests: 1, Queue: 1}}})
	g := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20, Light: 8 << 20, Limits: limiter.Limits})
		o.Limiter, o.Registerer = limiter, registry
	})
	base := newHTTPServer(t, g, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	running, err := g.Admit(t.Context(), storegateway.Admission{Client: "127.0.0.1", Demand: storegateway.PartQuery})
	if err != nil {
		t.Fatal(err)
	}
	path := base + "/api/v1/query?time=1700003000&query=" + url.QueryEscape(`count({job=~".+"})`)
	code := make(chan int, 1)
	go func() {
		r, err := http.Get(path)
		if err != nil {
			t.Error(err)
			code <- 0
			return
		}
		r.Body.Close()
		code <- r.StatusCode
	}()
	testwait.Until(t, "a query to wait", func() bool { return g.Gate().Stats().Waiting == 1 })

	r, err := http.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("past the queue: %s, Retry-After %q", r.Status, r.Header.Get("Retry-After"))
	}
	_, err = client.LabelNames(t.Context(), &storepb.LabelNamesRequest{End: 1 << 60})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "queue is full") {
		t.Errorf("past the queue: %v", err)
	}
	other, err := g.Admit(t.Context(), storegateway.Admission{Client: "127.0.0.2", Demand: storegateway.PartQuery})
	if err != nil {
		t.Fatal(err)
	}
	m := gathered(t, registry)
	for name, want := range map[string]float64{
		"tare_store_tenant_queries_running{kind=client,name=127.0.0.1}":        1,
		"tare_store_tenant_queries_waiting{kind=client,name=127.0.0.1}":        1,
		"tare_store_tenant_granted_bytes{kind=client,name=127.0.0.1}":          1 << 20,
		"tare_store_tenant_requests_refused_total{kind=client,name=127.0.0.1}": 2,
		"tare_store_tenant_queries_running{kind=client,name=<other>}":          1,
		"tare_store_tenant_queries_running{kind=tenant,name=<other>}":          0,
		"tare_store_tenant_requests_refused_total{kind=client,name=<other>}":   0,
		"tare_store_requests_refused_total{reason=tenant-queue}":               2,
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s is %v (there: %t), want %v", name, got, ok, want)
		}
	}
	limiter.Set(storegateway.TenantLimits{Default: slab.KeyLimits{Requests: 2}})
	g.Gate().Recheck()
	if c := testwait.Receive(t, "the query that waited", code); c != http.StatusOK {
		t.Errorf("the query that waited: %d", c)
	}
	running.Close()
	other.Close()
	teststore.WaitForIdle(t, g)
	if m := gathered(t, registry); len(m) == 0 || m["tare_store_tenant_queries_running{kind=client,name=127.0.0.1}"] != 0 {
		t.Error("a name that has no limits any more is still counted")
	}
}

// TestTenantBytes runs queries of a tenant with a lower limit than others.
func TestTenantBytes(t *testing.T) {
	limiter := storegateway.NewLimiter(storegateway.TenantLimits{
		Default: slab.KeyLimits{Bytes: 64 << 20},
		Tenants: map[string]slab.KeyLimits{"small": {Bytes: 2 << 20}},
	})
	g := teststore.Open(t, t.TempDir(), func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 64 << 20, PerQuery: 16 << 20, Limits: limiter.Limits})
		o.Limiter = limiter
	})
	for tenant, most := range map[string]int64{"small": 2 << 20, "large": 16 << 20} {
		q, err := g.Admit(t.Context(), storegateway.Admission{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Quota().Reserve(slab.ResponseBytes, most); err != nil {
			t.Errorf("%s: %v", tenant, err)
		}
		if err := q.Quota().Reserve(slab.ResponseBytes, 1); !errors.Is(err, slab.ErrOverQuota) {
			t.Errorf("%s, one byte more: %v", tenant, err)
		}
		q.Quota().Return(slab.ResponseBytes, most)
		q.Close()
	}
}
