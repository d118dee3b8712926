// Package teststore starts store gateways over blocks in directories, and calls their gRPC API, for tests.
package teststore
