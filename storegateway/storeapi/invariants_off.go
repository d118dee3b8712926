//go:build !invariants

package storeapi

// invariants has frames that are back in their pool overwritten.
const invariants = false
