// Package plancache is a straightforward plan cache, and the same cache with each of the three fixes of
// vitessio/vitess#8804. It is the baseline of packages sqlplan and bytecache of the main module.
//
// A plan is the data that a sharding proxy keeps for a statement: its tables and columns, and for an INSERT
// each row as a separate text. The cache is a map and a list, bounded by the sizes that plans report.
package plancache
