package history

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway"
)

// HTTPOptions say how Prometheus' HTTP API answers.
type HTTPOptions struct {
	// QueryBytes is what a query may hold, as the store gateway's gate has it. Half of it is
	// the engine's samples.
	QueryBytes int64

	Restrict promapi.RestrictFunc // hides series from some requests; nil: from none

	Registerer prometheus.Registerer // for the engine's metrics; nil: none
	Log        *slog.Logger          // required
	Panics     *panics.Reporter      // logs and counts requests that panic; nil: they only fail
	Build      promapi.BuildInfo
}

// TextLabel is the label that has a statement's text.
const TextLabel = labelText

// sampleBytes is what the engine holds for a sample that it counts: a time and a float.
const sampleBytes = 16

// maxWaiting is how many requests may run or wait for their quota.
const maxWaiting = 1000

// NewHTTPAPI returns Prometheus' HTTP API over the history. Each request that reads it is one query of
// the store gateway: it waits for its quota, out of which the engine's samples, the answer and
// all that is read from the bucket are taken, and gives it back when it is answered. What is
// read from local blocks lies in the page cache and is not counted.
func (a *Archive) NewHTTPAPI(o HTTPOptions) (*promapi.API, error) {
	hooks := &httpHooks{gateway: a.options.Gateway, sampleBytes: o.QueryBytes / 2, answerBytes: o.QueryBytes / 4}
	return promapi.New(promapi.Options{
		Queryable:     a.Queryable(),
		Now:           a.Now,
		Restrict:      o.Restrict,
		MaxSamples:    max(1, int(hooks.sampleBytes/sampleBytes)),
		ReadSamples:   max(1, int(hooks.answerBytes/sampleBytes)),
		MaxAnswer:     hooks.answerBytes,
		MaxConcurrent: maxWaiting, // the gate has them wait
		Registerer:    o.Registerer,
		Build:         o.Build,
		Ready:         hooks.ready,
		Log:           o.Log,
		Panics:        o.Panics,
		Admit:         hooks.admit,
		Classify:      classify,
	})
}

// httpHooks tie the HTTP API to the store gateway's budgets.
type httpHooks struct {
	gateway     *storegateway.Gateway
	sampleBytes int64 // reserved for the engine
	answerBytes int64 // reserved for an answer that is held
}

var errNotSynced = errors.New("the blocks of the bucket are not known yet: the first sync is under way")

func (h *httpHooks) ready() error {
	if !h.gateway.Ready() {
		return errNotSynced
	}
	return nil
}

// admit waits for the request's quota and reserves what the API itself will hold.
func (h *httpHooks) admit(ctx context.Context, r *http.Request) (context.Context, func(), error) {
	q, err := h.gateway.Query(ctx, noTenant)
	if err != nil {
		return ctx, nil, err
	}
	purpose, bytes := slab.Answers, h.answerBytes
	if path := r.URL.Path; strings.HasSuffix(path, "/query") || strings.HasSuffix(path, "/query_range") {
		purpose, bytes = slab.Samples, h.sampleBytes
	}
	if err := q.Quota().Reserve(purpose, bytes); err != nil {
		q.Close()
		return ctx, nil, err
	}
	return storegateway.WithQuery(ctx, q), func() {
		q.Quota().Return(purpose, bytes)
		q.Close()
	}, nil
}

// noTenant is the one tenant of a bucket in Thanos' layout.
const noTenant = ""

// classify says which errors are the query's own and which the bucket's.
func classify(err error) promapi.ErrorType {
	switch {
	case storegateway.IsLimit(err):
		return promapi.Execution
	case errors.Is(err, context.DeadlineExceeded):
		return promapi.Timeout
	case errors.Is(err, context.Canceled):
		return promapi.Canceled
	}
	return ""
}
