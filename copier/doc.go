// Package copier moves tables between MySQL-compatible servers: in chunks along their keys,
// by several workers, resumable after kill -9 without losing or doubling a row.
//
// # Terms
//
//   - A chunk is a range of a table's key; it is written in one transaction.
//   - The state records the progress of a copy in the target: the chunks that were cut, and those that are
//     copied. A chunk is recorded in the transaction that writes its rows (package state).
//   - A worker has one connection of the source's snapshot and one to the target. Where changes are followed, it reads through
//     separate views instead, which are later than the snapshot and live for Options.MaxViewAge at most.
//   - A lease is a run's exclusive right to write to its target tables: named locks that one session
//     holds, and an epoch, a random token that every transaction checks before it commits.
//   - The machine is the pure core: it decides the next step of each worker.
//   - The applier is the pure core of following: it turns changes into statements.
//   - A follower reads changes and has writers apply them, and measures its lag.
//   - A cutover moves a gateway's clients from the source to the target; a machine is
//     its pure core. The reverse stream applies their changes of the target to the source.
//   - A redefinition is the definition by which a followed table is resumed that was altered on the source.
//   - A control socket reports the status of a running copy, and changes its limits.
//
// Below this package, follow applies changes, verify compares rows and cutover switches clients. All of them use state, which writes the
// target, tabledef, which describes the tables, and telemetry, which has the events and the status. Package throttle slows them down.
//
// # Data flow
//
//	describe both sides ──> refuse what would not come out equal ──> state ──> snapshot
//
//	          ┌── machine: cut, copy, indexes ──┐
//	source ──> worker: rowstream.Batch ──> LOAD DATA text ──> target
//	                                   one transaction: rows + copy_chunk.copied
//
//	source ──> binlog.Changes ──> applier: REPLACE, DELETE ──> writers ──> target
//	                                   one transaction: changes + copy_follow.position
//
// # Why following leaves the source's rows
//
// A table's changes are applied after its last chunk and its indexes, in the log's order, from a
// position P at or before each snapshot or view that a row of it was read from. When the target has
// reached Q, behind all of those, then for each key:
//
//   - Some change between P and Q has the key in an image. The last of them put the source's row
//     there (REPLACE with its after image) or removed it (DELETE by its before image's key). No
//     later change undoes that: a later REPLACE removes rows with its own key or with one of its
//     unique values only, and the source, which held both rows at that moment, has no two such.
//   - No change has it. Then the source's row was the same all the time from P to Q, and that is the one
//     that its chunk brought. No REPLACE removes it, for the same reason.
//
// Nothing in this depends on what the target held at P, so changes may be applied again from an older
// position: after a crash, and where several writers came differently far. It needs that the
// target has no unique key that the source has not, no triggers, and no foreign keys that act: such
// unique keys and triggers are refused, and changes are applied with foreign_key_checks = 0. What the source's
// foreign keys do to rows must be in its log, or follow from it: see below. A row of one chunk may push out a row of another that was read from an older snapshot: that
// row has changed since, and its change is yet to be applied.
//
// # Why views can be short
//
// The reasoning above is about each key alone: it does not need rows of one run, of one chunk or of one statement to be of the
// same moment. So a run that follows takes one snapshot for its position P, closes it, and reads each piece of a chunk through
// whatever view its worker has then. The source keeps undo log and metadata locks no longer than a view lives. The invariants:
//
//   - Each view is at or after P. Views are of the server that the snapshot was of (rowstream.View.Identity), and changes committed
//     there once are seen by all later views. Their positions need not be known, no lock is taken for them, and no
//     watermark is written: P is the only position.
//   - Every change behind P is applied, in the log's order, whatever the view of its row has seen.
//   - Rows of a table have one form. A view holds the table's metadata lock before the definition is compared with the described
//     one, so that no row is read in another form. An ALTER between two views is in the log behind P: reading the
//     log stops there.
//   - An XA transaction that is prepared while a view is taken was prepared behind P, so that its rows are in the log to be read.
//   - A chunk and its record in the state are one transaction, through however many views the chunk was read.
//   - A run reads rows up to the last key that its snapshot had, and nothing of a table that was empty then (rowbound.go). A key
//     that no change between P and Q has is in every state between them, hence in that snapshot, hence not after its last
//     key. All other keys are in the log behind P. So this holds for the snapshot of any run, and whatever has
//     happened to that last row since.
//   - Before Q the target is no state of the source: caught up means behind all views, as it is measured after the last of them.
//
// DBLog skips the changes that a chunk's view has seen, which is right where chunks are written between the changes. Here chunks
// come first, and skipping would lose rows. Chunk 1 is read at 10, and has a; chunk 2 is read at 20, and has b with u = 5:
//
//	11: a gets u = 5    12: a gets u = 6    13: b is inserted with u = 5
//
// Applying 11 replaces b, by its unique value. Only applying 13, which the view of chunk 2 has seen, brings b back.
// views_model_test.go plays this, and other departures from the above, each of which loses rows.
//
// # Why the changes of foreign keys can be derived
//
// Most servers do not log what ON DELETE CASCADE and ON DELETE SET NULL do to the rows of a table, the children, when a row of
// another one, a parent, is deleted. Where both tables are followed, the deletion in the log stands for it: it becomes a statement that
// deletes the children with the parent's values, or sets their columns to NULL, in its place among the changes of the children. It
// depends on the values of the parent alone, which are in the log, and on no row of the parents' table.
//
// That leaves the source's children, for each key of a child:
//
//   - Some change between P and Q has the key in an image. After the last of them the target has the source's row. From there on the
//     same deletions meet the same row on both sides.
//   - No change has it. Then only foreign keys have changed the source's row: columns became NULL, or the row went. Nothing undid that,
//     so a row that a view has seen with a parent's values had them at P already. A deletion of that parent between P and the view would
//     have removed them: there was none, and applying the log from P removes nothing that the view has seen. REPLACE does not remove
//     the row for the reason above: the values that the target has of it are values that the source had at that moment.
//
// Other actions lack the last point, so they are refused:
//
//   - ON UPDATE CASCADE gives rows new values that no change of theirs has. Parent 2 is deleted at 11, parent 3 becomes 2 at 12, and a
//     view at 13 reads a child of 2 that was one of 3. Applying 11 deletes it, and nothing brings it back. Keys with that action are
//     followed, and the copy stops where a parent's key changes.
//   - Chains: a deletion by one key makes another one act. The rows that the second one deletes depend on the children in the
//     target. The view of a child is from after its deletion, the view of the child's child from before: applying the deletion finds no child,
//     and leaves the other. A table whose rows refer to each other by ON DELETE CASCADE is a chain.
//   - Keys of one table that share a column, where the order of their actions matters; columns from which others are computed.
//
// cascades_model_test.go plays this, and the refused actions, which lose rows.
//
// # Assumptions
//
// What the proofs rest on, and what enforces it where it can break. Those about the log are enforced by package
// rowstream, the others here.
//
//	about the target
//	one run at a time writes to a table         lease: named locks of one session; lease.check in every
//	                                            transaction, under a shared lock on the epoch's row
//	nothing a dead run has sent takes effect    the next run replaces the epoch under an exclusive lock before
//	after the next one has read the state       it reads; CREATE, TRUNCATE and DROP INDEX are sent by the
//	                                            holder of the named locks alone; ALTER TABLE … ADD INDEX is
//	                                            executed under the index lock, which the next run waits for
//	what was acknowledged is still there        lease.confirm on every new connection: the holder's session
//	                                            lives in this server; otherwise the run starts from the state
//	what was written is what is recorded        change: affected rows, no warnings; bounds, phases and
//	                                            statements are read back in the same transaction
//	a table's chunks cover all of it, once      contiguous: whenever the state is read, and within the
//	                                            transaction that records that a table is indexing or finished
//	a restarted copy is not taken for a copy    the state is deleted before the table is emptied
//	a table holds nothing but the copy's rows   mustBeEmpty before the first run; triggers and unique keys that
//	                                            the source lacks are refused; foreign keys do nothing in the
//	                                            sessions that write
//
//	about the source and its log
//	all changes are in the log, as full rows    checkLog at the start and at each reconnect; statements that
//	                                            change rows stop the copy (binlog/logparse.go)
//	it is the log that was read before          the last heartbeat is read again at each reconnect
//	                                            (binlog/logbeat.go)
//	a group has an end, or was rolled back      gtidList, noEnd, skipCut (binlog/logcut.go)
//	an event is a known one                     unknown types stop the reading
//	rows are decoded by their own definition    copy_definition, schemaStopped; each table's changes start at
//	                                            its own position
//	foreign keys do what is derived of them     flags of each event: a deletion with foreign_key_checks = 0 makes
//	                                            no key act; a row that is written so stops the copy, since its
//	                                            parent may be in a deletion that did not see it, and is logged
//	                                            later (binlog/logcascade.go)
//	the keys are those that were described      an ALTER of one of the tables stops the copy, and none of them is
//	                                            resumed after it; keys are compared after the snapshot
//	a snapshot has no prepared transaction      it waits until XA RECOVER is empty
//	a view is not older than the snapshot       rowstream.View.Identity is compared when a view is taken
//	rows of a chunk have the described form     the definition is compared under the metadata lock of each view
//
// Not checked: a source that has lost commits which were in its log (innodb_flush_log_at_trx_commit and sync_binlog other than 1,
// after a crash of its host) differs from that log; --verify finds it. A row that was written with foreign_key_checks = 0 and committed
// before P, while a transaction under READ COMMITTED that commits after P was deleting its parent, has no event behind P: the copy
// deletes it, as a replica would that starts at P; --verify finds it. Named locks are of one server: the same target must not
// be written through two servers of a cluster at once. The epochs, which are rows, hold there too.
//
// model_test.go plays the assumptions about the target against delayed statements and restarts that lose commits, and leaves
// each one out in turn; delayed_test.go delays statements of real runs.
//
// # Why a cutover loses no statement
//
// Let A be the source and B the target. Clients reach both through one gateway, which has its own proof
// that it is switched as a whole or not at all, and that no command is sent twice.
//
//	lag is small ──> hold ──> A's position p ──> B has reached p ──> freeze ──> B's position q
//	──> note "cutting", q in B ──> switch ──> note "cut" ──> from q: B's log ──> A
//
// The four parts of it:
//
//   - All that clients have written to A is in B when they are switched. While commands are held nobody is
//     within a statement or a transaction, so that p, asked for after the hold was granted, is behind all
//     that was ever acknowledged. The switch is asked for with the hold's token, which the gateway does not
//     take once the hold is over, whatever became slow meanwhile.
//   - All that clients write to B goes back to A. The follower is frozen before q is asked for, and does not go
//     on before the gateway has said that clients are at A: between q and the first client's write, nothing
//     is written to the tables in B.
//   - A's log is not applied over what clients wrote to B. From the note on, A is followed again only after the
//     gateway has said, with no hold left, that they are at A: the token is dead then, and a switch that was
//     under way did not come, nor will. A process that dies leaves the note, which is committed before the
//     switch is asked for, and the next one asks the gateway before it applies anything. The gateway's word
//     survives its own end, since it writes its route down before the first command goes to B. Without a note
//     the clients are at A, or were brought to B by somebody else, which is looked for and refused.
//   - B's log is not applied from a wrong place. A's note of how far B's log has come back is set to q before B
//     notes "reversing", and only then A's note counts. From q or any later place of B's log, following leaves
//     B's rows, for the reason above.
//
// What it takes for granted: all writers go through the gateway; and whoever switches back by hand ends the
// reverse stream first. It looks at the route once a second and stops when that was forgotten.
//
// # What it does not do
//
// Without Options.Follow it does not follow the source's changes: rows that are written there
// while it runs are not copied. It copies no views, routines, triggers, users or privileges. It writes nothing to
// the source, but what a cutover brings back after the switch, and takes no lock there but for the moment of
// the snapshot (package rowstream).
//
// # Specification
//
// MySQL and MariaDB "LOAD DATA", "START TRANSACTION"; the state's tables are described in
// state.go and docs/tasks/move-a-table.md.
package copier
