// Package web serves the HTTP side of Tare's servers: pages for people, metrics, health, profiles,
// the query log and the live figures. It takes interfaces and knows no protocol but HTTP.
//
//	/                 pages, see below
//	/assets/          their style and scripts
//	/metrics          Prometheus' text format
//	/-/healthy        200 as long as the process answers
//	/-/ready          200 when the service can do its work, 503 and the reason otherwise
//	/api/v1/live      the last 10 seconds as JSON
//	/debug/querylog   the query log as a stream
//	/debug/pprof/     Go's profiles
//	/weight/runtime/  statsviz' charts of the Go runtime, fed while somebody is connected
//
// A server has further paths of its own: its Routes.
//
// # Pages
//
// A page is one Go file, which makes its data, and one template of the same name, which shows them
// inside the layout. Server.pages lists them; what an Option does not give has no page, and
// no link. The server makes all there is to see: charts are SVG with a description and a table
// of their numbers, and scripts only add to it. The time that a page is about stands in its URL.
//
//	request ──> access.Gate: the Route's Need ──> page.answer ──> template ──> layout
//	                                                 └── the response is reused for a second
//
// Nothing is rendered without a request.
//
// # What it does not do
//
// It keeps no values: it queries them. Accounts and their roles are those of package access, TLS is
// exporter-toolkit's.
package web
