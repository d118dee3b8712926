// Package storepb defines the wire format of Thanos' StoreAPI and InfoAPI, version 0.41: messages, their
// encoding, and the two gRPC services.
//
// A client passes a connection of grpc.NewClient to [NewStoreClient] or [NewInfoClient]; the messages
// implement proto.Message. They also have the faster methods that vtprotobuf generates (SizeVT, MarshalVT,
// UnmarshalVT), which the package example uses.
//
// The .proto files are written for this project and contain only the fields that a store needs. Names and
// numbers are those of Thanos, so that its queriers accept the server as one of their stores: package thanos
// for the StoreAPI, thanos.info for the InfoAPI, hintspb for the messages in fields named hints.
//
//	types.proto   labels, matchers, chunks, series
//	rpc.proto     Store: Series, LabelNames, LabelValues
//	info.proto    Info
//	hints.proto   blocks to query, blocks queried, and costs
//
// Package storeapi does not build responses to Series from these messages: it encodes them directly.
//
// Specification: Protocol Buffers version 3; github.com/thanos-io/thanos v0.41, pkg/store/storepb,
// pkg/store/labelpb, pkg/store/hintspb and pkg/info/infopb.
package storepb

//go:generate ../../../.ci/protogen internal/store/storepb
