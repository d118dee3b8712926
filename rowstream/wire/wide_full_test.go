//go:build e2e

package wire

// wideRows has 1,000 rows of 1 MiB and 1,000,000 rows of 100 bytes.
var wideRows = wideTable{wide: 1000, narrow: 1_000_000}
