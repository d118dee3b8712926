// Package httpserver creates the HTTP servers of all subcommands: each refuses the requests of other sites, survives
// panics of its handlers, bounds the requests in flight, and has deadlines for the head and the body of a request.
package httpserver
