// Package web serves the HTTP side of Tare's servers: metrics, health, profiles, the query
// log and the live figures. It takes interfaces and knows no protocol but HTTP.
//
//	/                 what there is
//	/metrics          Prometheus' text format
//	/-/healthy        200 as long as the process answers
//	/-/ready          200 when the service can do its work, 503 and the reason otherwise
//	/api/v1/live      the last 10 seconds as JSON
//	/debug/querylog   the query log as a stream
//	/debug/pprof/     Go's profiles
//
// A server has further pages of its own: its Routes.
package web
