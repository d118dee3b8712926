// Package panics keeps a panic within the request that caused it.
//
// A goroutine that works for a request returns its panic as an *Error, with the stack, to the request. Package
// report logs and counts it.
package panics
