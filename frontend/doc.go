// Package frontend answers which series are active, by asking many shards at once and merging what
// they answer, checked byte by byte.
//
// # Terms
//
//   - A system is what knows series: a Mimir, a fleet of gateways, one gateway. A replica is one of
//     several addresses of the same system.
//   - A shard is a part of a system's series, by the hash of their labels: i of n. A part of the
//     answer is one shard of one system; it is what one request downstream asks for.
//   - Early is an error before the first byte of the answer went out: it has a status. A late one
//     cannot have a status any more: the body and a trailer tell of it.
//
// # Data flow
//
//	client ── request ──> selector parsed ──> one request a part, all at once
//	                                              │ retried or hedged once, on another replica
//	                      all headers have come <─┘
//	                                              │ any error: its status, and all others cancelled
//	client <── held: 64 KiB ── compressor ── activeseries.Merger <── decompressors <── bodies
//
// Bodies are read by as many goroutines as there are processors, however many shards there are: the
// others wait in the kernel's buffers, where TCP holds their senders back. A client that reads slowly
// holds back all of them. What one request takes is the kernel's buffers for its connections, 64 KiB a
// processor, a decompressor a processor, the held bytes, and MergeBytes where series are told apart
// or counted.
//
// A process that has series of its own, such as a gateway, answers for them by a Frontend made by
// NewLocal: its one system is the process itself, and frontends above may have it as a member.
//
// # What it does not do
//
// It caches nothing, splits no query by time, and evaluates no PromQL: it only parses selectors. It
// does not ask which downstream is healthy before it asks for series.
//
// # Specification
//
//   - Grafana Mimir's HTTP API of April 2026: /api/v1/cardinality/active_series and
//     /api/v1/cardinality/active_native_histogram_metrics, the headers X-Scope-OrgID and
//     Sharding-Control, and the label __query_shard__.
//   - RFC 9110, sections 6.5 (trailers), 8.4 (content codings), 12.4 and 12.5 (negotiation), 15
//     (status codes).
//   - The snappy framing format (google/snappy, framing_format.txt), RFC 1952 (gzip), RFC 8878 (zstd).
package frontend
