//go:build !e2e

package copier_test

// Sizes that `make test` has time for; wide_full_test.go has those of `make e2e`.
const wideRows, thinRows = 8, 10_000

// hugeRow is the size of the row of TestHugeRow in MiB.
const hugeRow = 24
