// Package alloctest holds operations to a number of heap allocations.
package alloctest
