// Package chunks loads chunks of a block as it is written first, and as grafana/mimir#3215 found
// it: an object on the heap for each chunk, the bytes of each copied into a slice of a bucketed
// pool, and the chunk passed on as an interface, which puts its slice header on the heap as well. It is there
// to be compared with package tsblock of the main module, and gives the same chunks.
package chunks
