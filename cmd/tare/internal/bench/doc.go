// Package bench measures costs: it drives a MySQL address with a workload and measures any process meanwhile,
// isolates the query log, and draws the memory of a process during an import. `tare bench` is its command
// line.
//
// Terms: an operation is the unit of a latency measurement, a point select or a whole transaction; a query is
// one statement of it. In a closed loop each thread starts an operation when the previous one has finished;
// in an open loop operations are due at a fixed rate, and latency counts from the due time, so that the
// operations delayed by a stalled server count (coordinated omission). A run is one measured period; several
// runs follow each other under continuous load.
//
//	threads ── operations ──> MySQL address        target process
//	    │                                            │ kernel, /metrics
//	 latencies, counts ──cut at the same moments── readings
//	    └──────────────── Result ────────────────────┘
//	                        │
//	       table · JSON · Go benchmark lines for benchstat
//
// An operation that fails ends the benchmark, except lock conflicts, which are part of the workload, counted,
// and not retried.
//
// Specification: the metrics are defined in docs/reference/bench.md by the names of runtime/metrics; the
// workloads follow sysbench 1.0's oltp_*.lua and the transactions of TPC-C; lines are in the Go benchmark
// data format (golang.org/design/14313-benchmark-format).
package bench
