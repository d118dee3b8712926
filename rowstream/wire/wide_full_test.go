//go:build e2e

package wire

// wideRows is a thousand rows of a MiB and a million of a hundred bytes.
var wideRows = wideTable{wide: 1000, narrow: 1_000_000}
