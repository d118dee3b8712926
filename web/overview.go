package web

import (
	"context"
	"html/template"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/statements"
)

const (
	// overviewRows is the number of statements on the first page, and drawnRows the number of those in the
	// chart.
	overviewRows = 10
	drawnRows    = 5

	// newShare is the minimum share of total time of a new statement that is reported as an event, and
	// riseShare that of one whose load has risen, of the duration of the rise.
	newShare  = 0.02
	riseShare = 0.05
)

// An overviewPage is the first page of a gateway.
type overviewPage struct {
	statements *statementReader
	marks      *markReader
	causes     *causeFinder
	events     *eventReader
	sessions   *sessionsPage
	queries    chartQueries
	latest     func() Latest // as Options.Latest
	gatherer   prometheus.Gatherer
	log        *slog.Logger
	listed     func(access.Account) []endpoint
}

// An overview is the data of the first page.
type overview struct {
	Figures   []figure
	Events    []Event
	Statement *queryTable   // nil: the server has no statements
	Now       *sessionsData // sessions; nil: none is old enough
	Charts    []template.HTML
	More      string // link to all statements
	Weight    []figure
	Endpoints []endpoint
	Notes     []string
	Marks     []markRow
}

// A figure is a number with its name.
type figure struct {
	Name, Value, Note string
	Bad               bool
}

// An endpoint is a path of the API.
type endpoint struct{ Path, What string }

func (s *overviewPage) load(ctx context.Context, v *view) (any, error) {
	o := &overview{Endpoints: s.listed(v.account)}
	happened := s.events.query(ctx, v)
	marks := s.marks.of(ctx, v)
	o.Marks = markRows(v, marks)
	var top *statements.Top
	if s.statements.all != nil {
		var err error
		q := statements.TopQuery{From: v.span.From, To: v.span.To, Limit: queryRows, Points: chartPoints, Compare: true}
		if top, err = s.statements.of(v).Top(ctx, q); err != nil {
			happened()
			return nil, statementProblem(err)
		}
		s.addStatements(ctx, o, v, top, marks)
	}
	if s.sessions.source != nil {
		if now := s.sessions.rows(v, shownSessions, shownAge); len(now.Running) > 0 {
			now.MayKill = false
			o.Now = now
		}
	}
	o.Events = inOrder(append(o.Events, happened()...))
	o.Figures = s.figures(v, top)
	o.Weight = s.ownWeight()
	return o, nil
}

// addStatements sets the parts that depend on statements.
func (s *overviewPage) addStatements(ctx context.Context, o *overview, v *view, top *statements.Top, marks []markers.Marker) {
	o.Notes = sourceNotes(v, top.Source, top.From, top.To, top.Notes)
	o.More = v.link("/queries")
	all := queryRowsOf(v, top)
	o.Statement = &queryTable{Rows: all[:min(len(all), overviewRows)], Sparks: top.Source != statements.SourceCounters}
	o.Events = statementEvents(v, all, func(i int) whyText { return s.causes.ofRow(ctx, v, top, i, all[i].Rise, marks) })
	if top.Source == statements.SourceCounters {
		return
	}
	over, top := s.statements.fitTop(ctx, v, top)
	ask, lines := s.queries.all(top.Series.Step), chartMarks(marks)
	draw := func(c lineChart) {
		c.From, c.To, c.Times, c.Marks = over.From, over.To, top.Series.Times, lines
		o.Charts = append(o.Charts, c.HTML())
	}
	if all := &top.Series; len(all.Calls) > 0 {
		draw(lineChart{
			ID: "rate", Title: "Statements", Unit: unitRate, Area: true,
			Series: []series{{"statements", all.Calls}},
			PromQL: ask.Calls(),
		})
		draw(lineChart{
			ID: "latency", Title: "Latency", Unit: unitSeconds, Log: true,
			Series: []series{{"p50", called(all.P50, all.Calls)}, {"p99", called(all.P99, all.Calls)}, {"p99.9", called(all.P999, all.Calls)}},
			PromQL: ask.Quantile(0.99),
		})
		if top.Total.Errors > 0 {
			draw(lineChart{
				ID: "errors", Title: "Errors", Unit: unitRate, Area: true,
				Series: []series{{"errors", all.Errors}},
				PromQL: ask.Errors(),
			})
		}
	}
	draw(loadByStatement(top, ask.Top(statements.BySeconds, drawnRows)))
}

// fitTop returns the part of the view's range that charts show, and the statements with points over that part: if the history
// starts within the range, a chart of the whole range would have its points at the edge.
func (s *statementReader) fitTop(ctx context.Context, v *view, top *statements.Top) (span, *statements.Top) {
	over, ok := fitted(v.span, top.From, top.To)
	if !ok || top.Source != statements.SourceSamples {
		return v.span, top
	}
	part, err := s.of(v).Top(ctx, statements.TopQuery{From: over.From, To: over.To, Limit: queryRows, Points: chartPoints})
	if err != nil {
		s.log.Debug("charts are drawn over the whole range", "error", err)
		return v.span, top
	}
	return over, part
}

// loadByStatement returns a stacked chart of the load of the first statements and of all others.
func loadByStatement(top *statements.Top, promql string) lineChart {
	c := lineChart{ID: "load", Title: "Load by statement", Unit: unitLoad, Stacked: true, PromQL: promql}
	others := slices.Clone(top.Series.Load)
	for i := range top.Rows[:min(len(top.Rows), drawnRows)] {
		r := &top.Rows[i]
		name := []rune(statementName(r.Text, r.TextCut, r.Digest))
		if len(name) > maxLegend {
			name = append(name[:maxLegend], '…')
		}
		c.Series = append(c.Series, series{Name: string(name), Values: r.Points})
		for t := range others {
			if t < len(r.Points) && chart.IsNumber(r.Points[t]) {
				others[t] = max(others[t]-r.Points[t], 0)
			}
		}
	}
	if len(others) > 0 && top.Matching > drawnRows {
		c.Series = append(c.Series, series{Name: "others", Values: others})
	}
	return c
}

// maxLegend bounds the text of a statement in the legend of a chart.
const maxLegend = 44

// figures returns the headline values: of the last seconds, if known, and of the time range of the
// page.
func (s *overviewPage) figures(v *view, top *statements.Top) []figure {
	var within statements.Totals
	var length float64
	changed := ""
	if top != nil {
		var comparable bool
		within = top.Total
		if length, comparable = covered(v, top); comparable {
			changed = changeOf(float64(within.Calls), float64(top.Before.Calls)).Text
		} else if top.NoComparison != "" {
			changed = "no comparison: " + top.NoComparison
		}
	}
	if s.latest == nil {
		if top == nil {
			return nil
		}
		return []figure{
			{Name: "Statements", Value: unitRate.write(float64(within.Calls) / length), Note: changed},
			{Name: "p50", Value: duration(within.P50)},
			{Name: "p99", Value: duration(within.P99)},
			{Name: "p99.9", Value: duration(within.P999)},
			{Name: "Errors", Value: unitCount.write(float64(within.Errors)), Bad: within.Errors > 0},
		}
	}
	l := s.latest()
	figures := []figure{
		{Name: "Statements", Value: unitRate.write(l.PerSecond)},
		{Name: "p50", Value: duration(l.P50)},
		{Name: "p99", Value: duration(l.P99)},
		{Name: "p99.9", Value: duration(l.P999)},
		{Name: "Errors", Value: unitRate.write(float64(l.Errors) / max(l.Seconds, 1)), Bad: l.Errors > 0},
		{Name: "Connections", Value: unitCount.write(float64(max(l.Sessions, 0)))},
	}
	if top != nil {
		figures[0].Note = "over this range " + unitRate.write(float64(within.Calls)/length)
		if changed != "" {
			figures[0].Note += ", " + changed
		}
		for i, d := range []time.Duration{within.P50, within.P99, within.P999} {
			figures[i+1].Note = "over this range " + duration(d)
		}
		figures[4].Note = "over this range " + unitCount.write(float64(within.Errors))
	}
	return figures
}

// ownWeight returns the resource usage of this process from its own metrics.
func (s *overviewPage) ownWeight() []figure {
	families, err := s.gatherer.Gather()
	if len(families) == 0 {
		s.log.Debug("process metrics unavailable", "error", err)
		return nil
	}
	values := make(map[string]float64, len(families))
	for _, f := range families {
		for _, m := range f.Metric {
			values[f.GetName()] += metricValue(f.GetType(), m)
		}
	}
	var figures []figure
	add := func(name, metric string, u unit) {
		if v, ok := values[metric]; ok {
			figures = append(figures, figure{Name: name, Value: u.write(v)})
		}
	}
	if cpu, ok := values["process_cpu_seconds_total"]; ok {
		f := figure{Name: "CPU", Value: seconds(cpu), Note: "since the start"}
		if n := values["tare_statements_total"]; n > 0 {
			f = figure{Name: "CPU per statement", Value: seconds(cpu / n), Note: seconds(cpu) + " since the start"}
		}
		figures = append(figures, f)
	}
	add("Resident memory", "process_resident_memory_bytes", unitBytes)
	add("Heap in use", "go_memstats_heap_alloc_bytes", unitBytes)
	add("Goroutines", "go_goroutines", unitCount)
	add("Open files", "process_open_fds", unitCount)
	return figures
}

func metricValue(t dto.MetricType, m *dto.Metric) float64 {
	switch t {
	case dto.MetricType_COUNTER:
		return m.GetCounter().GetValue()
	case dto.MetricType_GAUGE:
		return m.GetGauge().GetValue()
	}
	return 0
}
