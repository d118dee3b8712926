// Package stmtseries defines the series in which a history stores the counters of statements, and reads their
// samples.
//
//	l := stmtseries.NewLabeller(map[string]string{"instance": "gw1"})
//	l.SetSeries(stmtstats.Tracked, &key, int(stmtseries.Queries))
//	ls := l.Labels() // tare_queries_total{digest="…", …, instance="gw1"}
//
// A Key of stmtstats has one series per Counter, which has its number. A digest has one more series, Info, with its text as a
// label.
//
// A [Range] reads the samples of a storage.Queryable. [Growth] and [SpreadGrowth] compute the increase of
// counters and histograms over them, across evictions and restarts.
package stmtseries
