// Package promapi serves Prometheus' HTTP API, version 1, over any storage.Queryable.
//
// An [API] is an http.Handler:
//
//	api, err := promapi.New(promapi.Options{Queryable: queryable})
//	if err != nil {
//		return err
//	}
//	mux.Handle("/api/v1/", api)
//
// # Terms
//
//   - An endpoint is a path under a prefix, /api/v1 by default.
//   - A response is a JSON object with status success and data, or with status error, an error type and a
//     text. Warnings are reasons why data may be incomplete; infos point out likely mistakes in the query.
//     Both are always passed on.
//   - An [ErrorType] is the class of an error. It determines the HTTP status.
//   - The gate is the queue in front of the storage: it bounds the requests that read the storage
//     concurrently and those that wait; further requests are refused.
//   - Hooks are functions of the embedding program: Admit reserves memory for a request and selects a tenant,
//     Classify assigns types to errors, Explain adds to a response, Observe is notified of the outcome.
//
// # Data flow
//
//	request ─► route ─► parameters ─► gate ─► Admit ─► engine ──► Queryable
//	                        │           │       │         │
//	                        └───────────┴───────┴─────────┴──► error: type, status
//	                                                      │
//	        Observe ◄─ gzip, zstd ◄─ buffer of 32 KiB ◄─ encoder ◄─ series, warnings
//
// Parameters are parsed before a request queues, so invalid requests take no turn.
//
// # Costs
//
// The response to a query is encoded from the engine's result into one buffer that is sent as it fills: a
// float sample allocates nothing, a histogram only the iterators over its buckets. Responses that may still
// become errors at their end, such as those of series, are buffered until then, up to Options.MaxAnswer.
// Encoded responses wait for slow clients within Options.ResponseBytes.
//
// # Compatibility
//
// Status codes, headers, bodies and error texts are those of Prometheus v3.15 (module v0.315.0). The module
// bench/promapi compares both with generated requests, byte for byte, and lists where this package is
// stricter: it rejects malformed parameters, requires times to fit in milliseconds, and responds to unknown
// paths in JSON. The gate, zstd, the field explain, and warnings of remote reads in the header or trailer
// X-Query-Warnings are additions to Prometheus' API.
//
// # Limits
//
// The package scrapes nothing, evaluates no rules and writes nothing: targets, rules, alerts and metadata are
// served as by a Prometheus that has none; remote write, administration and search do not exist.
// Authentication is left to a handler in front of the API.
//
// # Specification
//
//   - Prometheus' HTTP API: https://prometheus.io/docs/prometheus/latest/querying/api/
//   - Remote read: https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/, and the messages
//     of prompb/remote.proto and prompb/types.proto
//   - Content negotiation: RFC 9110, section 12.5.3
package promapi
