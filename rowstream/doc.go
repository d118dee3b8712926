// Package rowstream reads tables of a MySQL-compatible server as batches of rows, from one
// consistent view, in chunks along the key, without garbage per row.
//
// # Terms
//
//   - A row is the payload of a text-protocol row packet: length-encoded values, FB for NULL.
//   - A Batch is rows back to back, bounded in bytes, used again and again.
//   - A Plan filters rows and projects their columns; a Filter applies it in reused storage.
//   - A Server is where tables are read: Direct here, or a client of package wire.
//   - A View is a Server's tables at one point in time; a Reader of it reads one chunk at a time.
//   - A short view is a view of one table that ends at an age limit, no matter what reads it. A ShortReader reads through
//     one after another. Their points in time are unknown, but each is later than all views before it.
//   - A shard is a part of a table by the CRC-32 of one column, which SQL can compute too.
//
// # Data flow
//
//	packet in the connection's buffer ──no plan──> its payload appended to the Batch
//	        └──plan──> views of the values ──Filter──> appended to the Batch
//	for batch, err := range reader.Read(…) { … }
//	Batch ──> AppendLoad ──> LOAD DATA LOCAL      (each value escaped once)
//	      └─> AppendInsert ──> multi-row INSERT
//
// No memory of a row outlives its batch.
//
// # What it does not do
//
// It writes to no server (package copier does), and evaluates no SQL: conditions beyond a Plan belong in the statement that reads.
// It reads no changes: that is the subject of package binlog.
//
// # Specification
//
// MySQL "Text Resultset Row", "LOAD DATA Statement", "CRC32()"; package mysqlwire for the packets.
package rowstream
