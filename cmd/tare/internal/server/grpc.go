package server

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// MaxGRPCConnections bounds the connections of a gRPC listener; one client address may have half.
const MaxGRPCConnections = 256

// GRPCLimits returns the limits of what a gRPC client can hold before its call is admitted: the time of a
// handshake, the bytes of headers and of a request, and an unreachable peer's connection.
func GRPCLimits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.MaxRecvMsgSize(1 << 20),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
}
