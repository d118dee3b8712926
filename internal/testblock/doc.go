// Package testblock writes TSDB blocks for tests and benchmarks, by Prometheus' own head and
// compactor, so that what reads them is held to the real format.
//
// # Terms
//
//   - A block is a directory named by its ULID, with meta.json, index, chunks and
//     tombstones, inside the directory that is given: a data directory, or the root of a
//     filesystem bucket.
//   - A shape is one of the regular data sets of store gateways' own benchmarks: so many
//     series of so many samples.
//   - Random series are what a monitored fleet leaves behind: floats, histograms of each
//     kind, gaps, stale markers, with labels that some series lack.
//
// # Data flow
//
//	Shape.Series ─┐
//	Random ───────┼─ Series, one after the other ─> tsdb.Head ─> compactor ─> directory/ULID
//	Between ──────┘                                              meta.json <─ external labels
//
// # What it does not do
//
// It reads no block and uploads none, and it deletes nothing: the directory is the caller's.
package testblock
