// Package vtcodec encodes and decodes gRPC messages with the code that vtprotobuf generated for them, into
// buffers that gRPC reuses.
//
// Specification: google.golang.org/grpc/encoding, CodecV2.
package vtcodec
