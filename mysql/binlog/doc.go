// Package binlog reads changes of rows from the binary log of a MySQL-compatible server: from a position, in
// the order of the log, each change once. If it cannot read the log further, it stops with the reason.
//
//	d, err := binlog.OpenDirect(ctx, mysqlconn.Config{Addr: "db1:3306", User: "repl", Password: password})
//	table, err := d.Describe(ctx, "shop", "orders")
//	from, err := d.CurrentPosition(ctx)
//	changes, err := d.Follow(ctx, binlog.FollowOptions{From: from, Tables: []*rowstream.Table{table}})
//	for {
//		if err := changes.Next(ctx, &batch); err != nil {
//			return err
//		}
//		// … apply batch.Changes, then record batch.Upto
//	}
//
// # Terms
//
//   - A [Follower] is a server whose tables and log are read: [Direct], or a client of package
//     internal/move/wire.
//   - [Changes] return ChangeBatches of the tables after a Position.
//   - A group is a transaction in the log, or a single statement.
//   - An image is a row before or after a change, in the text of rowstream.Column.ReadExpr.
//   - A heartbeat is a row that a reader writes and finds again in the log.
//
// # Data flow
//
//	event in the connection's buffer ──> logReader: groups, table maps, images ──rowstream.Filter──> ChangeBatch
//
// A logReader interprets the log without I/O: groups, positions, reasons to stop. The files event….go decode
// the events. Images are decoded by the column types in the log and the table's description: MariaDB's log
// has neither column names nor signedness. Anything other than rows with full images, or a change of a
// followed table, stops the reader with a [StopError], before the transaction that contains it.
//
// Few servers log the changes caused by CASCADE and SET NULL of a foreign key. If both tables of the key are
// read, these changes are derived from the deletion of the referenced row (rowstream.Cascade, logcascade.go);
// otherwise CheckFollow refuses the table.
//
// # Costs
//
// Nothing is queued: Next decodes events from the connection's buffer into the caller's batch, of about
// FollowOptions.BatchBytes, without allocations per change once the batch's memory is warm. If Next is not
// called, the server waits (backpressure) or disconnects. Reading then resumes at the same row, by counting the
// rows of the group: each batch has the number of rows of an unfinished group that were read. Rows of prepared
// XA transactions are kept up to FollowOptions.PreparedBytes.
//
// # Limits
//
// A log file may end within a group, after its server was killed. The group is dropped if the log proves that
// it was rolled back; otherwise the reader stops (logcut.go). The assumptions about the log, each with the
// check that enforces it, are listed in package copier.
//
// The package applies no changes (package copier does), stores no log, and does not read values of COMPRESSED
// columns.
//
// # Specification
//
// MySQL "Binlog Event" and MariaDB "Replication Protocol"; package mysqlwire for the packets.
package binlog
