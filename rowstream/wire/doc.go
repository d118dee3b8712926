// Package wire carries rows and changes of rows from the host of their server to another one: a Service serves a rowstream.Server, or a
// binlog.Follower, over gRPC, and a Remote is its client, with the same interfaces.
//
// A view of a Remote lives as long as the call that asked for it. Changes resume after a lost connection, or another Service's start, at
// the same row, because each batch has the position and the number of rows that it ends at.
//
// # Data flow
//
//	rowstream.Batch ──> gRPC message (its bytes as they are, or one zstd frame) ──> rowstream.Batch, checked
//	binlog.ChangeBatch ──> gRPC message (a layout, its bytes as they are or packed) ──> binlog.ChangeBatch, checked
//
// A stream's window and one batch are in transit; the source waits for the rest. Messages come from another host: each is checked as
// a whole before it is used.
//
// # Specification
//
// rowpb/rows.proto for the messages; RFC 6750 for the token.
package wire
