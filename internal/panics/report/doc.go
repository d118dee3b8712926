// Package report logs and counts the panics of requests.
//
// A Reporter's middleware for HTTP and gRPC recovers panics that reach a handler: it logs them as errors with the
// stack, counts them, and fails only that request.
package report
