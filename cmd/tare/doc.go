// Command tare is the gateway and its tools: one file per subcommand, which turns flags into a configuration
// and passes it to the wiring.
//
// # Terms
//
//   - The wiring of a subcommand (serve_wiring.go) builds its parts and runs them.
//   - A usage error is a mistake of the caller: in the command line, environment or a file.
//
// # Data flow
//
//	arguments ──cobra──> subcommand ──cmd/tare/internal/config──> typed options ──> run…(ctx, options, log)
//	signals ──────────────────────────────────────────> ctx                      │
//	exit code <────────────────────── error <────────────────────────────────────┘
//
// Data goes to standard output, Tare's log to standard error. Exit codes: 0 success, 1 failure, 3 partial
// success, 64 usage, 130 interrupted; 2 is left to Go's panics.
//
// # Limits
//
// The command has no logic besides wiring, and it never links the demo's engine: that is cmd/tare-demo.
package main
