// Package gatewayclient calls the HTTP API of a gateway, a tare serve: it pauses the gateway's clients, switches them between two
// servers, and reads the latency of their statements.
package gatewayclient
