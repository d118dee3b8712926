package promapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/panics"
)

// Options say what an API serves and within which bounds. Queryable is required.
type Options struct {
	// Queryable answers all but streamed remote reads and exemplars.
	Queryable storage.Queryable

	// ChunkQueryable answers streamed remote reads. Without it they are made of Queryable's
	// samples, encoded again.
	ChunkQueryable storage.ChunkQueryable

	// ExemplarQueryable answers query_exemplars. Without it there are none.
	ExemplarQueryable storage.ExemplarQueryable

	// Restrict hides series from some requests; nil: from none. Exemplars are not restricted.
	Restrict RestrictFunc

	// Engine evaluates PromQL. Without it the API creates some of Timeout, MaxSamples,
	// LookbackDelta, Registerer and Log, with the features of a Prometheus without flags.
	Engine promql.QueryEngine

	// Parser reads selectors and the expressions to be formatted. Default: with the syntax of a
	// Prometheus without flags, and that of Features, as the engine made here.
	Parser parser.Parser

	Timeout       time.Duration         // of a request that reads the storage, waiting included; default 2m
	MaxSamples    int                   // that one query may hold at a time; default 50,000,000
	LookbackDelta time.Duration         // default 5m
	Registerer    prometheus.Registerer // for the engine's metrics; nil: none

	// MaxConcurrent requests read the storage at once, default 20; MaxQueued more wait
	// their turn, default 1,000; what comes then is refused with 503.
	MaxConcurrent, MaxQueued int

	// MaxBody is the most bytes of a request's body, default 10 MiB; of a remote read also of
	// what it decompresses to.
	MaxBody int64

	// MaxAnswer is the most bytes of an answer that has to be held in memory until its end is
	// known: series, label names and values, remote reads of samples. Default 256 MiB.
	MaxAnswer int64

	// ResponseBytes is the most bytes of all encoded responses that wait for their clients, default
	// 64 MiB, and a quarter of it the most of one. A response waits there after Admit's reservation was
	// released; one without room is written while the reservation lasts, as streams are.
	ResponseBytes int64

	// Responses is that budget, where it is shared with other APIs. nil: a private one of ResponseBytes.
	Responses *ResponseBudget

	// WriteTimeout is how long a client may take no data before its connection is closed, default 30s.
	WriteTimeout time.Duration

	// ReadSamples is the most samples of a remote read that is not streamed, default
	// 50,000,000. ReadFrame is about the most bytes of a frame of a streamed one, default 1 MiB.
	ReadSamples, ReadFrame int

	// Prefix is the path before the endpoints' names. Default: /api/v1.
	Prefix string

	// CORSOrigin tells from which origins browsers may ask. Without it they may from none
	// but the server's own. An expression that matches every origin is answered with *.
	CORSOrigin *regexp.Regexp

	Build    BuildInfo             // what status/buildinfo tells; see its defaults
	Flags    map[string]string     // what status/flags tells
	Config   func() string         // what status/config tells as YAML; default: nothing
	Runtime  func(*RuntimeInfo)    // changes what status/runtimeinfo tells
	Ready    func() error          // an error is answered to every request with 503
	Now      func() time.Time      // default time.Now
	Log      *slog.Logger          // default: none
	Panics   *panics.Reporter      // logs and counts requests that panic; nil: they only fail
	Admit    AdmitFunc             // default: everything is admitted
	Observe  ObserveFunc           // default: nobody listens
	Explain  ExplainFunc           // default: explain is not answered
	Classify func(error) ErrorType // gives errors of the storage a class; "": the API's own
	Features Features              // of PromQL, beyond those of a Prometheus without flags

	// Waiting names what a request that timed out waited for, "" for nothing. The context is Admit's.
	Waiting func(context.Context) string

	// Hold, if it is not nil, is called before the buffer of a response that has to be held until its end is known
	// grows by that many bytes. The context is Admit's. An error fails the request.
	Hold func(context.Context, int64) error

	// Again, if it is not nil, is called when a request failed and nothing of a response was sent. It returns
	// whether the request is served again, from its admission on, with a context for which Failed returns the
	// error and Attempt the number of the attempt, at most 3. With Again, the first attempts of a query have an
	// engine that lets it hold a part of MaxSamples, see the function MaxSamples, and a query that needs more
	// samples is served again without calling Again. The context is the request's.
	Again func(context.Context, error) Repeat
}

// AdmitFunc is called once for each request that reads the storage, when it has read its
// parameters and has its turn. The context it returns is the one the storage is asked with: a tenant
// or a budget of bytes ride in it. The second result is called once when the storage is closed and the
// response is encoded, or written if it has no room within ResponseBytes. An error is answered in its place, as Unavailable unless it says
// otherwise through Error or Classify.
type AdmitFunc func(context.Context, *http.Request) (context.Context, func(), error)

// ExplainFunc appends a JSON value that tells how a request was answered: it becomes the field
// explain beside data in answers to requests with explain=1. The context is Admit's.
type ExplainFunc func(ctx context.Context, dst []byte) []byte

// Defaults of Options.
const (
	DefaultTimeout       = 2 * time.Minute
	DefaultMaxSamples    = 50_000_000
	DefaultLookback      = 5 * time.Minute
	DefaultMaxConcurrent = 20
	DefaultMaxQueued     = 1000
	DefaultMaxBody       = 10 << 20
	DefaultMaxAnswer     = 256 << 20
	DefaultReadFrame     = 1 << 20
	DefaultResponseBytes = 64 << 20
	DefaultWriteTimeout  = 30 * time.Second
	DefaultPrefix        = "/api/v1"
)

// withDefaults returns the options with what was left out.
func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxSamples = cmp.Or(o.MaxSamples, DefaultMaxSamples)
	o.LookbackDelta = cmp.Or(o.LookbackDelta, DefaultLookback)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, DefaultMaxConcurrent)
	o.MaxQueued = cmp.Or(o.MaxQueued, DefaultMaxQueued)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, DefaultMaxAnswer)
	o.ResponseBytes = cmp.Or(o.ResponseBytes, DefaultResponseBytes)
	if o.Responses == nil {
		o.Responses = NewResponseBudget(o.ResponseBytes)
	}
	o.WriteTimeout = cmp.Or(o.WriteTimeout, DefaultWriteTimeout)
	o.ReadSamples = cmp.Or(o.ReadSamples, DefaultMaxSamples)
	o.ReadFrame = cmp.Or(o.ReadFrame, DefaultReadFrame)
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
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

// engines returns the engines of a query's attempts: one for each number of samples that it may hold. With several,
// their metrics have the number as a label.
func (o *Options) engines() []promql.QueryEngine {
	if o.Engine != nil {
		return []promql.QueryEngine{o.Engine}
	}
	if o.Again == nil {
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

// Validate tells what is wrong with the options, defaults filled in or not.
func (o Options) Validate() error {
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
		{"MaxQueued", int64(o.MaxQueued)},
		{"MaxBody", o.MaxBody},
		{"MaxAnswer", o.MaxAnswer},
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
		return fmt.Errorf("prefix is %q, want a path like %s", o.Prefix, DefaultPrefix)
	}
	return nil
}
