//go:build e2e

package wire_test

import "github.com/taredb/tare/internal/testrows"

// wideRows has 1,000 rows of 1 MiB and 1,000,000 rows of 100 bytes.
var wideRows = testrows.WideTable{Wide: 1000, Narrow: 1_000_000}
