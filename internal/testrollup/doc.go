// Package testrollup makes rollups for tests, and damaged ones with correct checksums.
package testrollup
