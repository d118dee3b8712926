//go:build !e2e

package wire

// wideRows is what `make test` has time for; wide_full_test.go has what `make e2e` has.
var wideRows = wideTable{wide: 30, narrow: 200_000}
