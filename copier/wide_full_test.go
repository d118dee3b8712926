//go:build e2e

package copier

// A thousand rows of a MiB and a million of a hundred bytes.
const wideRows, thinRows = 1000, 1_000_000

// hugeRow is the MiB of the row of TestHugeRow.
const hugeRow = 128
