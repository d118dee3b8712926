//go:build !e2e

package wire_test

import "github.com/taredb/tare/internal/testrows"

// wideRows has sizes that `make test` has time for; wide_full_test.go has those of `make e2e`.
var wideRows = testrows.WideTable{Wide: 30, Narrow: 200_000}
