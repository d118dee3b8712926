// Package testblock writes TSDB blocks for tests and benchmarks, by Prometheus' head and compactor, so that
// readers are tested on the real format.
//
// # Terms
//
//   - A block is a directory named by its ULID, with meta.json, index, chunks and tombstones, inside the given
//     directory: a data directory, or the root of a filesystem bucket.
//   - A shape is one of the regular data sets of store gateways' benchmarks: a number of series of a number of
//     samples.
//   - Random series resemble those of a monitored fleet: floats, histograms of each kind, gaps, stale
//     markers, with labels that some series lack.
//
// # Data flow
//
//	Shape.Series ─┐
//	Random ───────┼─ Series, one after the other ─> tsdb.Head ─> compactor ─> directory/ULID
//	Between ──────┘                                              meta.json <─ external labels
//
// # Limits
//
// The package reads no block, uploads none, and deletes nothing: the caller owns the directory.
package testblock
