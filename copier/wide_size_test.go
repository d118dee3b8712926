//go:build !e2e

package copier

// What `make test` has time for; wide_full_test.go has what `make e2e` has.
const wideRows, thinRows = 8, 10_000

// hugeRow is the MiB of the row of TestHugeRow.
const hugeRow = 24
