// Package storegateway serves the series of TSDB blocks in a bucket, within a memory budget, to PromQL, to
// Prometheus' HTTP API and to package storeapi.
//
// A [Gateway] needs a bucket, a directory for index headers, and a gate that admits queries:
//
//	g, err := storegateway.New(storegateway.Options{Options: blocks, Gate: gate})
//	if err != nil {
//		return err
//	}
//	go g.Run(ctx)
//	queryable := g.Queryable(tenant)
//
// [Gateway.Queryable] serves PromQL engines, [NewHTTPAPI] Prometheus' HTTP API, and [Gateway.Admit] with
// [Query.Select] the series themselves.
//
// # Data flow
//
//	blocksync: the served blocks ─────────────────────────────────────────────────┐
//	                                                                              │
//	query ── gate: bytes of a query ── open: handles of the blocks in its time ───┘
//	           │
//	           └─ per block: postings, series, chunks (tsblock) ── external labels ── merge
//	                                                                              │
//	                                    Queryable, HTTP API, storeapi <───────────┘
//
// # Memory
//
// The gate bounds the bytes of all queries and of each query. A request waits only for admission; an admitted
// query never waits for another. A query that needs more than its quota fails with an error for which
// [isLimit] is true, before it reads chunks that would not fit. Labels are copies; chunks are read into slabs
// that the query owns and are released with it.
//
// # Files
//
// A query is admitted (admission.go, query.go, limits.go, tenantlimits.go), selects series (select.go,
// stream.go, merge.go, relabel.go) and plans their chunks (plan.go). Queryables keep references and load
// chunks in windows (queryable.go, lazyselect.go, selected.go, window.go); of downsampled blocks they read aggregates
// (mixed.go, mixed_iterator.go). httpapi.go serves Prometheus' API of
// them; package storeapi is Thanos'.
package storegateway
