// Command mutants changes one place of a package at a time, and reports the changes that no test notices.
//
//	go run ./internal/mutants -n 12 -seed 7 ./internal/mysql/sqlplan ./move/copier/...
//
// A mutant is one change of the source: a condition that is negated or shifted by one, a statement that is left out, an error that is
// not returned. The places are chosen by the seed, evenly over the kinds of change. A mutant that does not compile is replaced by another
// one. The package's own short tests run first, then those of the packages that import it, the shortest first; a mutant that a test fails
// for, or that does not end in time, is killed. Only tests that reach the mutant's line run: each test runs once alone, with coverage, and
// what it reaches, with the processes of its program that it starts, is recorded beside the -state. With -own, importers are left for a
// later run with the same -state. Sources are never changed: the compiler reads the mutants from an overlay.
//
// Survivors are printed with the file, the line and the change. One that changes no behavior is listed in equivalent.txt with the reason.
//
// # File map
//
//	main.go     flags, packages, the table of results
//	mutate.go   the places of a file and their changes
//	reach.go    which tests reach a line
//	run.go      tests with a mutant
package main
