// Command tare-demo is the other half of `tare demo`: the embedded engine and the clients
// that work on it. `tare demo` starts it; it is a binary of its own because the engine
// makes every start of a program that links it half a second slower.
//
//	tare-demo engine   [--listen 127.0.0.1:0]    the shop, until SIGTERM or SIGINT
//	tare-demo workload --address HOST:PORT       clients at work, until SIGTERM or SIGINT
//
// Both print JSON lines on stdout: engine one when it is ready, workload one a second and
// one at its end.
//
// # Data flow
//
//	tare demo ──starts──> tare-demo engine   <──MySQL── tare serve <──MySQL── tare-demo workload
//
// # What it does not do
//
// It shows nothing and measures nothing: that is internal/demo, in the process of `tare
// demo`. Its output is for that process.
package main
