// Package history keeps the past of every statement: a table counts the calls of each digest as
// they happen, and an archive makes series of them, in blocks, in a bucket.
//
// # Terms
//
//   - A key is a digest with the schema, the user and the backend of its calls: what is counted
//     together. Its entry is the counters.
//   - A page is 256 bytes: the buckets of one octave, a power of two of seconds, of one entry,
//     or a part of a text. An entry takes pages as its durations spread.
//   - Other counts the statements that no entry is kept for, Evicted has the totals of entries that
//     made room for others. The sum over these two and all entries is every statement ever
//     observed.
//   - A sample is what is read of an entry at one moment.
//   - A rollup is what each Key has counted in one hour or day.
//   - An instance is the series of one instance label. There is another one after the clock was set back by more
//     than ArchiveOptions.MaxAhead.
//
// # Data flow
//
//	gateway ─Record─► Table.Observe ──► index ──► entry ──► counters, pages    ┐ one file, shared
//	                        │ a new key, a new octave: under the lock          │ with the kernel
//	                        └──► free entries, free pages; else Other ─────────┘
//	                  Table.Collect ──► samples of what has changed, Other, Evicted, gone keys
//
// # The table
//
// All that is counted lies in one memory, which is a file's when Options.Dir names a directory:
// the kernel keeps it when the process is killed, and OpenTable goes on where the process
// was. A statement that was just being counted may be half in it, at most one a session. What
// does not fit in one store is guarded: an entry exists when its state says so, which is
// stored last; an eviction happens with the one store that switches to the new totals; texts
// have checksums. The loss of the machine's power is another matter: what the kernel had not
// written is lost, a table that does not add up is set aside, and counting begins at 0. Nobody
// else may shorten the file: that would end the process.
//
// Writers of an entry exclude nobody: they announce themselves in its gate and add to its
// counters. Who reads an entry does so between two writes, and who evicts one closes the gate
// and waits until those inside have left. A lock is taken for a digest that is new, for a
// duration in an octave that the entry has not seen, and for a call that is one of its slowest.
//
// Durations are counted in the buckets of Prometheus' native histograms of schema 5: each is 2.2 %
// wider than the one before, and so is the error of a quantile at most. They begin at 0.95 µs
// and end at 36 hours.
//
// The memory is bounded: with the defaults, 20,000 keys in 64 MiB. An entry is 640 bytes, and
// has on average 10 pages; the texts of slow calls have one page in 32. When there are no more, new keys are counted in Other; at the next
// Collect those that were idle the longest make room, so many an hour that series do not grow
// without bound. A call in a new octave evicts at once, where there is no free page.
//
// # The archive
//
//	Table ──► Archive: a round in each interval ──► head and write-ahead log ──► blocks of 2 hours
//	                                                      │                  │ ship, compare, note
//	   PromQL ◄── Queryable ◄── own time: head and blocks ┘                  ▼
//	                    └────── older, and other instances: storegateway ◄── bucket
//
// A round is one sample of each key that was called, and of the others once a minute. Keys that made room
// get a stale marker in the commit in which Evicted has their totals, and what begins gets a 0
// at its start; so the sum over digests is what was counted, at every time.
//
// Blocks lie in the bucket as Thanos has them, and meta.json is written when all else was read
// back and is the same. Local blocks go when they are old and the bucket has them.
//
// # Active series
//
// Which series got samples lately is answered by a catalog of the hashes of their labels and an
// activeseries.Tracker of when each entry was called last. Both follow the table when a question is asked: an entry
// whose gate is the same as before was not written to, and is passed over for a line of the cache. Nothing is done while
// nobody asks, nor in Observe. To follow at Collect instead would hide statements for up to an interval.
//
// # Rollups
//
// When an hour is over and no sample can be added to it, its samples are added up by Key to a file, and the files
// of a day to one more. They are made of samples, not of the table: what a sample said stays true, whatever is evicted,
// reset or killed afterwards, so that a file can be made again and is the same, and no state but the samples has to
// survive. It costs a pass over the hour once, and the sums are by construction what PromQL finds at the
// borders of the hour: TestTruth compares them.
//
//	samples of an hour ──► hourDeriver ──► hour ──┐ each day ──► day
//	                                               └──► bucket: rollups/HASH OF LABELS/EPOCH/…, once, compared
//	Top, Statement ◄── up to 6 hours: samples at both ends, or the table's counters for now
//	               ◄── longer: days, hours at the ends, and counters less what they were at the last border
//
// A file (rollup.go has the layout) is a header, columns, a footer with a CRC-32C for each 16 KiB of each column,
// and a tail. Rows stand in the order of their prints, 16 bytes of the SHA-256 of the Key, so that a
// ranking goes through all files at once and forgets a Key when it has valued it: it reads prints and one measure of all rows, and the rest of the rows that it shows. All
// rows together have a total of their own. What cannot be read is left out with a note, a day for
// its hours; nothing is taken from a page whose checksum does not match.
//
// Durations of all rows are kept as spreads: the buckets that are not empty. Rows beyond 100,000
// count as Other, those of the least time first.
//
// # What it does not do
//
// The table keeps no time axis: it counts from the first call on. It knows durations from the
// gateway alone, and nothing of statements that bypassed it. The archive compacts no blocks,
// and deletes from the bucket only as BucketRetention specifies. Rollups are for Top and Statement;
// PromQL does not read them.
//
// Specification: Prometheus "Native Histograms" (prometheus.io/docs/specs/native_histograms).
package history
