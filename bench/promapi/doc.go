// Package promapi compares the project's package promapi with Prometheus' own API handler (web/api/v1): the
// same storage, the same requests, equal bytes.
//
// It is in a separate module because that handler depends on scraping, rules, alerting and remote write.
//
// # Differences
//
// Bodies, status codes and headers are equal byte for byte, with two exceptions: the order of warnings, which
// is map order in Prometheus and sorted in package promapi; and the deviations in TestDeviations, where
// package promapi is stricter on purpose.
//
// Both handlers share one engine, which evaluates a query once and returns the same result to the second
// handler if it passes the same arguments: the engine itself returns some results in map order, and timings
// vary.
//
// # The store
//
// TestStoreSameAsPrometheus compares more: tare store's API over a bucket, with its own reader, selects and
// merge, against Prometheus' handler over its own TSDB with the same blocks, each with a separate engine.
package promapi
