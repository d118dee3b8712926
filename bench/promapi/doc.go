// Package promapi compares the project's package promapi with Prometheus' own API handler
// (web/api/v1): the same storage, the same requests, equal bytes.
//
// It is a module of its own because that handler brings scraping, rules, alerting and remote write
// with it.
//
// # What is equal and what is not
//
// Bodies, status codes and headers are equal byte for byte, but for two things: the order of
// warnings, which Prometheus takes from a map and we sort; and the deviations that TestDeviations
// names, where ours is stricter on purpose.
//
// Both handlers share one engine, which evaluates a query once and gives the second handler
// the first one's result if it asks with the same arguments: the engine itself returns some
// results in the order of a map, and no two runs take the same time.
//
// # The store
//
// TestStoreSameAsPrometheus goes further: tare store's API over a bucket, with its own reader,
// selects and merge, against Prometheus' handler over its own TSDB with the same blocks, each with
// an engine of its own.
package promapi
