package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
)

const (
	rangePattern = "GET /api/v1/query_range"

	// graphBytes bounds the size of a response that the page draws, graphRows the number of blocks that it lists and of
	// series on one page of their table.
	graphBytes = 8 << 20
	graphRows  = 200

	// drawnSeries is the number of series in the chart, each with a separate colour.
	drawnSeries = 6

	// tenantHeader is the HTTP header with the tenant of a request.
	tenantHeader = "X-Scope-OrgID"
)

// A promqlPage evaluates PromQL over the time range, and lists the blocks read.
type promqlPage struct {
	endpoint   http.Handler             // of range queries; nil: there is none
	earliest   func() (time.Time, bool) // as Options.Earliest
	interval   time.Duration            // of the history's samples; 0: unknown
	tags       []string                 // as Options.Tags
	tenants    bool                     // whether the server may have several
	statements *statementReader
	queries    chartQueries
	queryPath  string
}

// rangeQueries returns the endpoint of Prometheus' range queries among routes, or nil if there is none.
func rangeQueries(routes []Route) http.Handler {
	for _, r := range routes {
		if r.pattern == rangePattern {
			return r.handler
		}
	}
	return nil
}

// promqlData is the data of the page.
type promqlData struct {
	Query, Tenant string
	Tenants       bool // the server may have several
	Action        string
	Keep          []pair // hidden fields of the form
	Examples      []promqlExample
	Functions     string   // names, for completion
	Legends       []string // labels that differ between the series
	Legend        string   // the label in the legend; "": all that differ
	Step          time.Duration
	Fitted        string // the part of the range that has data; "": most of it has
	Series        int
	First, Last   int    // rows of the table
	Before, After string // links to other rows of the table
	Chart         template.HTML
	Rows          []promqlRow
	Notes         []string
	Read          *storegateway.Explanation // nil: no blocks were read
	Blocks        []promqlBlock
	MoreBlocks    int
	API           string // link to the same as JSON
}

type promqlExample struct{ Name, Link string }

// A promqlRow is one series of the response.
type promqlRow struct {
	Name, Last, Most string
	Statement, Link  string // of the digest, if its text is known
}

// A promqlBlock is the sum of the reads of one block.
type promqlBlock struct {
	ID                 string
	From, To           time.Time
	Series             int64 // in its postings
	Fetched, FromCache int64 // bytes
	Reads              int64
}

// A promqlResponse is the part of a range query's response that the page uses.
type promqlResponse struct {
	Status    string   `json:"status"`
	Error     string   `json:"error"`
	ErrorType string   `json:"errorType"`
	Warnings  []string `json:"warnings"`
	Infos     []string `json:"infos"`
	Data      struct {
		Result model.Matrix `json:"result"`
	} `json:"data"`
	Explain *storegateway.Explanation `json:"explain"`
}

func (s *promqlPage) load(ctx context.Context, v *view) (any, error) {
	d := &promqlData{
		Query: strings.TrimSpace(v.query.Get("query")), Tenant: v.query.Get("tenant"), Tenants: s.tenants, Action: v.r.URL.Path,
		Legend: v.query.Get("legend"), Functions: promqlFunctions(),
	}
	for _, name := range sortedNames(v.query) {
		if name == "from" || name == "to" {
			d.Keep = append(d.Keep, pair{name, v.query.Get(name)})
		}
	}
	for _, e := range s.examples() {
		d.Examples = append(d.Examples, promqlExample{e, v.with("query", e)})
	}
	if d.Query == "" {
		return d, nil
	}
	row, err := firstRow(v.query.Get("page"))
	if err != nil {
		return nil, badRequest(err, "Open the first page of the series.")
	}
	over := s.sampled(v.span, d)
	resp, err := s.evaluate(ctx, v, d, over)
	if err != nil {
		return nil, err
	}
	if from, to, ok := timesOf(resp.Data.Result); ok {
		if part, ok := fitted(over, from.Add(-d.Step), to.Add(d.Step)); ok {
			over = part
			d.Fitted = spanText(over)
			if resp, err = s.evaluate(ctx, v, d, over); err != nil {
				return nil, err
			}
		}
	}
	d.Notes = append(resp.Warnings, resp.Infos...)
	d.Read = resp.Explain
	d.addBlocks()
	s.addSeries(ctx, v, d, over, resp.Data.Result, row)
	return d, nil
}

// sampled returns the part of a range that has samples, if the query has no result before the first one.
func (s *promqlPage) sampled(over span, d *promqlData) span {
	if s.earliest == nil {
		return over
	}
	earliest, ok := s.earliest()
	if !ok || promapi.CheckExpr(d.Query) != nil {
		return over
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(d.Query)
	if err != nil || !needsSamples(expr) {
		return over
	}
	part, ok := fitted(over, earliest, over.To)
	if !ok {
		return over
	}
	d.Fitted = spanText(part)
	return part
}

// needsSamples reports whether an expression has no result at a time before all samples.
func needsSamples(expr parser.Expr) bool {
	switch e := expr.(type) {
	case *parser.VectorSelector:
		return e.OriginalOffset >= 0 && e.OriginalOffsetExpr == nil && e.Timestamp == nil && e.StartOrEnd == 0
	case *parser.MatrixSelector:
		return needsSamples(e.VectorSelector)
	case *parser.SubqueryExpr:
		return e.OriginalOffset >= 0 && e.OriginalOffsetExpr == nil && e.Timestamp == nil && e.StartOrEnd == 0 && needsSamples(e.Expr)
	case *parser.ParenExpr:
		return needsSamples(e.Expr)
	case *parser.UnaryExpr:
		return needsSamples(e.Expr)
	case *parser.AggregateExpr:
		return needsSamples(e.Expr)
	case *parser.BinaryExpr:
		switch e.Op {
		case parser.LOR:
			return needsSamples(e.LHS) && needsSamples(e.RHS)
		case parser.LUNLESS:
			return needsSamples(e.LHS)
		}
		return needsSamples(e.LHS) || needsSamples(e.RHS)
	case *parser.Call:
		switch e.Func.Name {
		case "absent", "absent_over_time", "scalar", "vector":
			return false
		}
		return slices.ContainsFunc(e.Args, needsSamples)
	}
	return false
}

// evaluate queries a part of the view's range, in steps that are not shorter than the interval of the history's samples.
func (s *promqlPage) evaluate(ctx context.Context, v *view, d *promqlData, over span) (*promqlResponse, error) {
	d.Step = max((over.Length() / chartPoints).Round(time.Second), s.interval, time.Second)
	q := url.Values{
		"query": {d.Query}, "step": {strconv.FormatFloat(d.Step.Seconds(), 'f', -1, 64)},
		"start": {unixSeconds(over.From)}, "end": {unixSeconds(over.To)},
	}
	d.API = "/api/v1/query_range?" + q.Encode()
	q.Set("explain", "1")
	return s.rangeQuery(ctx, v, q, d.Tenant)
}

// timesOf returns the times of the first and the last sample, and false if there are none.
func timesOf(all model.Matrix) (from, to time.Time, ok bool) {
	first, last := model.Latest, model.Earliest
	for _, s := range all {
		if n := len(s.Values); n > 0 {
			first, last = min(first, s.Values[0].Timestamp), max(last, s.Values[n-1].Timestamp)
		}
		if n := len(s.Histograms); n > 0 {
			first, last = min(first, s.Histograms[0].Timestamp), max(last, s.Histograms[n-1].Timestamp)
		}
	}
	return first.Time().UTC(), last.Time().UTC(), first <= last
}

// firstRow returns the first row of a page of the table; pages count from 1.
func firstRow(page string) (int, error) {
	if page == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(page, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("page: want a number from 1 on, not %.40q", page)
	}
	return int(n-1) * graphRows, nil
}

// promqlFunctions returns the names of PromQL's functions and operators with an opening parenthesis.
var promqlFunctions = sync.OnceValue(func() string { //nolint:gochecknoglobals // made once, never changed
	var names []string
	for name, f := range parser.Functions {
		if !f.Experimental {
			names = append(names, name+"(")
		}
	}
	for item, name := range parser.ItemTypeStr {
		if item.IsAggregator() && !item.IsExperimentalAggregator() {
			names = append(names, name+"(")
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
})

// promqlExamples returns queries to start with.
func (s *promqlPage) examples() []string {
	if s.statements.all != nil {
		examples := []string{
			"sum(rate(tare_queries_total[5m]))",
			"topk(5, sum by (digest) (rate(tare_queries_total[5m])))",
			"histogram_quantile(0.99, sum(rate(tare_query_duration_seconds[5m])))",
		}
		for _, tag := range s.tags {
			examples = append(examples, s.queries.tag(tag, 0).TagLoad(5))
		}
		return examples
	}
	return []string{"count({__name__=~\".+\"})", "sum by (job) (up)", "topk(10, count by (__name__) ({__name__=~\".+\"}))"}
}

func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// rangeQuery calls the endpoint as the view's account, under the same admission and budgets as a request from
// outside.
func (s *promqlPage) rangeQuery(ctx context.Context, v *view, q url.Values, tenant string) (*promqlResponse, error) {
	r := v.r.Clone(ctx)
	r.URL = &url.URL{Path: "/api/v1/query_range", RawQuery: q.Encode()}
	r.Header = http.Header{}
	if tenant != "" {
		r.Header.Set(tenantHeader, tenant)
	}
	w := &pageRecorder{header: http.Header{}, code: http.StatusOK}
	err := panics.Guard(func() error {
		s.endpoint.ServeHTTP(w, r)
		return nil
	})
	if p := panics.Of(err); p != nil && !w.full && !errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	if w.full {
		return nil, badRequest(fmt.Errorf("the response has more than %s", bytesText(graphBytes)), "Aggregate, for instance with sum by (…) or topk(10, …).", "Choose a shorter range.")
	}
	if err != nil {
		return nil, &problem{Status: http.StatusServiceUnavailable, What: "The response broke off.", Try: []string{"Try again shortly."}}
	}
	var resp promqlResponse
	if err := json.Unmarshal(w.body.Bytes(), &resp); err != nil {
		return nil, fmt.Errorf("response of the query: %w", err)
	}
	if resp.Status != "success" {
		return nil, &problem{Status: w.code, What: sentence(resp.Error), Try: promqlTries(resp.ErrorType)}
	}
	return &resp, nil
}

// promqlTries returns suggestions for an error type of Prometheus' API.
func promqlTries(kind string) []string {
	switch kind {
	case "bad_data":
		return []string{"Correct the query.", "Of a store with several tenants: name one."}
	case "timeout":
		return []string{"Choose a shorter range.", "Select fewer series."}
	}
	return []string{"Select fewer series, or a shorter range.", "Try again shortly."}
}

// A pageRecorder keeps a response of at most graphBytes.
type pageRecorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
	full   bool
}

// Header implements http.ResponseWriter.
func (w *pageRecorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *pageRecorder) WriteHeader(code int) { w.code = code }

var errGraphBytes = errors.New("the response is larger than what a page draws")

// Write implements http.ResponseWriter.
func (w *pageRecorder) Write(b []byte) (int, error) {
	if w.full = w.full || w.body.Len()+len(b) > graphBytes; w.full {
		return 0, errGraphBytes
	}
	return w.body.Write(b)
}

// addSeries draws the series with the largest values, and lists all of them from a row on, a page at a time.
func (s *promqlPage) addSeries(ctx context.Context, v *view, d *promqlData, over span, all model.Matrix, first int) {
	d.Series = len(all)
	most := make(map[*model.SampleStream]float64, len(all))
	for _, one := range all {
		high := math.Inf(-1)
		for _, p := range one.Values {
			if chart.IsNumber(float64(p.Value)) {
				high = max(high, float64(p.Value))
			}
		}
		most[one] = high
	}
	slices.SortStableFunc(all, func(a, b *model.SampleStream) int {
		return cmp.Or(cmp.Compare(most[b], most[a]), strings.Compare(a.Metric.String(), b.Metric.String()))
	})
	legend := newLegend(all, d.Legend, func() map[sqldigest.Digest]string { return s.statements.names(ctx, v) })
	d.Legends = legend.differ
	c := lineChart{ID: "result", Title: "Result", From: over.From, To: over.To, Unit: unitCount}
	for t := over.From; !t.After(over.To); t = t.Add(d.Step) {
		c.Times = append(c.Times, t)
	}
	for _, one := range all[:min(len(all), drawnSeries)] {
		if len(one.Values) > 0 {
			c.Series = append(c.Series, series{Name: cutText(legend.name(one.Metric), maxLegend), Values: valuesAt(one.Values, over.From, d.Step, len(c.Times))})
		}
	}
	if len(c.Series) > 0 {
		d.Chart = c.HTML()
	}
	first = min(first, max(len(all)-1, 0)/graphRows*graphRows)
	d.First, d.Last = first+1, min(first+graphRows, len(all))
	for _, one := range all[first:d.Last] {
		row := promqlRow{Name: cutText(one.Metric.String(), 4*shownValue), Most: unitCount.write(most[one]), Last: noValue}
		if n := len(one.Values); n > 0 {
			row.Last = unitCount.write(float64(one.Values[n-1].Value))
		}
		if len(one.Histograms) > 0 {
			row.Last, row.Most = "histogram", "histogram"
		}
		if row.Statement = legend.statement(one.Metric); row.Statement != "" {
			row.Link = v.link(s.queryPath + string(one.Metric[stmtseries.LabelDigest]))
		}
		d.Rows = append(d.Rows, row)
	}
	page := func(first int) string { return v.with("page", strconv.Itoa(first/graphRows+1)) }
	if first > 0 {
		d.Before = page(first - graphRows)
	}
	if d.Last < len(all) {
		d.After = page(first + graphRows)
	}
}

// A legend names series by what differs between them.
type legend struct {
	label  string   // chosen; "": all that differ
	differ []string // labels whose values differ, sorted
	texts  map[sqldigest.Digest]string
}

// newLegend returns the legend of some series. texts is called if their digests differ.
func newLegend(all model.Matrix, label string, texts func() map[sqldigest.Digest]string) *legend {
	l := &legend{label: label}
	names := make(map[model.LabelName]bool)
	for _, s := range all {
		for name := range s.Metric {
			names[name] = true
		}
	}
	for name := range names {
		if slices.ContainsFunc(all, func(s *model.SampleStream) bool { return s.Metric[name] != all[0].Metric[name] }) {
			l.differ = append(l.differ, string(name))
		}
	}
	slices.Sort(l.differ)
	if names[stmtseries.LabelDigest] {
		l.texts = texts()
	}
	return l
}

// statement returns the name of a series' statement, or "".
func (l *legend) statement(m model.Metric) string {
	d, err := sqldigest.Parse(string(m[stmtseries.LabelDigest]))
	if err != nil {
		return ""
	}
	return l.texts[d]
}

// name returns the values of the labels that differ, a statement instead of its digest.
func (l *legend) name(m model.Metric) string {
	labels := l.differ
	if l.label != "" {
		labels = []string{l.label}
	}
	var parts []string
	for _, label := range labels {
		value := string(m[model.LabelName(label)])
		if text := l.statement(m); label == stmtseries.LabelDigest && text != "" {
			value = text
		}
		if len(labels) > 1 && label != stmtseries.LabelDigest && label != model.MetricNameLabel {
			value = label + "=" + strconv.Quote(value)
		}
		parts = append(parts, cmp.Or(value, noValue))
	}
	if len(parts) == 0 {
		return m.String()
	}
	return strings.Join(parts, ", ")
}

// valuesAt returns the samples at their steps, with NaN at steps without one.
func valuesAt(samples []model.SamplePair, from time.Time, step time.Duration, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, p := range samples {
		i := int(math.Round(float64(p.Timestamp.Time().Sub(from)) / float64(step)))
		if i >= 0 && i < n {
			values[i] = float64(p.Value)
		}
	}
	return values
}

// addBlocks lists the blocks that were read, those with the most bytes first.
func (d *promqlData) addBlocks() {
	if d.Read == nil {
		return
	}
	for i := range d.Read.Blocks {
		b := &d.Read.Blocks[i]
		row := promqlBlock{ID: b.ID, From: time.UnixMilli(b.MinTime), To: time.UnixMilli(b.MaxTime), Series: b.Postings}
		for _, u := range b.Read {
			row.Fetched += u.Fetched
			row.FromCache += u.Cached + u.Disk + u.Shared
			row.Reads += u.Reads
		}
		d.Blocks = append(d.Blocks, row)
	}
	slices.SortStableFunc(d.Blocks, func(a, b promqlBlock) int { return cmp.Compare(b.Fetched+b.FromCache, a.Fetched+a.FromCache) })
	d.MoreBlocks = max(len(d.Blocks)-graphRows, 0)
	d.Blocks = d.Blocks[:len(d.Blocks)-d.MoreBlocks]
}

// The PromQL beside a chart is statements.ChartQuery's. Rates exclude counts of evicted digests from before
// their eviction.

// chartQueries builds the PromQL beside charts.
type chartQueries struct {
	matchers func() []string // as Options.SeriesMatchers
}

// selector returns the matchers in braces.
func (c chartQueries) selector(matchers ...string) string {
	if c.matchers != nil {
		matchers = append(matchers, c.matchers()...)
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// digest returns the queries of one digest's series.
func (c chartQueries) digest(hex string, step time.Duration) statements.ChartQuery {
	return statements.ChartQuery{Selector: c.selector("digest=" + strconv.Quote(hex)), Step: step}
}

// tag returns the queries of a tag's series.
func (c chartQueries) tag(key string, step time.Duration) statements.ChartQuery {
	return statements.ChartQuery{Selector: c.selector("tag=" + strconv.Quote(key)), Step: step}
}

// all returns the queries of all statements' series.
func (c chartQueries) all(step time.Duration) statements.ChartQuery {
	return statements.ChartQuery{Selector: c.selector(`digest!="evicted"`), Step: step}
}
