// Package demo is the first minute of a new user: `tare demo` starts an embedded engine, a
// gateway in front of it and clients that work through it, and shows what the gateway sees
// of them and what it costs.
//
// Terms: the engine and the workload are two runs of the binary tare-demo; the gateway is
// `tare serve`, a process of its own, so that its weight is read from it alone. A provoked
// error is one that the workload asks for.
//
//	tare-demo workload ── MySQL ── tare serve ── MySQL ── tare-demo engine
//	        │                        │    │
//	     reports    /debug/querylog ─┘    └─ /metrics and the kernel
//	        │                │                     │
//	        └──────── table of digests ──── weight of the gateway ── terminal, lines or JSON
//
// The processes are started with a parent-death signal and ended by their ids, workload
// first and engine last. The gateway keeps its history in a temporary
// directory, which is removed. Nothing stays behind on disk or on a port.
//
// It does not measure how fast Tare can be: the engine answers some 1,500 statements a
// second, and that is the ceiling here. For figures there is `tare bench`.
//
// Specification: the result of `tare demo --json` is documented in docs/reference/demo.md.
package demo
