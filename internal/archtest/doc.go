// Package archtest tests the rules of this project that a general Go linter does not know.
//
// # Terms
//
//   - A room is a section of ARCHITECTURE.md with a table of packages; imports between rooms go down only.
//   - A finding is one violation, with the remedy.
//   - The escape ledger, testdata/escape.txt, lists hot functions and the number of values each may let
//     escape to the heap.
//
// # Data flow
//
//	git ls-files ───┐
//	go list -json ──┼──> Tree ──> checks ──> findings ──> a failing test
//	ARCHITECTURE.md ┘
//	escape.txt + go build -gcflags=-m ─────> findings
//
// The checks themselves are tested on small trees in testdata, each with the expected findings, so that a
// check that stops working is noticed.
//
// # Limits
//
// The imports of test files are not checked: a test may use any package.
package archtest
