// Package server implements the common lifecycle of Tare's servers: open, announce, reload, drain, close.
//
// # Terms
//
//   - A Service is the part of one subcommand: its options, goroutines and protocol.
//   - A part is a goroutine of a Service that runs from the announcement until the drain is over.
//
// # Data flow
//
//	Run: Check ─> listen ─> Open ─> Announce ─> parts, HTTP, watchdog ─signal, failed part─> Drain ─> Close
//	SIGUSR1 ─> query log reopened          SIGHUP ─> Reload          systemd <─ READY, RELOADING, STOPPING, WATCHDOG
//
// A [Server] has the parts that every Service uses: the data directory with its lock, the query log, the
// metrics registry, the HTTP server, the ledger of the heap and the link to the service manager. It loads all
// TLS files.
//
// # Limits
//
// The package knows no protocol but HTTP, and parses no options: cmd/tare/internal/config does.
package server
