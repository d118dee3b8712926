//go:build e2e

package copier_test

// 1,000 rows of 1 MiB and 1,000,000 rows of 100 bytes.
const wideRows, thinRows = 1000, 1_000_000

// hugeRow is the size of the row of TestHugeRow in MiB.
const hugeRow = 128
