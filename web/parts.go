package web

import (
	"context"
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/move/wire"
)

// A row is one row of the table of routes.
type row struct {
	has bool // whether the server has the route
	Route
}

// table returns the routes of all pages and endpoints, in the order of the navigation and of the list on the front page.
func (s *Server) table() []row {
	o, show := &s.opts, s.pages.route
	viewer, metric := access.For(access.Viewer), access.For(access.Metrics)
	texts, operator := viewer.WithTexts(), access.For(access.Operator)
	changing, profiles := operator.Changing(), operator.WithTexts() // profiles reveal memory: labels, arguments, names, possibly texts
	ownBuild := !slices.ContainsFunc(o.Routes, func(r Route) bool { return r.pattern == buildInfoPattern })

	all := []row{
		{true, show(s.front())},
		{o.Statements != nil, show(page{path: "/queries", title: "Queries", template: "queries", key: "q", load: s.queries})},
		{o.Statements != nil, show(page{path: "/query/{digest}", title: "Query", template: "query", hidden: true, load: s.query})},
		{o.Statements != nil, show(page{path: "/incident/{digest}", title: "Incident", template: "incident", hidden: true, load: s.loadIncident})},
		{o.Sessions != nil, show(page{path: "/sessions", title: "Now", template: "sessions", key: "n", fixed: true, follow: true, load: s.loadSessions})},
		{o.QueryLog != nil && o.LogColumns != nil, show(page{path: "/live", title: "Live", template: "live", key: "l", fixed: true, texts: true, load: s.liveLog})},
		{o.Plans != nil, show(page{path: "/plans", title: "Plan cache", template: "plans", key: "p", fixed: true, follow: true, load: s.loadPlans})},
		{o.Series != nil, show(page{path: "/series", title: "Series", template: "series", key: "s", fixed: true, follow: true, load: s.loadSeries})},
		{s.rangeQueries() != nil, show(page{path: "/promql", title: "PromQL", template: "promql", key: "m", load: s.promql})},
		{o.Copies != nil, show(page{path: "/copies", title: "Copies", template: "copies", key: "c", fixed: true, follow: true, load: s.copies})},
		{o.Store != nil && !storeFirst(o), show(page{path: "/store", title: "Store", template: "store", key: "b", fixed: true, follow: true, load: s.store})},
		{o.Weight != nil, show(page{path: "/weight", title: "Weight", template: "weight", key: "w", fixed: true, follow: true, load: s.weight})},
		{true, NewRoute(viewer, "GET /assets/", http.HandlerFunc(serveAsset))},
	}
	for _, r := range o.Routes {
		all = append(all, row{true, r})
	}
	return append(all, []row{
		{o.Live != nil, NewRoute(viewer, "GET /api/v1/live", s.pages.value(o.Live)).Listed("/api/v1/live", "statements, errors and latency of the last 10 seconds")},
		{o.Plans != nil, NewRoute(texts, "GET /api/v1/plans", http.HandlerFunc(s.plans)).Listed("/api/v1/plans", "the plan cache and its largest plans")},
		{o.QueryLog != nil, NewRoute(texts, "GET /debug/querylog", o.QueryLog).Listed("/debug/querylog", "the query log as a stream")},
		{o.Progress != nil, NewRoute(viewer, "GET /api/v1/progress", http.HandlerFunc(s.serveProgress)).Listed("/api/v1/progress", "progress, rate, lag, lock waits and the p99 of live statements")},
		{ownBuild, NewRoute(viewer, buildInfoPattern, s.pages.value(func() any { return map[string]any{"status": "success", "data": o.Build} }))},
		{o.Sessions != nil, NewRoute(viewer, "GET "+sessionsPath, http.HandlerFunc(s.serveSessions)).Listed(sessionsPath, "sessions within a command or a transaction, and what they wait for")},
		{o.Sessions != nil, NewRoute(changing, "POST "+killPath, http.HandlerFunc(s.serveKill))},
		{o.Sessions != nil, NewRoute(changing, "POST /sessions/kill", http.HandlerFunc(s.killForm))},
		{o.Statements != nil, NewRoute(viewer, "GET /api/v1/incidents/{digest}", s.serveIncident(s.writeIncident))},
		{o.Statements != nil, NewRoute(viewer, "GET /incident/{digest}/card.svg", s.serveIncident(writeCard))},
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
func (s *Server) front() page {
	switch o := &s.opts; {
	case storeFirst(o):
		return page{path: "/", title: "Store", template: "store", key: "b", fixed: true, follow: true, load: s.store}
	case o.Frontend != nil:
		return page{path: "/", title: "Frontend", template: "frontend", key: "f", fixed: true, follow: true, load: s.frontend}
	case o.Progress != nil:
		return page{path: "/", title: "Progress", template: "progress", key: "o", fixed: true, follow: true, load: s.loadProgress}
	case o.Rows != nil:
		return page{path: "/", title: "Row streams", template: "rows", key: "r", fixed: true, follow: true, load: s.rows}
	}
	return page{path: "/", title: "Overview", template: "overview", key: "o", fixed: s.opts.Statements == nil, load: s.overview}
}

// queryPath returns the path of a statement's page, before its digest, or "" if there are none.
func (s *Server) queryPath() string {
	if s.opts.Statements == nil {
		return ""
	}
	return "/query/"
}

// storeFirst reports whether blocks are the server's main component.
func storeFirst(o *Options) bool { return o.Store != nil && o.Plans == nil }

// rowsData is the data of the page.
type rowsData struct {
	wire.ServiceStats
	Packed        float64 // bytes on the wire per byte of rows; -1: none were sent
	PackedChanges float64 // the same for changes

	Endpoints []endpoint
}

func (s *Server) rows(_ context.Context, v *view) (any, error) {
	stats := s.opts.Rows()
	return rowsData{
		ServiceStats: stats, Packed: part(stats.Sent, stats.Bytes), PackedChanges: part(stats.ChangeSent, stats.ChangeBytes), Endpoints: s.router.listed(v.account),
	}, nil
}

// part returns the number of bytes sent per byte, or -1 if there were none.
func part(sent, bytes int64) float64 {
	if bytes == 0 {
		return -1
	}
	return float64(sent) / float64(bytes)
}
