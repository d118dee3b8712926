// Package sqlast holds the syntax tree of Vitess' SQL parser, a large body of types that this
// module did not write, to compare the generated walk's sum with the heap.
//
//	testdata/statements.sql ──► sqlparser ──► Entry ──► CachedSize ──► bytes
//	                                            └──────► runtime.MemStats ──► bytes
//
// An entry is a statement's tree, as a cache of trees would keep it. Its cached_size.go is
// generated and committed. Nothing but tests uses the package: what Tare keeps of a statement
// is sqlplan's plan, in which no tree is left.
package sqlast
