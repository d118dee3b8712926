// Package binlog reads changes of rows from the binary log of a MySQL-compatible server: from a position on, in the log's order, each
// once, or it stops with the reason.
//
// # Terms
//
//   - A Follower is a server whose tables and log are read: Direct here, or a client of package wire.
//   - Changes hand out ChangeBatches of the tables after a Position.
//   - A group is a transaction in the log, or a lone statement.
//   - An image is a row before or after a change, in the text of rowstream.Column.ReadExpr.
//   - A heartbeat is a row that a reader writes and finds again in the log.
//
// # Data flow
//
//	event in the connection's buffer ──> logReader: groups, table maps, images ──rowstream.Filter──> ChangeBatch
//
// A logReader interprets the log without I/O: groups, positions, reasons to stop; event….go decode the events. Images are decoded by
// the column forms in the log and the rest of the table's description: MariaDB's log has neither names nor signs. Anything other than
// rows with full images, or a change of the table, stops the reading with a StopError, before the transaction that it is in. Few
// servers log the changes that CASCADE and SET NULL of a foreign key make. Where both tables of the key are read, these are derived from
// the deletion of the referenced row (rowstream.Cascade, logcascade.go); otherwise CheckFollow refuses the table.
//
// Nothing is queued: events are decoded out of the connection's buffer when Next is called. A reader that does not call it makes the
// server wait, or disconnect; then reading resumes at the same row, by counting the rows of the group: each batch has the number of rows of an
// unfinished group in it and the batches before.
//
// A log file may end within a group, after its server was killed. The group is dropped once the log proves that it was rolled
// back, and stops the reading otherwise (logcut.go). The assumptions about the log, each with the check that enforces it, are
// listed in package copier.
//
// # What it does not do
//
// It applies no changes (package copier does), keeps no log, and does not read values of COMPRESSED columns.
//
// # Specification
//
// MySQL "Binlog Event" and MariaDB "Replication Protocol"; package mysqlwire for the packets.
package binlog
