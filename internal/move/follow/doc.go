// Package follow keeps the tables of a copy current: it reads the changes of the source from its binary log
// and applies them to the target.
//
// copier.Run uses it when copier.Options.Follow is set. [New] returns a [Follower] for the tables of a copy,
// and [Follower.Run] follows until the follower is finished or fails. While it runs, [Follower.Status]
// returns its lag; [Follower.WaitCaughtUp] blocks until the target has caught up once, and [Follower.Freeze]
// stops applying changes for a cutover.
//
// A Follower reads batches of changes. The applier, a pure core without I/O, turns them into statements for
// the writers. A [Heartbeat] measures the lag: it writes heartbeats to the source, and everything committed there
// before a heartbeat was written is in the target once that heartbeat was read from the log and applied. Two
// batches are in memory: one is read while the other is applied.
//
// Package copier documents why applying changes yields the source's rows.
package follow
