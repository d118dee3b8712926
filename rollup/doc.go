// Package rollup stores the counts of statements per hour and day: the file format, the store of a directory and
// the files in a bucket.
//
// A rollup has one row per Key that was called in its hour, and a row each for Other and Evicted. A Store derives
// hours through an HourSource when no sample can be added to them any more, merges the hours of a day, ships both to a
// bucket and deletes old files. It keeps no other state: a process that is killed derives the same files again.
//
//	HourSource ──► Store: hour ──┐ each day ──► day
//	                             └──► bucket: rollups/HASH OF LABELS/EPOCH/…, once, compared
//
// A file is a header, columns, a footer with a CRC-32C for each 16 KiB of each column, and a tail. Rows are in the
// order of their prints, 16 bytes of the SHA-256 of the Key, so that a ranking merges all files and drops a Key when
// it has ranked it: it reads the prints and one measure of all rows, and the rest of the rows that it returns. The sums over
// all rows are stored. Nothing is returned of a page whose checksum does not match.
//
// Durations are histograms without their empty buckets, as stmtstats.Histogram.AppendSpread encodes them. Rows beyond MaxRows
// count as Other, those of the least time first.
package rollup
