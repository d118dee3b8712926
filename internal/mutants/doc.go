// Command mutants changes one place of a package at a time, and reports the changes that no test notices.
//
//	go run ./internal/mutants -n 12 -seed 7 ./internal/mysql/sqlplan ./move/copier/...
//
// A mutant is one change of the source: a condition that is negated or shifted by one, a statement that is left out, an error that is
// not returned. The places are chosen by the seed, evenly over the kinds of change; -kinds restricts them. A mutant that does not compile
// is replaced by another one.
//
// A package is compiled once with all its mutants: each is a copy of its function, which runs if the mutant is selected. The package's own
// short tests run first, a few in one process, and again with each mutant that they reach and that no test has failed for; then likewise
// those of the packages that import it, the shortest first. A mutant that a test fails for, or that does not end in time, is killed.
// Tests for which the time of -own or -importers is too short are counted in the last column. Each process has bounds of time, memory
// and file size. Sources are never changed: the compiler reads the mutants from an overlay. Packages that only tests import are left out.
//
// Survivors are printed with the file, the line and the change. One that changes no behavior is listed in equivalent.txt with the reason.
// With -state, a package whose result is in the file for the same -seed, -n and -kinds is not run again.
//
// # File map
//
//	main.go     flags, packages, the table of results
//	mutate.go   the places of a file and their changes
//	schema.go   sources with all mutants of a package
//	run.go      tests with a mutant
package main
