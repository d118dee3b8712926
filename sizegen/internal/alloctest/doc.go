// Package alloctest checks the number of heap allocations of operations.
package alloctest
