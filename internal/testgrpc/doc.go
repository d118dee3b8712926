// Package testgrpc serves gRPC servers for tests.
package testgrpc
