//go:build !race

package stmtstats

// racing says that the race detector watches.
const racing = false
