// Package httpserver creates the HTTP servers of all subcommands: each refuses the requests of other sites, survives
// panics of its handlers, and has a deadline for the head of a request.
package httpserver
