// Package storepb is the wire format of Thanos' StoreAPI and InfoAPI, version 0.41: messages,
// their marshalling, and the two services.
//
// The .proto files are our own and hold what a store needs. Names and numbers are Thanos', so that
// its queriers take us for one of their stores: package thanos for the StoreAPI, thanos.info for
// the InfoAPI, hintspb for what goes in the fields named hints.
//
//	types.proto   labels, matchers, chunks, series
//	rpc.proto     Store: Series, LabelNames, LabelValues
//	info.proto    Info
//	hints.proto   which blocks to query, which were, and what that cost
//
// The package does not build the answers to Series: they are written as bytes, without these
// messages, by storegateway.
//
// Specification: Protocol Buffers version 3; github.com/thanos-io/thanos v0.41,
// pkg/store/storepb, pkg/store/labelpb, pkg/store/hintspb and pkg/info/infopb.
package storepb

//go:generate ../../.ci/protogen storegateway/storepb
