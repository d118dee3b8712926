// Package stmtstats counts the calls of each statement digest in memory that outlives the process.
//
// # Terms
//
//   - A key is a digest with the schema, the user and the backend of its calls: they are counted
//     together. Its entry is the counters.
//   - A page is 256 bytes: the buckets of one octave, a power of two of seconds, of one entry,
//     or a part of a text. An entry takes pages as its durations spread.
//   - Other counts the statements that have no entry, Evicted has the totals of entries that
//     were evicted. The sum over these two and all entries is every statement ever
//     observed.
//   - A sample is the counters of an entry at one point in time.
//   - A spread is a histogram as bytes: its buckets that are not empty.
//
// # Data flow
//
//	gateway ─Record─► Table.Observe ──► index ──► entry ──► counters, pages    ┐ one file, shared
//	                        │ a new key, a new octave: under the lock          │ with the kernel
//	                        └──► free entries, free pages; else Other ─────────┘
//	                  Table.Collect ──► samples of changed entries, Other, Evicted, evicted keys
//	                  Table.Scan, Snapshot ──► samples of all entries, beside Collect
//	                  Table.Changes ──► entries that were written to since they were last read
//
// # The table
//
// All counters are in one memory, which is a file's when Options.Dir names a directory:
// the kernel keeps it when the process is killed, and OpenTable continues with it. A statement that was being
// counted may be half in it, at most one per session. Values larger than one store are guarded: an entry exists when its
// state says so, which is stored last; an eviction takes effect with the one store that switches to the new totals; texts
// have checksums. A power loss is not covered: writes that the kernel had not flushed are lost, a table that is
// inconsistent is set aside, and counting starts at 0. No other process may shorten the file: that would end this one.
//
// Writers of an entry exclude no one: they announce themselves in its gate and add to its
// counters. A reader of an entry reads between two writes; an eviction closes the gate and waits until the writers
// inside have left. A lock is taken for a new digest, for a
// duration in an octave that the entry has not seen, and for a call that is one of its slowest.
//
// Durations are counted in the buckets of Prometheus' native histograms of schema 5: each is 2.2 %
// wider than the one before, which is the largest error of a quantile. They start at 0.95 µs
// and end at 36 hours.
//
// The memory is bounded: with the defaults, 20,000 keys in 64 MiB. An entry is 640 bytes, and
// has on average 10 pages; the texts of slow calls have one page in 32. When none are free, new keys are counted in Other;
// the next Collect evicts the keys that were idle the longest, at a bounded rate, so that series do not grow
// without bound. A call in a new octave evicts at once if no page is free.
//
// # What it does not do
//
// It keeps no time axis: a table counts from the first call on. It knows durations from the
// gateway alone, and nothing of statements that bypassed it.
//
// Specification: Prometheus "Native Histograms" (prometheus.io/docs/specs/native_histograms).
package stmtstats
