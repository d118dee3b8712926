// Package archtest tests the rules of this project that a general Go linter does not know.
//
// # Terms
//
//   - A room is a section of ARCHITECTURE.md with a table of packages; imports between rooms go down only.
//   - A finding is one violation, with the remedy.
//   - A ledger lists what is permitted, with the reason: testdata/exceptions.txt has functions that a rule on code does not concern,
//     testdata/escape.txt the hot functions and the number of values each may let escape to the heap.
//
// # Data flow
//
//	git ls-files, go list -json ──> Tree ──> checks, with the pages and ledgers ──> findings ──> a failing test
//
// The checks are tested on small trees in testdata, each with its findings.
//
// # Limits
//
// The imports of test files are not checked: a test may use any package. Rules on code know names, not types.
package archtest
