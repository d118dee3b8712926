//go:build invariants

package stmtstats

// invariants enables overwriting samples when they become invalid, and checking the table's pages and entries
// after many changes.
const invariants = true
