// Command forwarder is the simplest proxy between a client and a server: two goroutines per connection, with
// io.Copy in both directions. It does not interpret the bytes. It is the baseline of the gateway: its costs
// are those of Go and of the kernel.
//
//	forwarder -listen 127.0.0.1:3316 -backend 127.0.0.1:3306
//
// On Linux, io.Copy between two TCP connections is splice(2): the bytes do not pass through user space.
package main
