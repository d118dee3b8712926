// Package statements describes the statements that a gateway has relayed: those that had the most of something within a time,
// one of them over time, and the PromQL of the charts that show either.
//
//	stmtstats.Table ──► TableReader: all that was counted; a scrape of the table
//	       │
//	       └──► ArchiveReader ◄── history.Archive
//	              up to 6 hours: samples at both ends of the time, or the table's counters for now
//	              longer: rollups of days, of hours at the ends, and counters less their values at the last full hour
//
// An answer names its Source and, in Notes, what is missing from it: a rollup that cannot be read is left out with a note, a
// day for its hours. Beside pages, NewHandler serves rankings as JSON and NewScrapeHandler the table as metrics.
//
// All samples of a long time are never read: the cost depends on the number of Keys and of points, not on the length of the time.
package statements
