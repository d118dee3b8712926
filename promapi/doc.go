// Package promapi is Prometheus' HTTP API, version 1, over any storage.Queryable.
//
// # Terms
//
//   - An endpoint is a path under a prefix, /api/v1 by default.
//   - An answer is a JSON object with status success and data, or with status error, a class
//     of error and its text. Warnings say why data is not all there is; infos what
//     to look at in the query. Both are passed on, never dropped.
//   - A class of error decides the HTTP status: see ErrorType.
//   - The gate is the queue before the storage: so many requests read it at once, so many
//     wait, the others are refused.
//   - Hooks are functions of the owner: Admit lends a request a budget and a tenant, Classify
//     gives errors a class, Explain adds to an answer, Observe hears what became of it.
//
// # Data flow
//
//	request ─► route ─► parameters ─► gate ─► Admit ─► engine ──► Queryable
//	                        │           │       │         │
//	                        └───────────┴───────┴─────────┴──► error: class, status
//	                                                      │
//	        Observe ◄─ gzip, zstd ◄─ buffer of 32 KiB ◄─ encoder ◄─ series, warnings
//
// Parameters are read before a request queues, so what cannot be answered takes no turn. The
// answer to a query is encoded from the engine's result into one buffer that is sent as it
// fills: a float sample allocates nothing, a histogram the iterators over its buckets. Answers whose
// end decides whether they are errors, such as series, are held back until then, within MaxAnswer.
//
// # Same as Prometheus
//
// Status codes, headers, bodies and texts of errors are those of Prometheus v3.15 (module
// v0.315.0). The module bench/promapi compares both with generated requests, byte for byte,
// and lists where this package is stricter: malformed parameters are refused, times must fit in
// milliseconds, and what is not there is said in JSON. Beyond Prometheus are the gate, zstd, the
// field explain and warnings of remote reads, which come in the header or trailer
// X-Query-Warnings.
//
// # What it does not do
//
// It scrapes nothing, evaluates no rules and writes nothing: targets, rules, alerts and metadata are
// answered as by a Prometheus that has none; remote write, administration and search are not
// there. It knows nothing of who asks: authentication stands before it.
//
// # Specification
//
//   - Prometheus' HTTP API: https://prometheus.io/docs/prometheus/latest/querying/api/
//   - Remote read: https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/, and
//     the messages of prompb/remote.proto and prompb/types.proto
//   - Content negotiation: RFC 9110, section 12.5.3
package promapi
