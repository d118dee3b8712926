// Package alloctest runs a package's allocation table: the operations that promise a
// number of heap allocations, measured a thousand at a time, each proving that it worked.
package alloctest
