// Package history keeps the past of every statement: an archive makes series of the counters of stmtstats, in blocks, in
// a bucket.
//
// # Terms
//
//   - A Key, its entry, Other, Evicted and a sample are those of stmtstats.
//   - A rollup is what each Key has counted in one hour or day.
//   - An instance is the series of one instance label. There is another one after the clock was set back by more
//     than ArchiveOptions.MaxAhead.
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
// When an hour is over and no sample can be added to it, the growth of its samples by Key is written to a file; the files of
// a day are merged to one more. A file can be derived again and is the same: no state but the samples survives a restart.
// The sums are by construction what PromQL finds at the boundaries of the hour: TestTruth compares them.
//
// Hourly snapshots of the table, and differences of two, were tried instead. In five hours of bursts, kills, full disks and changes
// of the clock both had all calls. But a difference attributes what a Key has counted to Evicted if it makes room within the hour
// (23 % of all calls at 2,400 evictions an hour; none with samples), lacks the calls since the last snapshot if the table is
// lost, and needs another format. Neither knows which calls of a time without samples belong to which hour.
//
//	samples of an hour ──► hourDeriver ──► hour ──┐ each day ──► day
//	                                               └──► bucket: rollups/HASH OF LABELS/EPOCH/…, once, compared
//
// Package rollup has the files, package stmtseries the names of series and their samples, package statements reads all of it for
// pages.
//
// # What it does not do
//
// The archive compacts no blocks, and deletes from the bucket only as BucketRetention specifies. PromQL does not read rollups.
package history
