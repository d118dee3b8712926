// Package copier moves tables between MySQL-compatible servers. It copies rows in chunks along a key with several
// workers, and optionally follows the source's binary log, verifies the rows, and switches a gateway's clients to
// the target. A copy that was killed resumes without losing or duplicating a row.
//
// # Usage
//
//	report, err := copier.Run(ctx, copier.Options{
//		From:   copier.FromServer(mysqlconn.Config{Addr: "db1:3306", User: "app", Password: fromPassword}),
//		To:     mysqlconn.Config{Addr: "db2:3306", User: "app", Password: toPassword},
//		Tables: []tabledef.Spec{{Schema: "shop", Name: "orders"}},
//		Verify: true,
//	})
//
// Calling [Run] again with the same options resumes an interrupted copy. [Plan] runs the same checks and changes
// nothing. A [Control] polls a running copy over a Unix socket and changes its limits.
//
// # Terms
//
//   - A chunk is a range of a table's key. Its rows are written in one transaction.
//   - The state is the progress of a copy, stored in the target: the chunks that were cut and those that were
//     copied. A chunk is recorded in the transaction that writes its rows (package state).
//   - A run is one attempt at a copy. It drives the phases prepare, rows, follow, verify, hand over and finish, each with its inputs
//     and its result. While changes are followed, verify and hand over take place within follow.
//   - A worker reads through one connection of the source's snapshot and writes over one connection to the target.
//     While changes are followed, it reads through short views instead, which are later than the snapshot and live
//     for at most Options.MaxViewAge.
//   - A reading reads the rows of tables once, for one target or, in a Split, for those of several runs (split_rows.go).
//     A row target is where a worker writes them: one server, the servers of a Split, or the files of a dump. It owns
//     transactions and retries (rowtarget.go).
//   - A lease is a run's exclusive right to write to its target tables: named locks held by one session, and an
//     epoch, a random token that every transaction checks before it commits.
//   - The machine is a pure core, without I/O, that decides the next step of each worker.
//   - The applier is the pure core of following: it turns changes into statements.
//   - A follower reads changes, has writers apply them, and measures its lag.
//   - A cutover moves a gateway's clients from the source to the target. The reverse stream then applies the
//     target's changes to the source.
//   - A redefinition is the definition with which a copy resumes a table that was altered on the source.
//
// Package dump has the files that [Dump] writes in place of a target, and is the source of a copy that loads them.
//
// Package follow applies changes, verify compares rows and cutover switches clients. They share state, which writes
// the target; tabledef, which describes the tables; and telemetry, which defines events and status. Package throttle
// slows all of them down.
//
// # Data flow
//
//	describe both sides ──> refuse tables that cannot be copied exactly ──> state ──> snapshot
//
//	          ┌── machine: cut, copy, indexes ──┐
//	source ──> worker: rowstream.Batch ──> LOAD DATA text ──> target
//	                                   one transaction: rows + copy_chunk.copied
//
//	source ──> binlog.Changes ──> applier: REPLACE, DELETE ──> writers ──> target
//	                                   one transaction: changes + copy_follow.position
//
// # Costs
//
// Each worker uses one connection to each side and keeps one batch of rows and its statement in memory
// (rowstream.DefaultBatchBytes). At most Options.Workers transactions of about Options.ChunkBytes each are open in
// the target. Without Options.Follow the snapshot is open until the last row is read, and the source keeps its undo
// log for that long.
//
// # Limits
//
// Without Options.Follow, rows written to the source during the copy are not copied. Views, routines and triggers
// are copied with whole schemas alone (package inventory), accounts and their privileges on request (package
// accounts). The source receives heartbeats while changes are followed, and the reverse stream after a cutover, and
// no other writes. Its tables are locked only while the snapshot is taken (package rowstream).
//
// # Why following yields the source's rows
//
// A table's changes are applied after its last chunk and its indexes, in the order of the log, from a position P at
// or before each snapshot or view from which its rows were read. Let Q be a position after all of those. When the
// target has reached Q, each key is in one of two cases:
//
//   - A change between P and Q has the key in an image. The last such change put the source's row there (REPLACE
//     with its after image) or removed it (DELETE by its before image's key). No later change undoes that: a later
//     REPLACE removes only rows with its key or with one of its unique values, and the source, which had both rows
//     at that time, has no two such rows.
//   - No change has the key. Then the source's row was the same from P to Q, and the row's chunk contained it. No
//     REPLACE removes it, for the same reason.
//
// The argument does not depend on the target's rows at P. Applying changes is therefore idempotent: they may be
// applied again from an older position after a crash, or when several writers have reached different positions. It
// requires that the target has no unique key that the source lacks, no triggers, and no foreign keys with actions.
// Such unique keys and triggers are refused, and changes are applied with foreign_key_checks = 0. The effects of the
// source's foreign keys must be in its log or be derivable from it, as described below. A row of one chunk may
// displace a row of another chunk that was read from an older view: that row has changed since, and its change is
// still to be applied.
//
// # Why views can be short
//
// The argument above is about each key alone. It does not require the rows of a run, a chunk or a statement to come
// from the same point in time. A run that follows therefore takes one snapshot for its position P, closes it, and
// reads each part of a chunk through the current view of its worker. The source keeps undo log and metadata locks no
// longer than a view lives. The invariants:
//
//   - Each view is at or after P. A view is of the same server as the snapshot (rowstream.View.Identity), and changes
//     committed on a server are visible to all later views. Positions of views are unknown, no lock is taken for
//     them, and no watermark is written: P is the only position.
//   - Every change after P is applied, in the order of the log, whether or not the view of its row contained it.
//   - Rows of a table have one form. A view holds the table's metadata lock before its definition is compared with
//     the described one, so that no row is read in another form. An ALTER between two views is in the log after P,
//     and following stops there.
//   - An XA transaction that is prepared while a view is taken was prepared after P, so its rows are in the log.
//   - A chunk and its record in the state are written in one transaction, however many views the chunk was read from.
//   - A run reads rows up to the last key of its snapshot, and no rows of a table that was empty then (rowbound.go).
//     A key that no change between P and Q has is in every state between them, hence in that snapshot, hence not
//     after its last key. All other keys are in the log after P. This holds for the snapshot of any run, whatever
//     happened to its last row since.
//   - Before Q the target matches no state of the source. It has caught up only when it is past all views, since
//     lag is measured after the last of them.
//
// DBLog skips changes that a chunk's view contains. That is correct where chunks are written between the changes.
// Here chunks come first, and skipping would lose rows. For example, chunk 1 is read at 10 and contains a; chunk 2 is
// read at 20 and contains b with u = 5:
//
//	11: a gets u = 5    12: a gets u = 6    13: b is inserted with u = 5
//
// Applying 11 replaces b because of its unique value. Only applying 13, which the view of chunk 2 contains, restores
// b. views_model_test.go runs this example, and other violations of the invariants, each of which loses rows.
//
// # Why changes by foreign keys can be derived
//
// Most servers do not log the effects of ON DELETE CASCADE and ON DELETE SET NULL on rows of a table (children) when
// a row of another table (the parent) is deleted. Where both tables are followed, the deletion in the log implies
// them. It becomes a statement that deletes the children with the parent's values, or sets their columns to NULL, at
// its position among the changes of the children. The statement depends only on the parent's values, which are in
// the log, and on no row of the parents' table.
//
// For each key of a child, this yields the source's row:
//
//   - A change between P and Q has the key in an image. After the last such change the target has the source's row,
//     and from then on the same deletions affect the same row on both sides.
//   - No change has the key. Then only foreign keys have changed the source's row: columns became NULL, or the row
//     was deleted. Nothing undid that, so a row that a view read with a parent's values had them at P already. A
//     deletion of that parent between P and the view would have removed them, so there was none, and applying the
//     log from P removes nothing that the view has read. REPLACE does not remove the row for the reason above: its
//     values in the target are values that the source had at that time.
//
// Other actions lack the last property, so they are refused:
//
//   - ON UPDATE CASCADE gives rows new values that are in no logged change of the children. Parent 2 is deleted at
//     11, parent 3 becomes 2 at 12, and a view at 13 reads a child of 2 that was a child of 3. Applying 11 deletes
//     it, and no later change restores it. Keys with that action are followed, and the copy stops when a parent's
//     key changes.
//   - Chains: a deletion by one key triggers another. The rows that the second one deletes depend on the children in
//     the target. If the view of a child is later than its deletion and the view of the child's child earlier,
//     applying the deletion finds no child and keeps the child's child. A table whose rows refer to each other by
//     ON DELETE CASCADE is a chain.
//   - Keys of one table that share a column, where the order of their actions matters; and columns from which
//     generated columns are computed.
//
// cascades_model_test.go runs this, and the refused actions, which lose rows.
//
// # Assumptions
//
// The proofs depend on the following assumptions. The right column names the check that enforces each of them.
// Package binlog enforces those about the log, this package and its subpackages the others.
//
//	about the target
//	one run at a time writes to a table         lease: named locks of one session; Lease.Check in every
//	                                            transaction, under a shared lock on the epoch's row
//	no statement of a dead run takes effect     the next run replaces the epoch under an exclusive lock before
//	after the next one has read the state       it reads; CREATE, TRUNCATE and DROP INDEX are sent only by the
//	                                            session with the named locks; ALTER TABLE … ADD INDEX is
//	                                            executed under the index lock, which the next run waits for;
//	                                            so are the statements that create views, routines, triggers,
//	                                            events and accounts
//	no statement of a dead run makes the        the session that does has a named lock, which the next run's
//	source read-only after Begin                Begin waits for
//	acknowledged writes persist                 Lease.Confirm on every new connection: the lease's session
//	                                            is on this server; otherwise the run starts from the state
//	rows were written as sent and recorded      Change: affected rows, no warnings; bounds, phases and
//	                                            statements are read back in the same transaction
//	a table's chunks cover all of it, once      state.Contiguous, whenever the state is read, and in the
//	                                            transaction that starts indexing or finishes
//	an emptied table is not taken for a copy    the state is deleted before the table is emptied
//	a table has only the copy's rows            mustBeEmpty before the first run; triggers and unique keys that
//	                                            the source lacks are refused; foreign keys have no actions in
//	                                            the sessions that write
//
//	about the source and its log
//	all changes are in the log, as full rows    checkLog at the start and at each reconnect; statements that
//	                                            change rows stop the copy (mysql/binlog/logparse.go)
//	the log is the same one after a reconnect   the last heartbeat is read again at each reconnect
//	                                            (mysql/binlog/logbeat.go)
//	an event group is complete or rolled back   gtidList, noEnd, skipCut (mysql/binlog/logcut.go)
//	an event is of a known type                 unknown types stop the reader
//	rows are decoded by their definition        copy_definition, schemaStopped; each table's changes start at
//	                                            its recorded position
//	foreign keys act as derived                 flags of each event: a deletion with foreign_key_checks = 0
//	                                            triggers no action; a row written that way stops the copy, since
//	                                            its parent may be in a deletion that did not see it, and is
//	                                            logged later (mysql/binlog/logcascade.go)
//	foreign keys are those described            an ALTER of one of the tables stops the copy, and none of them
//	                                            is resumed after it; keys are compared after the snapshot
//	a snapshot has no prepared transaction      the snapshot waits up to 10 s until XA RECOVER is empty; a COMMIT of a
//	                                            transaction whose PREPARE was not read, or is before the snapshot of a
//	                                            table that it changed, stops the reader (mysql/binlog/logxa.go)
//	a view is not older than the snapshot       rowstream.View.Identity is compared when a view is taken
//	rows of a chunk have the described form     the definition is compared under the metadata lock of each view
//
// Not checked: a source that lost commits which were in its log (innodb_flush_log_at_trx_commit and sync_binlog other
// than 1, after a crash of its host) differs from that log; Options.Verify detects it. A row that was written with
// foreign_key_checks = 0 and committed before P, while a transaction under READ COMMITTED that commits after P was
// deleting its parent, has no event after P. The copy deletes it, as a replica started at P would; Options.Verify
// detects it. Named locks are local to a server, so the same target must not be written through two servers of a
// cluster at the same time. Epochs are rows and work there too.
//
// model_test.go runs the assumptions about the target against delayed statements and restarts that lose commits, and
// drops each assumption in turn; delayed_test.go delays statements of real runs.
//
// # Why a cutover loses no statement
//
// Let A be the source and B the target. Clients reach both through one gateway. Package gateway proves that it
// switches all clients or none, and that no command is sent twice.
//
//	lag is small ──> pause ──> A's position p ──> B has reached p ──> freeze ──> B's position q
//	──> record "cutting", q in B ──> switch ──> record "cut" ──> from q: B's log ──> A
//
// The proof has four parts:
//
//   - Everything clients have written to A is in B when they are switched. While commands are paused, no client is
//     inside a statement or a transaction, so p, which is read after the pause was granted, is after everything ever
//     acknowledged. The switch is requested with the token of the pause, which the gateway rejects once the pause is
//     over, however slow the steps in between were.
//   - Everything clients write to B is written back to A. The follower is frozen before q is read, and does not
//     resume before the gateway has reported that clients are on A: between q and the first client's write, the
//     tables in B do not change.
//   - A's log is not applied over the clients' writes to B. Once the record exists, A is followed again only after
//     the gateway has reported, with no pause left, that clients are on A: then the token is invalid, and a switch
//     that was in progress did not happen and cannot happen any more. A process that dies leaves the record, which is
//     committed before the switch is requested, and the next one queries the gateway before it applies any change.
//     The gateway's report survives its restart, since it persists its route before the first command is sent to B.
//     Without a record the clients are on A, or an operator moved them to B, which is checked for and refused.
//   - B's log is not applied from a wrong position. The record in A of the position that the reverse stream has
//     reached is set to q before "reversing" is recorded in B, and is used only from then on. From q or any later
//     position of B's log, following yields B's rows, for the reason above.
//
// The proof assumes that all writers Use the gateway, and that an operator who switches clients back by hand stops
// the reverse stream first. The copy polls the route once per second and stops if the clients have been switched.
//
// # Specification
//
// MySQL and MariaDB "LOAD DATA", "START TRANSACTION". The state's tables are described in state.go and
// docs/tasks/move-a-table.md.
package copier
