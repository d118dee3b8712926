//go:build !e2e

package wire

// wideRows has sizes that `make test` has time for; wide_full_test.go has those of `make e2e`.
var wideRows = wideTable{wide: 30, narrow: 200_000}
