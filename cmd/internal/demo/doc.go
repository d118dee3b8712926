// Package demo implements `tare demo`: it starts an embedded engine, a gateway in front of it and clients
// that use it, and shows the gateway's view of their statements and its cost.
//
// Terms: the engine and the workload are two processes of the binary tare-demo; the gateway is `tare serve`,
// a separate process, so that its cost can be measured separately. A provoked error is one that the workload
// causes deliberately.
//
//	tare-demo workload ── MySQL ── tare serve ── MySQL ── tare-demo engine
//	        │                        │    │
//	     reports    /debug/querylog ─┘    └─ /metrics and the kernel
//	        │                │                     │
//	        └──────── table of digests ──── weight of the gateway ── terminal, lines or JSON
//
// The processes are started with a parent-death signal and stopped by their ids, workload first and engine
// last. The gateway keeps its history in a temporary directory, which is removed. No files or listeners
// remain.
//
// The demo does not measure Tare's maximum speed: the engine serves some 1,500 statements per second, which
// is the upper bound here. Use `tare bench` for measurements.
//
// Specification: the result of `tare demo --json` is documented in docs/reference/demo.md.
package demo
