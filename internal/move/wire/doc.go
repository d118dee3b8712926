// Package wire transfers rows and changes of rows from the host of their server to another host: a [Service]
// serves a rowstream.Server, or a binlog.Follower, over gRPC, and a [Remote] is its client, with the same
// interfaces.
//
//	service, err := wire.NewService(wire.ServiceOptions{Server: server, Token: token})
//	err = service.NewServer().Serve(listener)
//
//	remote, err := wire.OpenRemote(ctx, wire.RemoteOptions{Addr: "db1:3319", Token: token, Compression: wire.Zstd})
//	table, err := remote.Describe(ctx, "shop", "orders")
//
// A view of a Remote lives as long as the call that requested it. Changes resume at the same row after a lost
// connection, or after a restart of the Service, because each batch has the position and the number of rows
// at which it ends.
//
// # Data flow
//
//	rowstream.Batch ──> gRPC message (its bytes unchanged, or one zstd frame) ──> rowstream.Batch, checked
//	binlog.ChangeBatch ──> gRPC message (a layout, its bytes unchanged or compressed) ──> binlog.ChangeBatch, checked
//
// # Costs and limits
//
// A stream's window and one batch are in transit; the source waits for the rest. Allocations are per message,
// not per row or change. Messages are untrusted: each is checked completely before it is used. A Plan's Match
// is not transferred.
//
// # Specification
//
// rowpb/rows.proto for the messages; RFC 6750 for the token.
package wire
