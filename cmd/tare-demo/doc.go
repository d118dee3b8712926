// Command tare-demo runs the embedded engine and the clients of `tare demo`, which starts it. It is a
// separate binary because linking the engine slows every start of a program by half a second.
//
//	tare-demo engine   [--listen 127.0.0.1:0]    the shop, until SIGTERM or SIGINT
//	tare-demo workload --address HOST:PORT       clients at work, until SIGTERM or SIGINT
//
// Both print JSON lines on stdout: engine one when it is ready, workload one per second and one at its end.
//
// # Data flow
//
//	tare demo ──starts──> tare-demo engine   <──MySQL── tare serve <──MySQL── tare-demo workload
//
// # Limits
//
// It displays and measures nothing: cmd/internal/demo does, in the process of `tare demo`, for which the output
// is meant.
package main
