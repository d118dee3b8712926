// Package bench answers "what does it cost?": it drives a MySQL address with a workload and
// weighs any process meanwhile, isolates the query log, and draws the memory of a process
// during an import. `tare bench` is its command line.
//
// Terms: an operation is what one latency is measured of, a point select or a whole
// transaction; a query is one statement of it. In a closed loop each thread starts an
// operation when the one before has ended; in an open loop operations are due at a fixed
// rate, and latency counts from when one was due, so that a server that stalls is not
// forgiven the operations that it kept waiting (coordinated omission). A run is one
// measured stretch of time; several runs follow each other under load that goes on.
//
//	threads ── operations ──> MySQL address        target process
//	    │                                            │ kernel, /metrics
//	 latencies, counts ──cut at the same moments── readings
//	    └──────────────── Result ────────────────────┘
//	                        │
//	       table · JSON · Go benchmark lines for benchstat
//
// It repairs nothing it measures: an operation that fails ends the benchmark, but for lock
// conflicts, which are part of the workload, counted, and tried no second time.
//
// Specification: the measures are defined in docs/reference/bench.md by the names of runtime/metrics;
// the workloads follow sysbench 1.0's oltp_*.lua and the transactions of TPC-C; lines are
// in the Go benchmark data format (golang.org/design/14313-benchmark-format).
package bench
