// Package stmtstats counts the calls of each statement digest in memory that outlives the process: numbers of
// calls, rows, bytes and errors, and a histogram of durations. See the example of Table.
//
// # Terms
//
//   - A Key is a digest with the schema, the user and the backend of its calls. Its calls are counted
//     together in an entry.
//   - A page is 256 bytes: the buckets of one octave, a power of two of seconds, of one entry, or a part of
//     a text. An entry needs more pages as its durations spread.
//   - Other counts the statements without an entry. Evicted has the totals of evicted entries. The sum over
//     these two and all entries is the number of statements ever observed.
//   - A Counter is one of the counters that each entry has: calls, their time, rows, bytes, errors by class. One table
//     describes them for files, series, API and pages.
//   - A sample has the counters of an entry at one point in time.
//   - A spread is a histogram as bytes, without its empty buckets.
//
// # Data flow
//
//	gateway ─Record─► Table.Observe ──► index ──► entry ──► counters, pages    ┐ one file, shared
//	                        │ a new key, a new octave: under the lock          │ with the kernel
//	                        └──► free entries, free pages; else Other ─────────┘
//	                  Table.Collect ──► samples of changed entries, Other, Evicted, evicted keys
//	                  Table.Scan ──► samples of all entries, concurrent with Collect
//	                  Table.Changes ──► entries that were written to since they were last read
//
// # Durability
//
// All counters are in one memory region, which maps a file if Options.Dir names a directory: the kernel keeps
// it when the process is killed, and OpenTable continues with it. A statement that was being counted may be
// partly included, at most one per session. Values larger than one store are guarded: the state of an entry
// is stored last; an eviction takes effect with the single store that switches to the new totals; texts have
// checksums. Power loss is not covered: writes that the kernel had not flushed are lost, an inconsistent
// table is set aside, and counting restarts from 0. No other process may truncate the file, which would end
// this process.
//
// The header has the names of the counters. A file with other counters is read by name, and copied.
//
// # Concurrency
//
// Writers of an entry do not exclude each other: they register in its gate and add to its counters. A reader
// reads an entry between two writes. An eviction closes the gate and waits for the registered writers. A lock
// is taken for a new digest, for a duration in an octave that the entry has not seen, and for a call that is
// one of its slowest.
//
// # Costs
//
// Durations are counted in the buckets of Prometheus' native histograms of schema 5: each is 2.2 % wider than
// the previous one, which is the maximum error of a quantile. They start at 0.95 µs and end at 36 hours.
//
// Memory is bounded: 20,000 Keys in 64 MiB by default. An entry has some 600 bytes, and 10 pages on average; the
// texts of slow calls have one page in 32. If there is no free entry or page, new Keys are counted in Other.
// The next Collect evicts the Keys with the longest idle time, at a bounded rate, so that the cardinality of
// series is bounded. A call in a new octave evicts immediately if no page is free. Observe does not allocate.
//
// # Limits
//
// A table has no time axis: it counts from the first call on. It counts only statements that pass through the
// gateway.
//
// # Specification
//
// Prometheus "Native Histograms" (prometheus.io/docs/specs/native_histograms).
package stmtstats
