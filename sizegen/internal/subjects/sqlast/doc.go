// Package sqlast contains the syntax tree of Vitess' SQL parser, a large set of types from another module, to
// compare the generated walk's sum with the heap.
//
//	testdata/statements.sql ──► sqlparser ──► Entry ──► CachedSize ──► bytes
//	                                            └──────► runtime.MemStats ──► bytes
//
// An entry is a statement's tree, as in a cache of trees. Its cached_size.go is generated and committed. Only
// tests use the package: Tare caches sqlplan's plans, which contain no tree.
package sqlast
