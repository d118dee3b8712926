//go:build invariants

package storegateway

// invariants has frames that are back in their pool overwritten.
const invariants = true
