package promapi

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	stdregexp "regexp"
	"testing"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	ours "github.com/taredb/tare/store/promapi"
)

const (
	scrapes  = 240
	interval = 15_000 // milliseconds
	lastTime = scrapes * interval
)

// A pair has both handlers over one storage.
type pair struct {
	theirs, ours http.Handler
	engine       *replay
}

func newPair(t testing.TB, maxSamples int) *pair {
	t.Helper()
	s := teststorage.New(t)
	fill(t, s)
	e := &replay{engine: newEngine(maxSamples, newParser()), seen: map[replayKey]*outcome{}}
	f := faulty{s}
	return &pair{theirs: prometheusAPI(t, f, e, newParser()), ours: ownAPI(t, f, e), engine: e}
}

func newEngine(maxSamples int, p parser.Parser) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples:               maxSamples,
		Timeout:                  time.Minute,
		LookbackDelta:            5 * time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		EnablePerStepStats:       true,
		Parser:                   p,
	})
}

func newParser() parser.Parser {
	return parser.NewParser(parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true})
}

func ownAPI(t testing.TB, s faulty, e promql.QueryEngine) http.Handler {
	t.Helper()
	h, err := ours.New(ours.Options{
		Queryable: s, ChunkQueryable: s, ExemplarQueryable: s,
		Engine: e, Parser: newParser(),
		CORSOrigin: stdregexp.MustCompile("^(?:.*)$"), Flags: map[string]string{"web.cors.origin": ".*", "a<b": "c&d"},
		Config: func() string { return emptyConfig() },
		Build:  ours.BuildInfo{Version: "3.15.0", GoVersion: "go1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func emptyConfig() string { c := config.Config{}; return c.String() }

// nothing is a Prometheus that scrapes nothing and has no rules.
type nothing struct{}

func (nothing) TargetsActive() map[string][]*scrape.Target  { return nil }
func (nothing) TargetsDropped() map[string][]*scrape.Target { return nil }
func (nothing) TargetsDroppedCounts() map[string]int        { return map[string]int{} }
func (nothing) ScrapePools() []string                       { return []string{} }
func (nothing) Alertmanagers() []*url.URL                   { return nil }
func (nothing) DroppedAlertmanagers() []*url.URL            { return nil }
func (nothing) RuleGroups() []*rules.Group                  { return nil }
func (nothing) AlertingRules() []*rules.AlertingRule        { return nil }
func (nothing) ScrapePoolConfig(string) (*config.ScrapeConfig, error) {
	return nil, errors.New("no such pool")
}

// database is the storage interface of Prometheus' handler.
type database interface {
	storage.SampleAndChunkQueryable
	storage.ExemplarQueryable
}

func prometheusAPI(t testing.TB, s database, e promql.QueryEngine, p parser.Parser) http.Handler {
	t.Helper()
	api := v1.NewAPI(
		e, s, nil, nil, s,
		func(context.Context) v1.ScrapePoolsRetriever { return nothing{} },
		func(context.Context) v1.TargetRetriever { return nothing{} },
		func(context.Context) v1.AlertmanagerRetriever { return nothing{} },
		func() config.Config { return config.Config{} },
		map[string]string{"web.cors.origin": ".*", "a<b": "c&d"},
		v1.GlobalURLOptions{},
		func(f http.HandlerFunc) http.HandlerFunc { return f },
		nil, "", false, false, 0,
		promslog.NewNopLogger(),
		func(context.Context) v1.RulesRetriever { return nothing{} },
		50_000_000, 10, 1<<20,
		false,
		regexp.MustCompile("^(?:.*)$"),
		func() (v1.RuntimeInfo, error) { return v1.RuntimeInfo{}, nil },
		&v1.PrometheusVersion{Version: "3.15.0", GoVersion: "go1"},
		nil, nil, nil, nil, nil,
		false, nil, false, false, false, false, 5*time.Minute, false, false, nil, nil,
		v1.OpenAPIOptions{}, p,
	)
	r := route.New()
	api.Register(r.WithPrefix("/api/v1"))
	return r
}

// fill appends series of every kind: counters with resets, gauges with each special float, classic and native
// histograms, gaps, stale markers, names beyond ASCII and labels that must be escaped in JSON and HTML.
func fill(t testing.TB, s *teststorage.TestStorage) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	app := s.Appender(t.Context())
	add := func(ls labels.Labels, ms int64, f float64) {
		if _, err := app.Append(0, ls, ms, f); err != nil {
			t.Fatal(err)
		}
	}
	addH := func(ls labels.Labels, ms int64, h *histogram.Histogram, fh *histogram.FloatHistogram) {
		if _, err := app.AppendHistogram(0, ls, ms, h, fh); err != nil {
			t.Fatal(err)
		}
	}
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1e-7, 1e-6, 1e21, 1e20, 123456789.125, 1 << 53, 5e-324, math.MaxFloat64, 0.1, -1.5e-9}
	jobs := []string{"api", "db", `we"b<1>&\`, "日本", "line\nbreak\u2028\x01"}
	for i := range 60 {
		job := jobs[i%len(jobs)]
		instance := string(rune('a'+i/5)) + ":90"
		total := labels.FromStrings("__name__", "http_requests_total", "job", job, "instance", instance, "code", []string{"200", "404", "500"}[i%3])
		gauge := labels.FromStrings("__name__", "temperature", "job", job, "instance", instance)
		bare := labels.FromStrings("__name__", "requests", "job", job, "instance", instance, "dotted.name", "x/y")
		count := 0.0
		for k := range scrapes {
			ms := int64(k) * interval
			if rng.IntN(20) == 0 {
				continue
			}
			if rng.IntN(100) == 0 {
				count = 0
			}
			count += float64(rng.IntN(50))
			add(total, ms, count)
			add(bare, ms+int64(i), count/3)
			switch rng.IntN(12) {
			case 0:
				add(gauge, ms, special[rng.IntN(len(special))])
			case 1:
				add(gauge, ms, math.Float64frombits(value.StaleNaN))
			default:
				add(gauge, ms, rng.NormFloat64()*math.Pow(10, float64(rng.IntN(20)-10)))
			}
		}
	}
	for i := range 4 {
		instance := string(rune('a' + i))
		for k := range scrapes {
			ms := int64(k) * interval
			cum := 0.0
			for _, le := range []string{"0.1", "0.5", "1", "+Inf"} {
				cum += float64(rng.IntN(5) + k)
				add(labels.FromStrings("__name__", "latency_bucket", "instance", instance, "le", le), ms, cum)
			}
			n := int64(k) * int64(i+1)
			addH(labels.FromStrings("__name__", "native", "instance", instance), ms, tsdbutil.GenerateTestHistogram(n), nil)
			addH(labels.FromStrings("__name__", "native_float", "instance", instance), ms, nil, tsdbutil.GenerateTestFloatHistogram(n))
			addH(labels.FromStrings("__name__", "native_custom", "instance", instance), ms, tsdbutil.GenerateTestCustomBucketsHistogram(n), nil)
			addH(labels.FromStrings("__name__", "native_gauge", "instance", instance), ms, tsdbutil.GenerateTestGaugeHistogram(n), nil)
			// A series that changes from floats to histograms.
			mixed := labels.FromStrings("__name__", "mixed_total", "instance", instance)
			if k < scrapes/2 {
				add(mixed, ms, float64(k))
			} else {
				addH(mixed, ms, tsdbutil.GenerateTestHistogram(n), nil)
			}
		}
	}
	add(labels.FromStrings("__name__", "build_info", "job", "api", "version", "1<2"), lastTime-1000, 1)
	ref, err := app.Append(0, labels.FromStrings("__name__", "traced_total", "job", jobs[2]), lastTime, 7)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range special[1:6] {
		e := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", `a"<`+string(rune('0'+i))), Value: v, Ts: lastTime - 5000 + int64(i)*1001, HasTs: true}
		if _, err := app.AppendExemplar(ref, labels.FromStrings("__name__", "traced_total", "job", jobs[2]), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}
