// Package panics keeps a panic within the request that caused it.
//
// A goroutine that works for a request returns its panic as an *Error, with the stack, to the
// request. The Reporter's middleware for HTTP and gRPC recovers what reaches a handler: it logs
// the panic as an error with its stack, counts it, and fails that request alone.
package panics
