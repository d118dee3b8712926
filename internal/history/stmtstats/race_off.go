//go:build !race

package stmtstats

// racing reports whether the race detector is enabled.
const racing = false
