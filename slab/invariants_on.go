//go:build invariants

package slab

// invariants has misuse of handles and quotas panic, and released memory overwritten.
const invariants = true
