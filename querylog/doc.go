// Package querylog writes one line for each statement, without allocating, to files,
// standard output, a ring in memory and HTTP readers.
package querylog
