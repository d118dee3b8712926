// Package testactive makes answers to the question which series are live, as the benchmark of
// mimir#7665 has them: for tests and benchmarks of several packages.
package testactive
