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
//   - Changes are what happened to tables after a Position of the binary log, handed out in
//     ChangeBatches by a Follower.
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
// Nothing that a row touches outlives its batch.
//
// # What it does not do
//
// It writes to no server (package copier does), keeps no log of its own, and
// evaluates no SQL: what a Plan cannot say is pushed into the statement that reads.
//
// # Specification
//
// MySQL "Text Resultset Row", "LOAD DATA Statement", "CRC32()"; package mysqlwire for the
// packets; rowpb/rows.proto for the wire; RFC 6750 for the token.
package rowstream
