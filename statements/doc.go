// Package statements describes the statements that a gateway has relayed: the top statements by a metric within a time range,
// one statement over time, and the PromQL of the charts that show either.
//
//	stmtstats.Table ──► TableReader: all that was counted; a scrape of the table
//	       │
//	       └──► ArchiveReader ◄── history.Archive
//	              up to 6 hours: samples at both ends of the time, or the table's counters for now
//	              longer: rollups of days, of hours at the ends, and counters less their values at the last full hour
//
// A result names its Source, and its Notes list missing data. A rollup that cannot be read is left out with a note, or replaced
// by its hours if it is a day. Besides the pages, NewHandler serves rankings as JSON and NewScrapeHandler the table as metrics.
//
// A query over a long range never reads all samples: the cost depends on the number of Keys and points, not on the range.
package statements
