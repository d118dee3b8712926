package storegateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/promapi"
)

// HTTPOptions configure Prometheus' HTTP API.
type HTTPOptions struct {
	// Queryable serves the requests instead of the gateway's blocks. If it reads those blocks with the
	// request's context, the reads belong to the request's query. nil: requests read the gateway's blocks
	// alone.
	Queryable storage.Queryable

	Now func() time.Time // default evaluation time of queries; nil: time.Now

	Timeout       time.Duration // of a request, including the wait for admission; default: promapi's
	LookbackDelta time.Duration // default: promapi's

	// MaxSamples bounds the samples of a PromQL query in memory; 0 and more than fit into half of a query's
	// bytes: as many as fit. Their bytes are reserved before the query runs.
	MaxSamples int

	// SamplesOption and BytesOption are the names of the options that set MaxSamples and a query's bytes, for the
	// error of a query that exceeds them; "": the error is the engine's.
	SamplesOption, BytesOption string

	// ResponseBytes bounds the encoded responses that wait for their clients after their query's bytes were
	// released. WriteTimeout bounds the time for which a client takes no data. Defaults: promapi's.
	ResponseBytes int64
	WriteTimeout  time.Duration

	// Responses is a budget of encoded responses that is shared with other APIs; nil: one of ResponseBytes.
	Responses *promapi.ResponseBudget

	// MaxEvaluating and Background are those of promapi.Options.
	MaxEvaluating int
	Background    func(func())

	Restrict promapi.RestrictFunc // hides series from some requests; nil: from none

	Registerer prometheus.Registerer // for the engine's metrics; nil: none
	Spans      *Spans                // of finished requests; nil: none
	Queries    *querylog.Logger      // nil: requests are not logged
	Log        *slog.Logger          // required
	Panics     *report.Reporter      // logs and counts requests that panic; nil: they only fail
	Build      promapi.BuildInfo
	Features   promapi.Features
}

// sampleBytes is the size of a sample that the engine counts: a time and a float.
const sampleBytes = 16

// httpHooks connect the HTTP API to the gateway's budgets and the query log.
type httpHooks struct {
	gateway       *Gateway
	options       HTTPOptions
	responseBytes int64 // maximum bytes of a buffered response
	entries       sync.Pool
	requests      *Requests
}

// NewHTTPAPI returns Prometheus' HTTP API over the gateway's blocks. Each request that reads blocks is one
// query: it waits for its quota, grows by the plan of its references, and releases the quota when the
// response is encoded.
func NewHTTPAPI(g *Gateway, o HTTPOptions) (*promapi.API, error) {
	perQuery := g.options.Gate.Stats().PerQuery
	advice := o.boundSamples(perQuery)
	if o.Responses == nil {
		o.Responses = promapi.NewResponseBudget(cmp.Or(o.ResponseBytes, promapi.DefaultResponseBytes))
	}
	h := &httpHooks{gateway: g, options: o, responseBytes: perQuery / 4}
	h.entries.New = func() any { return new(LogEntry) }
	tenant := func(ctx context.Context) (string, error) {
		if c := httpCallOf(ctx); c != nil {
			return c.query.tenant, nil
		}
		return "", errors.New("the request was not admitted")
	}
	ready := g.CheckReady
	if o.Queryable != nil {
		ready = g.checkSettled
	}
	queryable, chunks, prepare := o.Queryable, storage.ChunkQueryable(nil), promapi.PrepareFunc(nil)
	if queryable == nil {
		queryable, chunks = g.Queryable(tenant), g.ChunkQueryable(tenant)
		prepare = func(ctx context.Context, form url.Values, step time.Duration) (context.Context, time.Duration, error) {
			return prepareResolution(ctx, form.Get("max_source_resolution"), step, cmp.Or(o.LookbackDelta, promapi.DefaultLookback))
		}
	}
	api, err := promapi.New(promapi.Options{
		Queryable:      queryable,
		ChunkQueryable: chunks,
		Now:            o.Now,
		Restrict:       o.Restrict,
		Timeout:        o.Timeout,
		MaxSamples:     o.MaxSamples,
		SamplesAdvice:  advice,
		LookbackDelta:  o.LookbackDelta,
		Registerer:     o.Registerer,
		// Requests wait for their quota, in the same queue as requests of the StoreAPI.
		MaxConcurrent:   maxWaiting,
		MaxEvaluating:   o.MaxEvaluating,
		Background:      o.Background,
		MaxResponse:     h.responseBytes,
		Responses:       o.Responses,
		WriteTimeout:    o.WriteTimeout,
		ReadSamples:     max(1, int(h.responseBytes/sampleBytes)),
		Build:           o.Build,
		Ready:           ready,
		Log:             o.Log,
		Panics:          o.Panics,
		Admit:           h.admit,
		Observe:         h.observe,
		Explain:         h.explain,
		Classify:        classify,
		Features:        o.Features,
		Waiting:         waiting,
		Retry:           g.RetryMode,
		ReserveResponse: h.reserve,
		Prepare:         prepare,
	})
	if err != nil {
		return nil, err
	}
	h.requests = g.Serve(Protocol{
		Name: protocolHTTP, Endpoints: []string{"query", "query_range", "series", "labels", "label_values", "read"},
		Responses:   o.Responses,
		SlowClients: func() uint64 { return api.Responses().Cut },
		Unbuffered:  func() uint64 { return api.Responses().Unbuffered },
	})
	return api, nil
}

// boundSamples lowers MaxSamples to the samples that fit into half of a query's bytes, and returns the advice for a
// query that exceeds it.
func (o *HTTPOptions) boundSamples(perQuery int64) (advice string) {
	option, limit := o.SamplesOption, "the limit of "+o.SamplesOption
	if fit := max(1, int(perQuery/2/sampleBytes)); o.MaxSamples == 0 || o.MaxSamples > fit {
		o.MaxSamples = fit
		option, limit = o.BytesOption, fmt.Sprintf("as many as fit into half of %s, %d bytes", o.BytesOption, perQuery)
	}
	if option == "" {
		return ""
	}
	return fmt.Sprintf("this is %s: select fewer series, a shorter range or a longer step, or raise %s", limit, option)
}

// protocolHTTP is the name of the protocol in metrics.
const protocolHTTP = "http"

// maxWaiting bounds the HTTP requests that run or wait. promapi queues a thousand more and refuses the rest.
const maxWaiting = 1000

// An httpCall is the state of a request, carried by its context.
type httpCall struct {
	query *Query
	wait  time.Duration
	held  int64 // bytes reserved for a buffered response
}

type httpCallKey struct{}

func httpCallOf(ctx context.Context) *httpCall {
	c, _ := ctx.Value(httpCallKey{}).(*httpCall)
	return c
}

// admit waits for the request's quota and reserves the bytes that the API itself will use.
func (h *httpHooks) admit(ctx context.Context, r *http.Request) (context.Context, func(), error) {
	tenant := r.Header.Get(tenantHeader)
	if err := h.gateway.CheckTenant(tenant); err != nil {
		e := &promapi.Error{Type: promapi.BadData, Status: http.StatusUnauthorized, Err: err}
		if errors.Is(err, ErrBadTenant) {
			e.Status = http.StatusBadRequest
		}
		return ctx, nil, e
	}
	began := time.Now()
	d, purpose, bytes := h.demandOf(ctx, r)
	a := Admission{Tenant: tenant, Client: clientOf(r), Demand: d}
	ask := h.gateway.ask(a)
	if n := promapi.Attempt(ctx); n > 0 {
		ask = h.gateway.askAgain(ask, n, promapi.Failed(ctx))
	}
	q, err := h.gateway.admit(ctx, a, ask)
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
	return withQuery(ctx, q), func() {
		q.Quota().Return(purpose, bytes)
		q.Quota().Return(slab.ResponseBytes, c.held)
		q.Close()
	}, nil
}

// demandOf returns the demand of a request, and the purpose and number of bytes to reserve before it runs:
// those of the samples that the engine may use on this attempt.
func (h *httpHooks) demandOf(ctx context.Context, r *http.Request) (Demand, slab.Purpose, int64) {
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/read"):
		return PartQuery, slab.ResponseBytes, 0
	case (strings.HasSuffix(path, "/query") || strings.HasSuffix(path, "/query_range")) && !promapi.WithoutSeries(ctx):
		return PartQuery, slab.Samples, int64(promapi.MaxSamples(h.options.MaxSamples, promapi.Attempt(ctx))) * sampleBytes
	}
	return LightQuery, slab.ResponseBytes, 0
}

// reserve reserves n more bytes for a buffered response.
func (h *httpHooks) reserve(ctx context.Context, n int64) error {
	c := httpCallOf(ctx)
	if c == nil {
		return nil
	}
	if err := c.query.Quota().Reserve(slab.ResponseBytes, n); err != nil {
		return err
	}
	c.held += n
	return nil
}

// clientOf returns the address of a request's client, without the port.
func clientOf(r *http.Request) string {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return addr.Addr().Unmap().String()
}

// classify returns the type of an error in Prometheus' API, or "" for errors of the expression.
func classify(err error) promapi.ErrorType {
	switch ClassOf(err) {
	case OverLimit:
		return promapi.Execution
	case Unavailable:
		return promapi.Unavailable
	case CorruptBlock, localFailure:
		return promapi.Internal
	case TimedOut:
		return promapi.Timeout
	case Canceled:
		return promapi.Canceled
	}
	return ""
}

// observe counts the request and logs it.
func (h *httpHooks) observe(ctx context.Context, r *http.Request, o *promapi.Observation) {
	e := h.entries.Get().(*LogEntry)
	defer h.entries.Put(e)
	e.Reset()
	e.Endpoint, e.Code = o.Endpoint, CodeOK
	e.Total, e.Wait = o.Duration, o.Queued
	e.Series, e.BytesOut = uint64(max(o.Series, 0)), uint64(max(o.Bytes, 0))
	e.Samples, e.SamplesPeak = o.Read, int64(o.Peak)
	failed := error(nil)
	switch {
	case o.Err != nil:
		failed = o.Err.Err
		e.SetError(string(o.Err.Type), failed)
	case o.Lost != nil:
		e.SetError(string(promapi.Canceled), o.Lost)
	}
	h.requests.Count(protocolHTTP, e, failed)
	log := h.options.Queries
	logged := log != nil && log.Enabled()
	if !logged && h.options.Spans == nil {
		return
	}
	e.Start = time.Now().Add(-o.Duration)
	e.Tenant = r.Header.Get(tenantHeader)
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		e.Client = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	}
	if !o.Start.IsZero() || !o.End.IsZero() {
		e.SetRange(o.Start.UnixMilli(), o.End.UnixMilli())
	}
	if o.Query != "" {
		e.setText(o.Query)
	} else {
		e.setText(strings.Join(o.Matchers, " "))
	}
	c := httpCallOf(ctx)
	if c != nil {
		e.Stats = c.query.Stats()
		e.Chunks = e.Stats.Chunks
	}
	if s := h.options.Spans; s != nil {
		var blocks []BlockStats
		if c != nil {
			blocks = c.query.Explain()
		}
		s.Record(s.Parent(r.Header.Get("Traceparent"), r.Header.Get("Tracestate")), protocolHTTP, e, blocks)
	}
	if logged {
		log.LogEntry(e)
	}
}

// waiting returns the object that a timed-out request was waiting for.
func waiting(ctx context.Context) string {
	if c := httpCallOf(ctx); c != nil {
		return c.query.waitsFor()
	}
	return ""
}

// explain appends the explanation of a request with explain=1.
func (h *httpHooks) explain(ctx context.Context, dst []byte) []byte {
	c := httpCallOf(ctx)
	if c == nil {
		return append(dst, "null"...)
	}
	return c.query.appendExplain(dst, c.wait)
}
