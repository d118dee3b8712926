//go:build invariants

package stmtstats

// invariants has samples overwritten when they are no longer valid, and the table's pages and
// entries counted where many have changed.
const invariants = true
