// Package dump writes tables of a MySQL-compatible server to a directory or S3 bucket, as of one point in time, and serves them from there
// as a source of copies. Package copier passes it the rows to write as it does to a server, and loads a dump as it copies from one.
//
//	w, err := dump.Prepare(ctx, dump.Options{From: server, Tables: specs, To: dump.Destination{Bucket: bucket}})
//	err = w.Begin(ctx, snapshot)
//	…
//	err = w.NewChunks(snapshot.Reader(0)).Write(ctx, table, chunk, read)
//	…
//	report, err := w.Finish(ctx)
//
//	d, err := dump.Open(ctx, dump.Destination{Bucket: bucket})
//	view, err := d.Snapshot(ctx, 4, nil)
//
// # Files
//
//	manifest.json                            everything about the dump, written last
//	manifest.partial.json                    the same of an unfinished dump, from time to time
//	tables/shop.orders/schema.sql            CREATE TABLE
//	tables/shop.orders/00000000-1f2e….zst    rows of one chunk, as text for LOAD DATA, zstd
//
// # Terms
//
//   - A chunk is a range of a table's key. Its rows are in no file, in one, or in several of about MaxFileBytes each.
//   - The manifest has the size and the SHA-256 of each file, the bounds and the checksum of the rows of each chunk, the objects of the
//     schemas, and the position of the source's binary log. It contains its own SHA-256.
//   - A run is one process that writes a dump. The names of its files contain its token, so that no run overwrites the files of another.
//
// # Data flow
//
//	rowstream.ViewReader ──> Batch ──> checksum
//	                           └─────> AppendLoad ──> zstd ──> buffer ──SHA-256──> Bucket.Upload ──> manifest
//	Bucket.Get ──> buffer ──SHA-256──> zstd ──> ParseLoad ──> Batch ──> copier
//
// # Completeness
//
// A dump without manifest.json is unfinished, and Open refuses it. All rows are of one snapshot, also if a dump was interrupted: the run
// that resumes it takes another snapshot, has the source sum up each chunk that is there already, and reads those again whose rows have
// changed, or whose files are missing or damaged. Definitions are compared before and after the rows are read.
//
// Open and its readers refuse files that are missing, truncated, changed or of another dump. No row of a file is passed on before the
// SHA-256 of the whole file was compared.
//
// # Costs
//
// Neither reading nor writing allocates per row. A worker keeps at most 2 × MaxFileBytes for the file, 16 MiB for compression, and three times the
// widest row; when it is loaded, up to six times, if each of its bytes is escaped. The manifest takes about 1 KiB of memory per chunk.
//
// # Limits
//
// Dumps contain no accounts, privileges or passwords. A dump has no binary log, and cannot be followed.
package dump
