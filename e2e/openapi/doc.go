//go:build e2e

// Package openapi validates the responses of tare's HTTP APIs against docs/reference/openapi.yaml, by libopenapi. Its test
// starts the test of package cmd/tare that records the responses of running servers.
package openapi
