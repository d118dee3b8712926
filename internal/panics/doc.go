// Package panics keeps a panic within the request that caused it.
//
// A goroutine that works for a request returns its panic as an *Error, with the stack, to the request. The
// Reporter's middleware for HTTP and gRPC recovers panics that reach a handler: it logs them as errors with
// the stack, counts them, and fails only that request.
package panics
