// Package rowstream reads tables of a MySQL-compatible server as batches of rows, from one consistent view,
// in chunks along the key, without allocations per row.
//
//	server, err := rowstream.OpenDirect(ctx, mysqlconn.Config{Addr: "db1:3306", User: "app", Password: password})
//	table, err := server.Describe(ctx, "shop", "orders")
//	view, err := server.Snapshot(ctx, 1, []*rowstream.Table{table})
//	reader := view.Reader(0)
//	chunk, err := reader.Cut(ctx, table, 16<<20, rowstream.Chunk{})
//	for batch, err := range reader.Read(ctx, table, chunk, rowstream.ReadOptions{}) {
//		// … batch is valid until the next one
//	}
//
// # Terms
//
//   - A row is the payload of a text-protocol row packet: length-encoded values, FB for NULL.
//   - A [Batch] is a buffer of concatenated rows, bounded in bytes and reused.
//   - A [Plan] filters rows and projects their columns; a [Filter] applies it in reused memory.
//   - A [Server] is a source of tables: [Direct], or a client of package internal/move/wire.
//   - A [View] is a server's tables at one point in time; a [Reader] reads one chunk of it at a time.
//   - A short view is a view of one table that expires at an age limit, whatever uses it. A [ShortReader]
//     reads through consecutive short views. Their points in time are unknown, but each is later than all
//     views before it.
//   - A [Shard] is a part of a table by the CRC-32 of one column, which SQL can compute too.
//
// # Data flow
//
//	packet in the connection's buffer ──no plan──> its payload appended to the Batch
//	        └──plan──> views of the values ──Filter──> appended to the Batch
//	for batch, err := range reader.Read(…) { … }
//	Batch ──> AppendLoad ──> LOAD DATA LOCAL      (each value escaped once)
//	      └─> AppendInsert ──> multi-row INSERT
//
// # Costs
//
// No memory of a row outlives its batch. A reader keeps one batch of ReadOptions.BatchBytes; a row of WideRow
// bytes or more is returned from the connection's buffer. Reading allocates neither per row nor per batch.
//
// # Limits
//
// The package writes to no server (package copier does), and evaluates no SQL: conditions beyond a Plan
// belong in the statement that reads. Package binlog reads changes.
//
// # Specification
//
// MySQL "Text Resultset Row", "LOAD DATA Statement", "CRC32()"; package mysqlwire for the packets.
package rowstream
