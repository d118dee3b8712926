// Package statements describes the statements that a gateway has relayed: the top statements by a measure
// within a time range ([TopQuery]), one statement over time ([StatementQuery]), and the PromQL of the charts
// that show either ([ChartQuery]).
//
//	top, err := statements.TableReader{Table: table}.Top(ctx, statements.TopQuery{
//		From: now.Add(-time.Hour), To: now, By: statements.BySeconds, Limit: 10,
//	})
//
// A [TableReader] reads a stmtstats.Table, which counts from its start. An [ArchiveReader] reads a
// history.Archive, which has a time axis:
//
//	stmtstats.Table ──► TableReader: all counts; a scrape of the table
//	       │
//	       └──► ArchiveReader ◄── history.Archive
//	              up to 6 hours: samples at both ends of the range, or the table's counters for now
//	              longer: rollups of days, of hours at the ends, and counters less their values at the last full hour
//
// A result names its Source, and its Notes list missing data. A rollup that cannot be read is left out with a
// note, or replaced by its hours if it is a day. [NewHandler] serves rankings as JSON, and [NewScrapeHandler]
// the table as metrics.
//
// The cost of a query depends on the number of Keys and points, not on the range: a query over a long range
// never reads all samples. A ranking of rollups holds 16 MiB of columns in memory, 64 MiB if some are read
// from the bucket.
//
// The counters of the table are read by requests only, at most once per second, and kept for a second: a result may end
// that much before the present.
package statements
