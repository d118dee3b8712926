// Package rowpb defines the wire format between tare rowstream, which reads tables beside their server, and
// the copies that read from it on other hosts: messages, their marshaling, and the gRPC service. Package
// internal/move/wire is its only user.
//
// A Batch has rows as MySQL's text protocol sends them, concatenated: neither side converts values.
//
// Specification: Protocol Buffers version 3; rows.proto.
package rowpb

//go:generate ../../../.ci/protogen internal/mysql/rowpb
