// Package follow keeps the tables of a copy current: it reads the changes of their source from its binary log, and applies
// them to the target.
//
// A Follower reads batches of changes, which the applier, a pure core, turns into statements for its writers. A Heart proves how far
// the target is behind: it writes heartbeats to the source, and all that was committed there before one of them is in the target when
// that heartbeat has come through the log. Package copier has the reasons why applying changes leaves the source's rows.
package follow
