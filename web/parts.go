package web

import (
	"context"
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/move/wire"
)

// parts are the components of a server, each with the sources that it reads. A part whose source is nil has no routes.
type parts struct {
	pages *renderer

	overview *overviewPage
	queries  *queriesPage
	query    *queryPage
	incident *incidentPage
	sessions *sessionsPage
	live     *livePage
	plans    *plansPage
	series   *seriesPage
	promql   *promqlPage
	copies   *copiesPage
	progress *progressPage
	store    *storePage
	weight   *weightPage
	frontend *frontendPage
	rows     *rowsPage
}

// newParts composes the parts of a server.
func newParts(o *Options, pages *renderer, routes *router) *parts {
	queryPath := "" // of a statement's page, before its digest; "" if there are none
	if o.Statements != nil {
		queryPath = "/query/"
	}
	s := &parts{
		pages:    pages,
		sessions: &sessionsPage{source: o.Sessions, locks: o.Counts, pages: pages, queryPath: queryPath},
		live:     &livePage{columns: o.LogColumns, queryPath: queryPath},
		series:   &seriesPage{source: o.Series},
		copies:   &copiesPage{source: o.Copies},
		progress: &progressPage{source: o.Progress, pages: pages, listed: routes.listed},
		store:    &storePage{source: o.Store, first: storeFirst(o), listed: routes.listed},
		frontend: &frontendPage{source: o.Frontend, values: o.FrontendValues, listed: routes.listed},
		rows:     &rowsPage{source: o.Rows, listed: routes.listed},
	}
	if o.Weight != nil {
		s.weight = &weightPage{source: o.Weight, weigher: newWeigher(o.Weight.Statements, o.Now())}
	}

	// Statements, the events around them and what explains them.
	statements := &statementReader{all: o.Statements, log: o.Log}
	charts := chartQueries{matchers: o.SeriesMatchers}
	tables := &tableReader{source: o.Markers, planned: o.PlanTables}
	marks := &markReader{source: o.Markers, copies: s.copies}
	locks := &lockReader{counts: o.Counts, tables: tables}
	causes := &causeFinder{statements: statements, tables: tables, locks: locks, plans: o.PlanSource, calls: o.Calls}
	events := &eventReader{ready: o.Ready, server: o.Events, copies: s.copies, locks: locks, mayFollow: routes.mayFollow}

	s.plans = &plansPage{source: o.Plans, texts: statements, pages: pages, queryPath: queryPath}
	s.promql = &promqlPage{
		endpoint: rangeQueries(o.Routes), earliest: o.Earliest, interval: o.Attention.Interval, tags: o.Tags, tenants: storeFirst(o),
		statements: statements, queries: charts, queryPath: queryPath,
	}
	s.queries = &queriesPage{statements: statements, tables: tables, queries: charts, calls: o.Calls, counts: o.Counts, tags: o.Tags}
	s.query = &queryPage{
		statements: statements, tables: tables, marks: marks, locks: locks, causes: causes, queries: charts,
		plans: o.PlanSource, calls: o.Calls, counts: o.Counts,
	}
	s.incident = &incidentPage{query: s.query, pages: pages}
	s.overview = &overviewPage{
		statements: statements, marks: marks, causes: causes, events: events, sessions: s.sessions, queries: charts,
		latest: o.Latest, gatherer: o.Gatherer, log: o.Log, listed: routes.listed,
	}
	return s
}

// A row is one row of the table of routes.
type row struct {
	has bool // whether the server has the route
	Route
}

// table returns the routes of all pages and endpoints, in the order of the navigation and of the list on the front page.
func (s *parts) table(o *Options) []row {
	show := s.pages.route
	viewer, metric := access.For(access.Viewer), access.For(access.Metrics)
	texts, operator := viewer.WithTexts(), access.For(access.Operator)
	changing, profiles := operator.Changing(), operator.WithTexts() // profiles reveal memory: labels, arguments, names, possibly texts
	ownBuild := !slices.ContainsFunc(o.Routes, func(r Route) bool { return r.pattern == buildInfoPattern })

	all := []row{
		{true, show(s.front(o))},
		{o.Statements != nil, show(page{path: "/queries", title: "Queries", template: "queries", key: "q", load: s.queries.load})},
		{o.Statements != nil, show(page{path: "/query/{digest}", title: "Query", template: "query", hidden: true, load: s.query.load})},
		{o.Statements != nil, show(page{path: "/incident/{digest}", title: "Incident", template: "incident", hidden: true, load: s.incident.load})},
		{o.Sessions != nil, show(page{path: "/sessions", title: "Now", template: "sessions", key: "n", fixed: true, follow: true, load: s.sessions.load})},
		{o.QueryLog != nil && o.LogColumns != nil, show(page{path: "/live", title: "Live", template: "live", key: "l", fixed: true, texts: true, load: s.live.load})},
		{o.Plans != nil, show(page{path: "/plans", title: "Plan cache", template: "plans", key: "p", fixed: true, follow: true, load: s.plans.load})},
		{o.Series != nil, show(page{path: "/series", title: "Series", template: "series", key: "s", fixed: true, follow: true, load: s.series.load})},
		{s.promql.endpoint != nil, show(page{path: "/promql", title: "PromQL", template: "promql", key: "m", load: s.promql.load})},
		{o.Copies != nil, show(page{path: "/copies", title: "Copies", template: "copies", key: "c", fixed: true, follow: true, load: s.copies.load})},
		{o.Store != nil && !storeFirst(o), show(page{path: "/store", title: "Store", template: "store", key: "b", fixed: true, follow: true, load: s.store.load})},
		{o.Weight != nil, show(page{path: "/weight", title: "Weight", template: "weight", key: "w", fixed: true, follow: true, load: s.weight.load})},
		{true, NewRoute(viewer, "GET /assets/", http.HandlerFunc(serveAsset))},
	}
	for _, r := range o.Routes {
		all = append(all, row{true, r})
	}
	return append(all, []row{
		{o.Live != nil, NewRoute(viewer, "GET /api/v1/live", s.pages.value(o.Live)).Listed("/api/v1/live", "statements, errors and latency of the last 10 seconds")},
		{o.Plans != nil, NewRoute(texts, "GET /api/v1/plans", http.HandlerFunc(s.plans.serve)).Listed("/api/v1/plans", "the plan cache and its largest plans")},
		{o.QueryLog != nil, NewRoute(texts, "GET /debug/querylog", o.QueryLog).Listed("/debug/querylog", "the query log as a stream")},
		{o.Progress != nil, NewRoute(viewer, "GET /api/v1/progress", http.HandlerFunc(s.progress.serve)).Listed("/api/v1/progress", "progress, rate, lag, lock waits and the p99 of live statements")},
		{ownBuild, NewRoute(viewer, buildInfoPattern, s.pages.value(func() any { return map[string]any{"status": "success", "data": o.Build} }))},
		{o.Sessions != nil, NewRoute(viewer, "GET "+sessionsPath, http.HandlerFunc(s.sessions.serve)).Listed(sessionsPath, "sessions within a command or a transaction, and what they wait for")},
		{o.Sessions != nil, NewRoute(changing, "POST "+killPath, http.HandlerFunc(s.sessions.serveKill))},
		{o.Sessions != nil, NewRoute(changing, "POST /sessions/kill", http.HandlerFunc(s.sessions.killForm))},
		{o.Statements != nil, NewRoute(viewer, "GET /api/v1/incidents/{digest}", s.incident.form(s.incident.writeJSON))},
		{o.Statements != nil, NewRoute(viewer, "GET /incident/{digest}/card.svg", s.incident.form(writeCard))},
		{true, NewRoute(metric, "GET /metrics", metricsOf(o.Gatherer, o.Log)).Listed("/metrics", "metrics in Prometheus' text format")},
		{true, NewRoute(metric, "GET /-/healthy", http.HandlerFunc(healthy)).Listed("/-/healthy", "liveness")},
		{true, NewRoute(metric, "GET /-/ready", readiness(o.Ready)).Listed("/-/ready", "readiness")},
		{true, NewRoute(profiles, "GET /debug/pprof/", http.HandlerFunc(pprof.Index)).Listed("/debug/pprof/", "Go's profiles")},
		{true, NewRoute(profiles, "GET /debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline))},
		{true, NewRoute(profiles, "GET /debug/pprof/profile", http.HandlerFunc(pprof.Profile))},
		{true, NewRoute(profiles, "GET /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))},
		{true, NewRoute(profiles, "POST /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))},
		{true, NewRoute(profiles, "GET /debug/pprof/trace", http.HandlerFunc(pprof.Trace))},
	}...)
}

// front returns the page at /. A server without statements has the page of its main component there.
func (s *parts) front(o *Options) page {
	switch {
	case storeFirst(o):
		return page{path: "/", title: "Store", template: "store", key: "b", fixed: true, follow: true, load: s.store.load}
	case o.Frontend != nil:
		return page{path: "/", title: "Frontend", template: "frontend", key: "f", fixed: true, follow: true, load: s.frontend.load}
	case o.Progress != nil:
		return page{path: "/", title: "Progress", template: "progress", key: "o", fixed: true, follow: true, load: s.progress.load}
	case o.Rows != nil:
		return page{path: "/", title: "Row streams", template: "rows", key: "r", fixed: true, follow: true, load: s.rows.load}
	}
	return page{path: "/", title: "Overview", template: "overview", key: "o", fixed: o.Statements == nil, load: s.overview.load}
}

// storeFirst reports whether blocks are the server's main component.
func storeFirst(o *Options) bool { return o.Store != nil && o.Plans == nil }

// A rowsPage shows the streams of a server of rows.
type rowsPage struct {
	source func() wire.ServiceStats
	listed func(access.Account) []endpoint
}

// rowsData is the data of the page.
type rowsData struct {
	wire.ServiceStats
	Packed        float64 // bytes on the wire per byte of rows; -1: none were sent
	PackedChanges float64 // the same for changes

	Endpoints []endpoint
}

func (s *rowsPage) load(_ context.Context, v *view) (any, error) {
	stats := s.source()
	return rowsData{
		ServiceStats: stats, Packed: part(stats.Sent, stats.Bytes), PackedChanges: part(stats.ChangeSent, stats.ChangeBytes), Endpoints: s.listed(v.account),
	}, nil
}

// part returns the number of bytes sent per byte, or -1 if there were none.
func part(sent, bytes int64) float64 {
	if bytes == 0 {
		return -1
	}
	return float64(sent) / float64(bytes)
}
