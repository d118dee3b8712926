// Package rowstream reads tables of a MySQL-compatible server as batches of rows, from one
// consistent view, in chunks along the key, without garbage per row; directly or across a
// wire.
//
// # Terms
//
//   - A row is the payload of a text-protocol row packet: length-encoded values, FB for NULL.
//   - A Batch is rows back to back, bounded in bytes, used again and again.
//   - A Plan filters rows and projects their columns; a Filter applies it in reused storage.
//   - A Server is where tables are read: Direct, or Remote, which asks a Service elsewhere.
//   - A View is a Server's tables as of one moment; a Reader of it reads one chunk at a time.
//     A Remote's view lives as long as the call that asked for it.
//   - A short view is a view of one table that ends at an age limit, no matter what reads it. A ShortReader reads through
//     one after another. It is not known of which moment each of them is, but that each is later than all views before it.
//   - Changes are what happened to tables after a Position of the binary log, handed out in
//     ChangeBatches by a Follower: Direct, or Remote.
//   - A shard is a share of a table by the CRC-32 of one column, which SQL can compute too.
//
// # Data flow
//
//	packet in the connection's buffer ──no plan──> its payload appended to the Batch
//	        └──plan──> views of the values ──Filter──> appended to the Batch
//	Batch ──> gRPC message (its bytes as they are, or one zstd frame) ──> Batch, checked
//	Batch ──> AppendLoad ──> LOAD DATA LOCAL      (each value escaped once)
//	      └─> AppendInsert ──> multi-row INSERT
//
//	event in the connection's buffer ──> logReader: groups, table maps, images ──Filter──> ChangeBatch
//	ChangeBatch ──> gRPC message (a layout, its bytes as they are or packed) ──> ChangeBatch, checked
//
// Nothing that a row touches outlives its batch.
//
// # The binary log
//
// A logReader is the log's meaning without I/O: groups of events (transactions and lone
// statements), positions, what stops the reading; event….go are the events' bytes. Images are
// rows in the text that Column.ReadExpr gives, decoded by what the log says of a column's form and
// the table's description of the rest: MariaDB's log knows neither names nor signs. Whatever is
// not rows with full images, or changes the table, stops the reading with a StopError, before
// the transaction that it is in. What CASCADE and SET NULL of a foreign key do to rows is in few servers' logs. Where both tables of the
// key are read, it is derived from the deletion of the row that is referred to (cascade.go, logcascade.go); otherwise CheckFollow refuses
// the table.
//
// Nothing is queued: events are decoded out of the connection's buffer when Next asks for
// them, and who does not ask makes the server wait, or hang up, after which the reading goes on
// at the very row, by counting the rows of the group. A Remote does the same when its connection
// or its Service was lost: each batch says how many rows of an unfinished group are in it and the
// ones before.
//
// A log file may end within a group, after its server was killed. The group is dropped once the log proves that it was rolled
// back, and stops the reading otherwise (logcut.go). The assumptions about the log, each with the check that enforces it, are
// listed in package copier.
//
// # What it does not do
//
// It writes to no server (package copier does), keeps no log of its own, and evaluates no SQL: what a Plan cannot say is pushed into the
// statement that reads. It does not read values of COMPRESSED columns out of the
// log.
//
// # Specification
//
// MySQL "Text Resultset Row", "LOAD DATA Statement", "CRC32()"; MySQL "Binlog Event" and MariaDB
// "Replication Protocol" for the log; package mysqlwire for the packets; rowpb/rows.proto for
// the wire; RFC 6750 for the token.
package rowstream
