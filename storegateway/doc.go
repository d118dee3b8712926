// Package storegateway serves the series of a bucket's TSDB blocks, within a bound of bytes, to PromQL and package storeapi.
//
// # Data flow
//
//	blocksync: the blocks that are served ────────────────────────────────────────┐
//	                                                                              │
//	query ── gate: bytes of a query ── open: handles of the blocks in its time ───┘
//	           │
//	           └─ per block: postings, series, chunks (tsblock) ── external labels ── merge
//	                                                                              │
//	                                    Queryable, HTTP API, storeapi <───────────┘
//
// # Files
//
// A query is admitted (admission.go, query.go, limits.go, tenantlimits.go), selects series (select.go, stream.go, merge.go,
// relabel.go) and plans their chunks (plan.go). Queryables keep references and load chunks in windows
// (queryable.go, choice.go, selected.go, window.go). httpapi.go serves Prometheus' API of them; package storeapi is
// Thanos'.
package storegateway
