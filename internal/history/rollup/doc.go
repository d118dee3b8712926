// Package rollup stores the counts of statements per hour and day: the file format, the store of a directory
// and the files in a bucket.
//
//	text, err := (&rollup.Rollup{Start: hour, Span: rollup.Hour, Rows: rows}).Encode()
//	f, err := rollup.Open(bytes.NewReader(text), int64(len(text)))
//	up, err := f.Read(&decoder)
//
// A rollup has one row per Key that was called in its hour, and one row each for Other and Evicted. A [Store]
// derives hours through an [HourSource] once no sample can be added to them any more, merges the hours of a
// day, ships both to a bucket and deletes old files. It keeps no other state: a killed process derives the
// same files again.
//
//	HourSource ──► Store: hour ──┐ each day ──► day
//	                             └──► bucket: rollups/HASH OF LABELS/EPOCH/…, once, compared
//
// A file has a header, columns, a footer with a CRC-32C for each 16 KiB of each column, and a tail. Rows are
// sorted by their prints, 16 bytes of the SHA-256 of the Key, so that a ranking merges all files and drops a
// Key once it has ranked it: it reads the prints and one measure of all rows, and the other columns only of
// the rows that it returns. The sums over all rows are stored. A page whose checksum does not match is never
// returned.
//
// Durations are histograms without their empty buckets, as encoded by stmtstats.Histogram.AppendSpread. Rows
// beyond MaxRows count as Other, those of the least time first. Columns have names: a file with fewer or other counters is read.
package rollup
