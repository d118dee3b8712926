// Package history stores the counters of every statement over time: an [Archive] writes the counters of a
// stmtstats.Table as time series to local blocks, ships the blocks to a bucket, and reads both back through
// PromQL. See the example of Archive.
//
// # Terms
//
//   - Key, entry, Other, Evicted and sample are terms of package stmtstats.
//   - A round writes one sample of each Key that was called, and of all other Keys once per minute.
//   - A rollup has the counts of each Key in one hour or day.
//   - An instance is the set of series with one instance label. Another instance starts when the clock is
//     set back by more than ArchiveOptions.MaxAhead.
//
// # The archive
//
//	Table ──► Archive: a round in each interval ──► head and write-ahead log ──► blocks of 2 hours
//	                                                      │                  │ ship, compare, record
//	   PromQL ◄── Queryable ◄── recent: head and blocks ──┘                  ▼
//	                    └────── older, and other instances: storegateway ◄── bucket
//
// An evicted Key gets a staleness marker in the commit in which Evicted includes its totals, and a new series
// gets a 0 at its start. The sum over all digests therefore equals the counted calls at every time.
//
// Blocks in the bucket have Thanos' layout. meta.json is written last, after all other objects were read back
// and compared. Local blocks are deleted when they are old and the gateway serves them from the bucket.
//
// # Active series
//
// [Active] lists the series that received samples recently, from a catalog of the hashes of their labels and
// an activeseries.Tracker with the last call of each entry. Both are updated when they are requested: an
// entry with an unchanged gate was not written to, and costs one cache line. Nothing is done between
// requests, nor in Observe. Updating in Collect instead would hide statements for up to an interval.
//
// # Rollups
//
// When an hour is over and no sample can be added to it, the increase of each Key's samples is written to a
// file. The files of a day are merged into another file. A file can be derived again with the same result:
// samples are the only state that survives a restart. By construction, the sums equal those of PromQL at the
// boundaries of the hour; TestTruth compares them.
//
// The alternative, differences between hourly snapshots of the table, was tested with five hours of bursts,
// kills, full disks and clock changes. Both had all calls. But a difference attributes the calls of a Key
// that is evicted within the hour to Evicted (23 % of all calls at 2,400 evictions per hour; none with
// samples), lacks the calls since the last snapshot if the table is lost, and needs another format. Neither
// can assign the calls of a time without samples to hours.
//
//	samples of an hour ──► hourDeriver ──► hour ──┐ each day ──► day
//	                                               └──► bucket: rollups/HASH OF LABELS/EPOCH/…, once, compared
//
// Package rollup defines the files, package stmtseries the names of series and their samples. Package
// statements reads all of them for pages.
//
// # Limits
//
// The archive does not compact blocks, and deletes from the bucket only as BucketRetention specifies. PromQL
// does not read rollups. When the disk is almost full, writing stops and resumes when there is space; the
// first sample after that includes the calls in between.
package history
