// Package chunks is a straightforward loader of a block's chunks, in the state that grafana/mimir#3215
// describes: an object on the heap per chunk, the bytes of each copied into a slice of a bucketed pool, and
// the chunk passed as an interface, which moves its slice header to the heap as well. It is the baseline of
// package tsblock of the main module, and returns the same chunks.
package chunks
