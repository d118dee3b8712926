// Package state writes the target of a copy: its rows, and the records of the copy's progress, in
// transactions that only one run at a time can commit. A crash at any time leaves rows and records
// consistent.
//
// [Jobs] lists the copies recorded in a target and is useful on its own:
//
//	jobs, err := state.Jobs(ctx, conn, state.DefaultStateSchema)
//
// The other types are used by copier.Run:
//
//   - A [State] is the set of records, in a separate schema of the target. A chunk is recorded as copied in
//     the transaction that writes its rows.
//   - A [Lease] is a run's exclusive right to write to its target tables: named locks of one session, and
//     an epoch, a random token that every transaction checks before it commits.
//   - A [Writer] is a connection that writes chunks, and repeats transactions that failed with a lost
//     connection or a deadlock.
//   - A [Following] records the position up to which changes are applied.
//
// The tables of the schema are described at [State]. Package copier documents why this keeps a copy exact.
package state
