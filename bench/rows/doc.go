// Package rows compares the path of a row from the socket into a protobuf message: Vitess' FetchNext and
// RowToProto3Inplace, as its row streamer uses them, and the stream and batch of the main module.
//
//	go test -run '^$' -bench . -count 6 ./rows | benchstat -col /by -
//
// A server with a prepared response, 10,000 rows of sysbench's table in the text protocol, sends the same
// bytes to both, from memory and over a loopback socket. Vitess logs in over the socket; in memory it starts
// after the login.
//
// # Subjects
//
//   - by=vitess: one packet per row, its values as views in a reused slice, copied into a reused message per
//     row.
//   - by=tare: a row's payload, from the connection's buffer, appended to a reused batch.
//   - by=tare-filtered: the same with a plan, which keeps one shard of one and projects all columns: values
//     as views, a CRC-32 of one of them, and values appended to the batch. Vitess' filter is not part of the
//     comparison.
//   - by=plain: package bench/baseline/rows, without its filter.
//
// Messages contain about 250,000 bytes of rows, as the row streamer's do. With to=messages they are filled
// and reused; with to=wire they are also marshalled, into a reused buffer.
//
// # Limits
//
// It sends nothing over gRPC: command origins measures whole streams, between processes.
package rows
