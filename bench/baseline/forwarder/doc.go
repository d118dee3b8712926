// Command forwarder is the plainest way to stand between a client and a server: for each
// connection two goroutines and io.Copy both ways. It knows nothing of what it carries, and
// is there to be compared with the gateway: what it costs is what Go and the kernel cost.
//
//	forwarder -listen 127.0.0.1:3316 -backend 127.0.0.1:3306
//
// io.Copy between two TCP connections is splice(2) on Linux: the bytes do not even pass
// through the program.
package main
