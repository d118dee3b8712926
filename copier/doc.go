// Package copier moves tables between MySQL-compatible servers: in chunks along their keys,
// by several workers, resumable after kill -9 without losing or doubling a row.
//
// # Terms
//
//   - A chunk is a range of a table's key; it is written in one transaction.
//   - The state is what the target knows of a copy: which chunks were cut and which are
//     copied. A chunk is noted in the transaction that writes its rows.
//   - A worker has one connection of the source's snapshot and one to the target.
//   - The machine is the pure core: it decides which worker does what next.
//   - The throttle is another: figures of how others fare go in, the share of full speed that
//     the copy may use comes out. The pacer makes workers obey it.
//   - A control socket tells the status of a copy that runs, and changes its limits.
//
// # Data flow
//
//	describe both sides ──> refuse what would not come out equal ──> state ──> snapshot
//
//	          ┌── machine: cut, copy, indexes ──┐
//	source ──> worker: rowstream.Batch ──> LOAD DATA text ──> target
//	                                   one transaction: rows + copy_chunk.copied
//
// # What it does not do
//
// It does not follow the source's changes: rows that are written there while it runs are not
// copied. It copies no views, routines, triggers, users or privileges. It writes nothing to
// the source and takes no lock there but for the moment of the snapshot (package rowstream).
//
// # Specification
//
// MySQL and MariaDB "LOAD DATA", "START TRANSACTION"; the state's tables are described in
// state.go and docs/copy.md.
package copier
