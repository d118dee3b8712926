// Package plancache is a plan cache as it is written first, and as the three fixes of
// vitessio/vitess#8804 change it, one by one. It is there to be compared with packages sqlplan
// and bytecache of the main module.
//
// A plan is what a sharding proxy keeps of a statement: its tables and columns, and for an
// INSERT each row as a text of its own. The cache is a map and a list, bounded by the sizes
// that plans say they have.
package plancache
