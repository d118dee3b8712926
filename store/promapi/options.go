package promapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/panics/report"
)

// Options configure an API. Queryable is required.
type Options struct {
	// Queryable serves all requests except streamed remote reads and exemplars.
	Queryable storage.Queryable

	// ChunkQueryable serves streamed remote reads. Default: chunks are encoded from Queryable's samples.
	ChunkQueryable storage.ChunkQueryable

	// ExemplarQueryable serves query_exemplars. Default: there are no exemplars.
	ExemplarQueryable storage.ExemplarQueryable

	// Restrict hides series from some requests; nil: from none. Exemplars are not restricted.
	Restrict RestrictFunc

	// Engine evaluates PromQL. Default: engines with Timeout, MaxSamples, LookbackDelta, Registerer, Log and
	// Features.
	Engine promql.QueryEngine

	// Parser parses selectors, and expressions to be formatted. Default: the syntax of a Prometheus without
	// flags plus that of Features, like the default engine.
	Parser parser.Parser

	Timeout       time.Duration         // of a request that reads the storage, including waits; default 2m
	MaxSamples    int                   // limit of the samples of one query in memory; default 50,000,000
	SamplesAdvice string                // advice in the error of a query over MaxSamples; "": the engine's error
	LookbackDelta time.Duration         // default 5m
	Registerer    prometheus.Registerer // for the engine's metrics; nil: none

	// MaxConcurrent bounds the requests that read the storage concurrently, default 20; MaxQueued bounds
	// those that wait, default 1,000; further requests are refused with 503.
	MaxConcurrent, MaxQueued int

	// MaxEvaluating bounds the requests that compute a response concurrently, besides streamed remote reads, which wait for their clients.
	// The others wait first in first out, within MaxQueued. 0: MaxConcurrent alone bounds them.
	MaxEvaluating int

	// Background calls a function that computes a response, in another goroutine or not, and returns when that has. Nil: it is called.
	Background func(func())

	// MaxBody bounds the bytes of a request's body, default 10 MiB, of which a form may have 4 MiB; of a remote read also
	// those of its decompressed body.
	MaxBody int64

	// MaxResponse bounds the bytes of a response that must be buffered until its end: series, label names and
	// values, remote reads of samples. Default 256 MiB.
	MaxResponse int64

	// ResponseBytes bounds the bytes of all encoded responses that wait for their clients, default 64 MiB;
	// one response may take a quarter. A response waits there after Admit's reservation was released; a
	// response that does not fit is written while the reservation lasts, as streams are.
	ResponseBytes int64

	// Responses is a budget that is shared with other APIs. nil: a private one of ResponseBytes.
	Responses *ResponseBudget

	// WriteTimeout is the time after which a client that takes no data is disconnected, default 30s.
	WriteTimeout time.Duration

	// ReadSamples bounds the samples of a remote read that is not streamed, default 50,000,000. ReadFrame is
	// the approximate maximum of bytes of a frame of a streamed one, default 1 MiB.
	ReadSamples, ReadFrame int

	// Prefix is the path of the endpoints. Default: /api/v1.
	Prefix string

	// CORSOrigin matches the origins whose pages may use the API in browsers. Default: only the server's own.
	// If the expression matches every origin, the header is *.
	CORSOrigin *regexp.Regexp

	Build    BuildInfo             // response of status/buildinfo; see its defaults
	Flags    map[string]string     // response of status/flags
	Config   func() string         // response of status/config, as YAML; default: empty
	Runtime  func(*RuntimeInfo)    // changes the response of status/runtimeinfo
	Ready    func() error          // if it returns an error, every request fails with it and 503
	Now      func() time.Time      // default time.Now
	Log      *slog.Logger          // default: none
	Panics   *report.Reporter      // logs and counts requests that panic; nil: they only fail
	Classify func(error) ErrorType // returns the type of an error of the storage; "": the default
	Features Features              // of PromQL, beyond those of a Prometheus without flags

	// Admit, if not nil, is called once for each request that reads the storage, after its parameters were parsed and it
	// has its turn. The storage is read with the returned context, which may carry a tenant or a memory budget. The
	// returned function is called once, when the storage is closed and the response is encoded, or written if it does not
	// fit into ResponseBytes. An error is sent as the response, of type Unavailable unless Error or Classify determine another.
	Admit func(context.Context, *http.Request) (context.Context, func(), error)

	// Observe, if not nil, is called after the response to each request. It may keep the observation. The context is
	// Admit's if the request was admitted.
	Observe func(context.Context, *http.Request, *Observation)

	// Explain, if not nil, appends a JSON value that describes how a request was served. Responses to requests with
	// explain=1 contain it as field explain beside data. The context is Admit's.
	Explain func(ctx context.Context, dst []byte) []byte

	// Waiting returns the name of the resource that a timed-out request was waiting for, or "". The context
	// is Admit's.
	Waiting func(context.Context) string

	// ReserveResponse, if not nil, is called with the growth before the buffer of a response grows that must be buffered
	// until its end. The context is Admit's. An error fails the request.
	ReserveResponse func(context.Context, int64) error

	// Prepare, if not nil, is called with the parameters of an instant or range query.
	Prepare PrepareFunc

	// Retry, if not nil, is called when a request failed before a part of its response was sent. It reports
	// whether to retry the request, starting with its admission, with a context for which Failed returns the
	// error and Attempt the number of the attempt, at most 3. With Retry, the first attempts of a query use
	// engines that allow a part of MaxSamples, see the function MaxSamples, and a query that needs more
	// samples is retried without a call of Retry. The context is the request's.
	Retry func(context.Context, error) RetryMode
}

// A PrepareFunc evaluates parameters of a query that Prometheus' API does not have. The step of an instant query
// is 0. The storage is read with a context derived from the returned one. If lookback is not 0, it is the lookback
// delta of a query that states none. An error is sent as the response, of type BadData.
type PrepareFunc func(ctx context.Context, form url.Values, step time.Duration) (_ context.Context, lookback time.Duration, err error)

// Defaults of Options.
const (
	DefaultLookback      = 5 * time.Minute
	DefaultResponseBytes = 64 << 20

	defaultSamples = 50_000_000
)

// withDefaults returns the options with defaults for missing values.
func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.MaxSamples = cmp.Or(o.MaxSamples, defaultSamples)
	o.LookbackDelta = cmp.Or(o.LookbackDelta, DefaultLookback)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 20)
	o.MaxQueued = cmp.Or(o.MaxQueued, 1000)
	o.MaxBody = cmp.Or(o.MaxBody, 10<<20)
	o.MaxResponse = cmp.Or(o.MaxResponse, 256<<20)
	o.ResponseBytes = cmp.Or(o.ResponseBytes, DefaultResponseBytes)
	if o.Responses == nil {
		o.Responses = NewResponseBudget(o.ResponseBytes)
	}
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.ReadSamples = cmp.Or(o.ReadSamples, defaultSamples)
	o.ReadFrame = cmp.Or(o.ReadFrame, 1<<20)
	o.Prefix = cmp.Or(o.Prefix, "/api/v1")
	o.MaxEvaluating = cmp.Or(o.MaxEvaluating, o.MaxConcurrent)
	if o.Background == nil {
		o.Background = func(f func()) { f() }
	}
	o.Build = o.Build.withDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Flags == nil {
		o.Flags = map[string]string{}
	}
	if o.Config == nil {
		o.Config = func() string { return "" }
	}
	if o.Parser == nil {
		o.Parser = parser.NewParser(o.Features.parser())
	}
	o.Parser = boundedParser{o.Parser}
	return o
}

// engines returns the engines of a query's attempts, one per limit of samples. If there are several, their
// metrics have the limit as a label.
func (o *Options) engines() []promql.QueryEngine {
	if o.Engine != nil {
		return []promql.QueryEngine{o.Engine}
	}
	if o.Retry == nil {
		return []promql.QueryEngine{o.engine(o.MaxSamples, o.Registerer)}
	}
	var engines []promql.QueryEngine
	for n := range sampleParts {
		samples, registerer := MaxSamples(o.MaxSamples, n), o.Registerer
		if registerer != nil {
			registerer = prometheus.WrapRegistererWith(prometheus.Labels{"attempt": strconv.Itoa(n + 1)}, registerer)
		}
		engines = append(engines, o.engine(samples, registerer))
	}
	return engines
}

func (o *Options) engine(samples int, registerer prometheus.Registerer) promql.QueryEngine {
	return promql.NewEngine(promql.EngineOpts{
		Logger:                   o.Log,
		Reg:                      registerer,
		MaxSamples:               samples,
		Timeout:                  o.Timeout,
		LookbackDelta:            o.LookbackDelta,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		EnablePerStepStats:       o.Features.perStepStats,
		EnableDelayedNameRemoval: o.Features.delayedNameRemoval,
		Parser:                   o.Parser,
	})
}

// validate returns an error if the options are invalid. Defaults need not be filled in.
func (o Options) validate() error {
	if o.Queryable == nil {
		return errors.New("an API needs a Queryable")
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(o.Timeout)},
		{"MaxSamples", int64(o.MaxSamples)},
		{"LookbackDelta", int64(o.LookbackDelta)},
		{"MaxConcurrent", int64(o.MaxConcurrent)},
		{"MaxEvaluating", int64(o.MaxEvaluating)},
		{"MaxQueued", int64(o.MaxQueued)},
		{"MaxBody", o.MaxBody},
		{"MaxAnswer", o.MaxResponse},
		{"ResponseBytes", o.ResponseBytes},
		{"WriteTimeout", int64(o.WriteTimeout)},
		{"ReadSamples", int64(o.ReadSamples)},
		{"ReadFrame", int64(o.ReadFrame)},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s is %d, want a positive number, or 0 for the default", n.name, n.value)
		}
	}
	if o.Prefix != "" && (!strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/")) {
		return fmt.Errorf("prefix is %q, want a path like /api/v1", o.Prefix)
	}
	return nil
}
