// Command tare is the gateway and its tools: one file per subcommand, which turns flags
// into a configuration and hands it to the wiring, and nothing else.
//
// # Terms
//
//   - The wiring of a subcommand (serve_wiring.go) builds its parts and runs them.
//   - A usage error is one that the caller made: command line, environment or file.
//
// # Data flow
//
//	arguments ──cobra──> subcommand ──internal/config──> typed options ──> run…(ctx, options, log)
//	signals ──────────────────────────────────────────> ctx                      │
//	exit code <────────────────────── error <────────────────────────────────────┘
//
// Data goes to standard output, Tare's own log to standard error. Exit codes: 0 done, 1
// failed, 3 done in part, 64 usage, 130 interrupted; 2 is left to Go's panics.
//
// # What it does not do
//
// It has no logic of its own, and it never links the demo's engine: that is cmd/tare-demo.
package main
