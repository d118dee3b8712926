// Package testrollup generates rollups for tests, including damaged ones with correct checksums.
package testrollup
