package storegateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/slab"
)

// HTTPOptions configure Prometheus' HTTP API.
type HTTPOptions struct {
	// Queryable serves the requests instead of the gateway's blocks. Its reads of those are a part of the
	// request's query, which its context has. nil: requests read the gateway's blocks alone.
	Queryable storage.Queryable

	Now func() time.Time // default evaluation time of queries; nil: time.Now

	Timeout       time.Duration // of a request, waiting included; default promapi's
	LookbackDelta time.Duration // default promapi's

	// MaxSamples is how many samples a PromQL query may hold; 0: as many as half of a query's
	// bytes have room for. What they take is reserved before the query runs.
	MaxSamples int

	// ResponseBytes bounds the encoded responses that wait for their clients after their query's bytes
	// were released, and WriteTimeout the time in which a client takes no data. Defaults: promapi's.
	ResponseBytes int64
	WriteTimeout  time.Duration

	// Responses is the budget of encoded responses, where other APIs share it; nil: one of ResponseBytes.
	Responses *promapi.ResponseBudget

	Restrict promapi.RestrictFunc // hides series from some requests; nil: from none

	Registerer prometheus.Registerer // for the engine's metrics; nil: none
	Queries    *querylog.Logger      // nil: requests are not logged
	Log        *slog.Logger          // required
	Panics     *panics.Reporter      // logs and counts requests that panic; nil: they only fail
	Build      promapi.BuildInfo
	Features   promapi.Features
}

// sampleBytes is what the engine holds for a sample that it counts: a time and a float.
const sampleBytes = 16

// httpHooks tie the HTTP API to the gateway's budgets and the query log.
type httpHooks struct {
	gateway     *Gateway
	options     HTTPOptions
	answerBytes int64 // the most of an answer that is held
	entries     sync.Pool
	requests    *requestMetrics
}

// NewHTTPAPI returns Prometheus' HTTP API over the gateway's blocks. Each request that reads them
// is one query: it waits for its quota, grows by what its references plan, and releases it when the response is encoded.
func NewHTTPAPI(g *Gateway, o HTTPOptions) (*promapi.API, error) {
	perQuery := g.options.Gate.Stats().PerQuery
	if o.MaxSamples == 0 {
		o.MaxSamples = max(1, int(perQuery/2/sampleBytes))
	}
	if o.Responses == nil {
		o.Responses = promapi.NewResponseBudget(cmp.Or(o.ResponseBytes, promapi.DefaultResponseBytes))
	}
	h := &httpHooks{gateway: g, options: o, answerBytes: perQuery / 4}
	if n := int64(o.MaxSamples) * sampleBytes; n > perQuery {
		return nil, fmt.Errorf("max samples: the %d samples of a query take %d bytes, which is more than its %d", o.MaxSamples, n, perQuery)
	}
	h.requests = g.requestMetrics()
	h.entries.New = func() any { return new(LogEntry) }
	tenant := func(ctx context.Context) (string, error) {
		if c := httpCallOf(ctx); c != nil {
			return c.query.tenant, nil
		}
		return "", errors.New("the request was not admitted")
	}
	queryable, chunks := o.Queryable, storage.ChunkQueryable(nil)
	if queryable == nil {
		queryable, chunks = g.Queryable(tenant), g.ChunkQueryable(tenant)
	}
	api, err := promapi.New(promapi.Options{
		Queryable:      queryable,
		ChunkQueryable: chunks,
		Now:            o.Now,
		Restrict:       o.Restrict,
		Timeout:        o.Timeout,
		MaxSamples:     o.MaxSamples,
		LookbackDelta:  o.LookbackDelta,
		Registerer:     o.Registerer,
		// Requests wait for their quota, in one queue with those of the StoreAPI.
		MaxConcurrent: maxWaiting,
		MaxAnswer:     h.answerBytes,
		Responses:     o.Responses,
		WriteTimeout:  o.WriteTimeout,
		ReadSamples:   max(1, int(h.answerBytes/sampleBytes)),
		Build:         o.Build,
		Ready:         h.ready,
		Log:           o.Log,
		Panics:        o.Panics,
		Admit:         h.admit,
		Observe:       h.observe,
		Explain:       h.explain,
		Classify:      classify,
		Features:      o.Features,
		Waiting:       waiting,
		Again:         h.again,
		Hold:          h.hold,
	})
	if err != nil {
		return nil, err
	}
	h.requests.serveHTTP(api, o.Responses)
	return api, nil
}

// maxWaiting is how many requests over HTTP may run and wait; those that come then are refused
// after a thousand more.
const maxWaiting = 1000

var errNotSynced = errors.New("the blocks of the bucket are not known yet: the first sync is under way")

func (h *httpHooks) ready() error {
	if !h.gateway.Ready() {
		return errNotSynced
	}
	return nil
}

// An httpCall is what a request's context carries.
type httpCall struct {
	query *Query
	wait  time.Duration
	held  int64 // bytes reserved for a response that is held
}

type httpCallKey struct{}

func httpCallOf(ctx context.Context) *httpCall {
	c, _ := ctx.Value(httpCallKey{}).(*httpCall)
	return c
}

// admit waits for the request's quota and reserves what the API itself will hold.
func (h *httpHooks) admit(ctx context.Context, r *http.Request) (context.Context, func(), error) {
	tenant := r.Header.Get(tenantHeader)
	if err := h.gateway.checkTenant(tenant); err != nil {
		e := &promapi.Error{Type: promapi.BadData, Status: http.StatusUnauthorized, Err: err}
		if errors.Is(err, errBadTenant) {
			e.Status = http.StatusBadRequest
		}
		return ctx, nil, e
	}
	began := time.Now()
	d, purpose, bytes := h.demandOf(ctx, r)
	ask := h.gateway.ask(d, tenant, clientOf(r))
	if n := promapi.Attempt(ctx); n > 0 {
		ask = h.gateway.askAgain(ask, n, promapi.Failed(ctx))
	}
	q, err := h.gateway.admit(ctx, tenant, ask)
	switch {
	case errors.Is(err, slab.ErrQueueFull):
		return ctx, nil, &promapi.Error{Type: promapi.Unavailable, Status: http.StatusTooManyRequests, Err: err}
	case err != nil:
		return ctx, nil, err
	}
	if err := q.Quota().Reserve(purpose, bytes); err != nil {
		q.Close()
		return ctx, nil, err
	}
	c := &httpCall{query: q, wait: time.Since(began)}
	ctx = context.WithValue(ctx, httpCallKey{}, c)
	return WithQuery(ctx, q), func() {
		q.Quota().Return(purpose, bytes)
		q.Quota().Return(slab.Answers, c.held)
		q.Close()
	}, nil
}

// demandOf returns what a request is to be admitted with, and what is reserved before it runs: the samples that
// the engine may hold in this attempt.
func (h *httpHooks) demandOf(ctx context.Context, r *http.Request) (demand, slab.Purpose, int64) {
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/read"):
		return partQuery, slab.Answers, 0
	case (strings.HasSuffix(path, "/query") || strings.HasSuffix(path, "/query_range")) && !promapi.WithoutSeries(ctx):
		return partQuery, slab.Samples, int64(promapi.MaxSamples(h.options.MaxSamples, promapi.Attempt(ctx))) * sampleBytes
	}
	return lightQuery, slab.Answers, 0
}

// hold reserves n more bytes for a response that is held.
func (h *httpHooks) hold(ctx context.Context, n int64) error {
	c := httpCallOf(ctx)
	if c == nil {
		return nil
	}
	if err := c.query.Quota().Reserve(slab.Answers, n); err != nil {
		return err
	}
	c.held += n
	return nil
}

// clientOf returns the address of a request's client, without its port.
func clientOf(r *http.Request) string {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return addr.Addr().Unmap().String()
}

// tenantHeader names the tenant of a request, as Mimir takes it.
const tenantHeader = "X-Scope-OrgID"

// classify says which errors are the query's own and which the bucket's.
func classify(err error) promapi.ErrorType {
	if _, incomplete := errors.AsType[*IncompleteError](err); incomplete {
		return promapi.Unavailable
	}
	switch {
	case IsLimit(err):
		return promapi.Execution
	case isUnavailable(err):
		return promapi.Unavailable
	case isCorrupt(err), isLocal(err):
		return promapi.Internal
	case errors.Is(err, context.DeadlineExceeded):
		return promapi.Timeout
	case errors.Is(err, context.Canceled):
		return promapi.Canceled
	}
	return ""
}

// observe counts the request and writes it into the query log.
func (h *httpHooks) observe(ctx context.Context, r *http.Request, o *promapi.Observation) {
	code, failed := okCode, error(nil)
	switch {
	case o.Err != nil:
		code, failed = string(o.Err.Type), o.Err.Err
	case o.Lost != nil:
		code = string(promapi.Canceled)
	}
	h.requests.count(protocolHTTP, o.Endpoint, code, o.Duration, o.Queued, o.Bytes, failed)
	log := h.options.Queries
	if log == nil || !log.Enabled() {
		return
	}
	e := h.entries.Get().(*LogEntry)
	defer h.entries.Put(e)
	e.Reset()
	e.Start = time.Now().Add(-o.Duration)
	e.Total, e.Wait = o.Duration, o.Queued
	e.Endpoint = o.Endpoint
	e.Tenant = r.Header.Get(tenantHeader)
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		e.Client = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	}
	if !o.Start.IsZero() || !o.End.IsZero() {
		e.setRange(o.Start.UnixMilli(), o.End.UnixMilli())
	}
	if o.Query != "" {
		e.SetText(o.Query)
	} else {
		e.SetText(strings.Join(o.Matchers, " "))
	}
	e.Series, e.BytesOut = uint64(max(o.Series, 0)), uint64(max(o.Bytes, 0))
	if c := httpCallOf(ctx); c != nil {
		e.Stats = c.query.Stats()
		e.Chunks = e.Stats.Chunks
	}
	e.Code = okCode
	switch {
	case o.Err != nil:
		e.SetError(string(o.Err.Type), o.Err.Err)
	case o.Lost != nil:
		e.SetError(string(promapi.Canceled), o.Lost)
	}
	log.LogEntry(e)
}

// waiting names what a request that has timed out waited for.
func waiting(ctx context.Context) string {
	if c := httpCallOf(ctx); c != nil {
		return c.query.WaitsFor()
	}
	return ""
}

// again returns how a request that failed is served again: the process had no free bytes for it to grow, or it met a
// block that was deleted meanwhile.
func (h *httpHooks) again(ctx context.Context, err error) promapi.Repeat {
	if errors.Is(err, slab.ErrShort) {
		return promapi.RepeatLarger
	}
	return h.gateway.afterDeletion(ctx, err)
}

// explain answers explain=1.
func (h *httpHooks) explain(ctx context.Context, dst []byte) []byte {
	c := httpCallOf(ctx)
	if c == nil {
		return append(dst, "null"...)
	}
	return c.query.appendExplain(dst, c.wait)
}
