// Package testactive generates responses of active series, as in the benchmark of mimir#7665, for tests and
// benchmarks of several packages.
package testactive
