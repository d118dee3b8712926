// Package frontend serves requests for active series: it requests many shards concurrently and merges the
// responses, whose bytes it validates.
//
// A [Frontend] is an http.Handler for the paths of [Patterns]:
//
//	f, err := frontend.New(frontend.Options{Downstreams: urls, Shards: 16, MaxShards: 128, MergeBytes: 64 << 20})
//	if err != nil {
//		return err
//	}
//	for _, pattern := range frontend.Patterns() {
//		mux.Handle(pattern, f)
//	}
//
// # Terms
//
//   - A system stores series: a Mimir, a fleet of gateways, one gateway. A replica is one of several
//     addresses of the same system; a member is one of several systems with different series.
//   - A shard is the part i of n of a system's series, by the hash of their labels. A part of the response is
//     one shard of one system, which one downstream request returns.
//   - An error is early before the first byte of the response was sent: it has a status. A late error has
//     none: it is reported in the body and in a trailer.
//   - A hedge is a second request for a slow shard. The first response is used and the other request is
//     cancelled.
//
// # Data flow
//
//	client ── request ──> selector parsed ──> one request per part, concurrently
//	                                              │ retried or hedged once, on another replica
//	                      all headers received <──┘
//	                                              │ any error: its status, and all others cancelled
//	client <── buffer of 64 KiB ── compressor ── activeseries.Merger <── decompressors <── bodies
//
// # Costs
//
// Bodies are read by one goroutine per CPU, regardless of the number of shards: the others wait in the
// kernel's buffers, where TCP flow control throttles their senders. A slow client throttles all of them. A
// request takes the kernel's buffers of its connections, 64 KiB and a decompressor per CPU, the 64 KiB that
// are buffered before the status is sent, and up to MergeBytes if series are deduplicated or counted.
//
// # A process's own series
//
// A process that has series itself, such as a gateway, serves them by a Frontend of [NewLocal]: its only
// system is the process, and other frontends may have it as a member.
//
// # Limits
//
// The package does not cache, split queries by time, or evaluate PromQL beyond selectors. It does not check
// the health of downstreams before it requests series.
//
// # Specification
//
//   - Grafana Mimir's HTTP API of April 2026: /api/v1/cardinality/active_series and
//     /api/v1/cardinality/active_native_histogram_metrics, the headers X-Scope-OrgID and Sharding-Control,
//     and the label __query_shard__.
//   - RFC 9110, sections 6.5 (trailers), 8.4 (content codings), 12.4 and 12.5 (negotiation), 15 (status
//     codes).
//   - The snappy framing format (google/snappy, framing_format.txt), RFC 1952 (gzip), RFC 8878 (zstd).
package frontend
