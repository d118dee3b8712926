// Package stmtseries names the series in which a history keeps the counters of statements, and reads their samples.
//
// A Key of stmtstats has one series of each Metric, of Errors one of each class. They are numbered: the number of a metric up
// to Errors, whose classes follow. A digest has one more series, with its text as a label.
package stmtseries
