// Package state writes the target of a copy: its rows, and the records of how far the copy is, in transactions that only one run at a
// time may commit.
//
//   - The State is the records, in a schema of the target. A chunk is recorded as copied in the transaction that writes its rows.
//   - A Lease is a run's exclusive right to write to its target tables: named locks that one session
//     holds, and an epoch, a random token that every transaction checks before it commits.
//   - A Writer is a connection that writes chunks, and repeats transactions that were lost.
//
// Package copier has the reasons why that keeps a copy exact.
package state
