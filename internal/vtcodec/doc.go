// Package vtcodec turns gRPC messages into bytes and back by the code that vtprotobuf
// generated for them, into buffers that gRPC uses again.
//
// Specification: google.golang.org/grpc/encoding, CodecV2.
package vtcodec
