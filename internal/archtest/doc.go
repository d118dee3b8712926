// Package archtest holds the rules of the house as tests: what a linter for all of Go
// cannot know.
//
// # Terms
//
//   - A floor is a number in ARCHITECTURE.md's table of packages; imports go down only.
//   - A finding is one breach, with the remedy.
//   - The escape ledger, testdata/escape.txt, names hot functions and how many values each
//     may let escape to the heap.
//
// # Data flow
//
//	git ls-files ───┐
//	go list -json ──┼──> Tree ──> checks ──> findings ──> a failing test
//	ARCHITECTURE.md ┘
//	escape.txt + go build -gcflags=-m ─────> findings
//
// The checks are themselves tested on small trees in testdata, each with the findings it
// must give, so that none of them can go blind unnoticed.
//
// # What it does not do
//
// It judges no test files' imports: a test may use whatever proves its point.
package archtest
