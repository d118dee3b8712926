//go:build !race

// Excluded from race tests: it would take a minute, and the code under test starts no goroutines.

package promapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/taredb/tare/store/promapi"
)

// TestPromqltest runs Prometheus' own PromQL test files, with each evaluation over HTTP. It compares the
// decoded JSON with the files: labels, order, values, warnings, infos and errors. JSON has no schema of
// histograms: their text is compared with the engine's own histogram, which then takes their place.
func TestPromqltest(t *testing.T) {
	e := &httpEngine{engine: promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)}
	api, err := promapi.New(promapi.Options{
		Queryable: e, Engine: e.engine, Parser: parser.NewParser(promqltest.TestParserOpts),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()
	e.base, e.client = server.URL+"/api/v1/", server.Client()
	defer e.client.CloseIdleConnections()

	promqltest.RunBuiltinTestsWithStorage(t, e, func(t testing.TB) storage.Storage {
		return teststorage.New(t, func(o *tsdb.Options) {
			// Only the encodings that the files require: a storage is opened for each of their hundreds of
			// sections.
			o.EnableSTStorage = true
			o.FloatChunkEncoding = chunkenc.EncXOR2
			o.EnableHistogramSTEncoding = true
			o.StripeSize = 32
			o.WALSegmentSize = -1
			o.MaxExemplars = 1
		})
	})
	t.Logf("%d evaluations over HTTP, %d answers with histograms", e.asked, e.histograms)
	if e.asked < 3000 {
		t.Errorf("only %d evaluations", e.asked)
	}
}

// An httpEngine evaluates by queries of an API over HTTP. It serves one query at a time.
type httpEngine struct {
	engine     *promql.Engine
	base       string
	client     *http.Client
	storage    storage.Queryable // of the current query
	asked      int
	histograms int
}

// Querier implements storage.Queryable for the API with the storage of the current query.
func (e *httpEngine) Querier(mint, maxt int64) (storage.Querier, error) {
	return e.storage.Querier(mint, maxt)
}

func (e *httpEngine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	direct, err := e.engine.NewInstantQuery(ctx, q, opts, qs, ts)
	return e.query("query", q, direct, err, url.Values{"query": {qs}, "time": {ts.Format(time.RFC3339Nano)}})
}

func (e *httpEngine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, step time.Duration) (promql.Query, error) {
	direct, err := e.engine.NewRangeQuery(ctx, q, opts, qs, start, end, step)
	return e.query("query_range", q, direct, err, url.Values{
		"query": {qs}, "start": {start.Format(time.RFC3339Nano)}, "end": {end.Format(time.RFC3339Nano)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
}

// query runs immediately if the engine rejects an expression, so that both errors are compared.
func (e *httpEngine) query(endpoint string, q storage.Queryable, direct promql.Query, err error, form url.Values) (promql.Query, error) {
	h := &httpQuery{Query: direct, engine: e, endpoint: endpoint, form: form, storage: q}
	if err == nil {
		return h, nil
	}
	a, askErr := h.ask()
	if askErr != nil {
		return nil, askErr
	}
	if want := `invalid parameter "query": ` + err.Error(); a.ErrorType != "bad_data" || a.Error != want {
		return nil, fmt.Errorf("over HTTP %s: %s, want bad_data: %s", a.ErrorType, a.Error, want)
	}
	return nil, err
}

type httpQuery struct {
	promql.Query
	engine   *httpEngine
	endpoint string
	form     url.Values
	storage  storage.Queryable
}

// An apiAnswer is a decoded response.
type apiResponse struct {
	Status    string
	ErrorType string
	Error     string
	Data      struct {
		ResultType string
		Result     json.RawMessage
	}
	Warnings []string
	Infos    []string
}

func (q *httpQuery) ask() (*apiResponse, error) {
	q.engine.storage = q.storage
	q.engine.asked++
	resp, err := q.engine.client.PostForm(q.engine.base+q.endpoint, q.form)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	a := new(apiResponse)
	if err := json.Unmarshal(body, a); err != nil {
		return nil, fmt.Errorf("answer %s: %w", body, err)
	}
	if (resp.StatusCode == http.StatusOK) != (a.Status == "success") {
		return nil, fmt.Errorf("status %d with %s", resp.StatusCode, a.Status)
	}
	return a, nil
}

// A note is a warning or info that was received as text.
type note struct {
	text string
	kind error
}

func (n note) Error() string { return n.text }
func (n note) Unwrap() error { return n.kind }

// Exec evaluates over HTTP and with the engine, and returns the result from HTTP.
func (q *httpQuery) Exec(ctx context.Context) *promql.Result {
	direct := q.Query.Exec(ctx)
	a, err := q.ask()
	if err != nil {
		return &promql.Result{Err: err}
	}
	if a.Status != "success" {
		if direct.Err == nil || direct.Err.Error() != a.Error {
			return &promql.Result{Err: fmt.Errorf("over HTTP %q, from the engine %w", a.Error, direct.Err)}
		}
		return &promql.Result{Err: errors.New(a.Error)}
	}
	if direct.Err != nil {
		return &promql.Result{Err: fmt.Errorf("over HTTP no error, from the engine %w", direct.Err)}
	}
	res := &promql.Result{}
	for _, s := range a.Warnings {
		res.Warnings.Add(note{s, annotations.PromQLWarning})
	}
	for _, s := range a.Infos {
		res.Warnings.Add(note{s, annotations.PromQLInfo})
	}
	res.Value, res.Err = q.decode(a, direct.Value)
	return res
}

// decode converts JSON to a value. Histograms are taken from the engine's own value.
func (q *httpQuery) decode(a *apiResponse, direct parser.Value) (parser.Value, error) {
	switch a.Data.ResultType {
	case "scalar", "string":
		var p point
		if err := json.Unmarshal(a.Data.Result, &p); err != nil {
			return nil, err
		}
		if a.Data.ResultType == "string" {
			return promql.String{T: p.t, V: p.text}, nil
		}
		f, err := p.float()
		return promql.Scalar{T: p.t, V: f}, err
	case "vector", "matrix":
	default:
		return nil, fmt.Errorf("result type %q", a.Data.ResultType)
	}
	var list []struct {
		Metric     map[string]string
		Value      *point
		Histogram  *point
		Values     []point
		Histograms []point
	}
	if err := json.Unmarshal(a.Data.Result, &list); err != nil {
		return nil, err
	}
	own := histogramsOf(direct)
	var vector promql.Vector
	matrix := promql.Matrix{}
	for _, s := range list {
		metric := labels.FromMap(s.Metric)
		histogram := func(p point) (*histogram.FloatHistogram, error) {
			q.engine.histograms++
			h := own[pointKey{metric.String(), p.t}]
			if h == nil {
				return nil, fmt.Errorf("%s at %d: a histogram that the engine does not have", metric, p.t)
			}
			return h, p.equals(h)
		}
		series := promql.Series{Metric: metric}
		for _, p := range s.Values {
			f, err := p.float()
			if err != nil {
				return nil, err
			}
			series.Floats = append(series.Floats, promql.FPoint{T: p.t, F: f})
		}
		for _, p := range s.Histograms {
			h, err := histogram(p)
			if err != nil {
				return nil, err
			}
			series.Histograms = append(series.Histograms, promql.HPoint{T: p.t, H: h})
		}
		matrix = append(matrix, series)
		sample := promql.Sample{Metric: metric}
		var err error
		switch {
		case s.Value != nil:
			sample.T = s.Value.t
			sample.F, err = s.Value.float()
		case s.Histogram != nil:
			sample.T = s.Histogram.t
			sample.H, err = histogram(*s.Histogram)
		}
		if err != nil {
			return nil, err
		}
		vector = append(vector, sample)
	}
	if a.Data.ResultType == "matrix" {
		return matrix, nil
	}
	return vector, nil
}

// A point is [time, value].
type point struct {
	t    int64 // milliseconds
	text string
	hist struct {
		Count, Sum string
		Buckets    [][]any
	}
}

func (p *point) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(string(pair[0]), 64)
	if err != nil {
		return err
	}
	p.t = int64(math.Round(seconds * 1000))
	if strings.HasPrefix(string(pair[1]), "{") {
		return json.Unmarshal(pair[1], &p.hist)
	}
	return json.Unmarshal(pair[1], &p.text)
}

func (p *point) float() (float64, error) { return strconv.ParseFloat(p.text, 64) }

// equals compares a histogram in JSON with one of the engine's.
func (p *point) equals(h *histogram.FloatHistogram) error {
	same := func(what, text string, f float64) error {
		got, err := strconv.ParseFloat(text, 64)
		if err != nil || got != f && !(math.IsNaN(got) && math.IsNaN(f)) {
			return fmt.Errorf("histogram's %s over HTTP is %q, from the engine %v", what, text, f)
		}
		return nil
	}
	err := errors.Join(same("count", p.hist.Count, h.Count), same("sum", p.hist.Sum, h.Sum))
	i := 0
	for it := h.AllBucketIterator(); it.Next(); {
		b := it.At()
		if b.Count == 0 {
			continue
		}
		if i >= len(p.hist.Buckets) || len(p.hist.Buckets[i]) != 4 {
			return fmt.Errorf("bucket %d is missing over HTTP", i)
		}
		var text [4]string
		for j, v := range p.hist.Buckets[i] {
			text[j] = fmt.Sprint(v)
		}
		kind := map[[2]bool]string{{false, true}: "0", {true, false}: "1", {false, false}: "2", {true, true}: "3"}[[2]bool{b.LowerInclusive, b.UpperInclusive}]
		if text[0] != kind {
			err = errors.Join(err, fmt.Errorf("bucket %d has boundaries of kind %s, want %s", i, text[0], kind))
		}
		err = errors.Join(err, same("lower bound", text[1], b.Lower), same("upper bound", text[2], b.Upper), same("bucket", text[3], b.Count))
		i++
	}
	if i != len(p.hist.Buckets) {
		err = errors.Join(err, fmt.Errorf("%d buckets over HTTP, %d from the engine", len(p.hist.Buckets), i))
	}
	return err
}

type pointKey struct {
	metric string
	t      int64
}

func histogramsOf(v parser.Value) map[pointKey]*histogram.FloatHistogram {
	own := map[pointKey]*histogram.FloatHistogram{}
	switch v := v.(type) {
	case promql.Vector:
		for _, s := range v {
			if s.H != nil {
				own[pointKey{s.Metric.String(), s.T}] = s.H
			}
		}
	case promql.Matrix:
		for _, s := range v {
			for _, p := range s.Histograms {
				own[pointKey{s.Metric.String(), p.T}] = p.H
			}
		}
	}
	return own
}
