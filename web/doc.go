// Package web serves HTTP for Tare's servers: pages, metrics, health, profiles, the query log and live
// values. It depends on interfaces and knows no protocol but HTTP.
//
// Fill Options with the sources that a server has, and serve:
//
//	server := web.New(web.Options{
//		Title: "tare serve", Gatherer: registry, Statements: archive, Gate: gate, Log: log,
//		Routes: []web.Route{web.NewRoute(access.For(access.Viewer), "GET /api/v1/query", api)},
//	})
//	return server.Serve(listener)
//
// A server has these paths and those of its Routes:
//
//	/                 pages, see below
//	/assets/          their style sheet and scripts
//	/metrics          Prometheus' text format
//	/-/healthy        200 as long as the process responds
//	/-/ready          200 if the service is ready, 503 and the reason otherwise
//	/api/v1/live      the last 10 seconds as JSON
//	/debug/querylog   the query log as a stream
//	/debug/pprof/     Go's profiles
//
// # Pages
//
// A page is one Go file, which collects its data, and one template of the same name, which displays them
// inside the layout. The table in parts.go lists all routes. Without the Option that provides its data, a page and the links
// to it do not exist. The server renders everything: charts are SVG with a description and a table of their
// values, and scripts only enhance them. The time range of a page is in its URL.
//
//	request ──> access.Gate: the Route's Need ──> pageCache.page ──> template ──> layout
//	                                                 └── the response is reused for a second
//
// # Costs
//
// Nothing is rendered without a request, and equal requests within a second share a rendering. The templates
// take about 1.4 MB from the first page on, cached pages at most 8 MiB.
//
// # Limits
//
// The package stores no values: it queries them. Package access manages accounts and their roles,
// exporter-toolkit TLS.
package web
