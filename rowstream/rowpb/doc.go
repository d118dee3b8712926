// Package rowpb is the wire format between tare rowstream, which reads tables beside their
// server, and those that copy them from elsewhere: messages, their marshalling, the service.
//
// A Batch carries rows as the text protocol of MySQL sends them, back to back: nothing is
// converted on either side.
//
// Specification: Protocol Buffers version 3; rows.proto.
package rowpb

//go:generate ../../.ci/protogen rowstream/rowpb
