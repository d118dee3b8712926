// Package alloctest runs a package's allocation table: operations with a documented number of heap
// allocations, measured in thousands, each verifying its result.
package alloctest
