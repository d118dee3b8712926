// Package server is the lifecycle of Tare's servers: it opens, announces, reloads, drains and closes them alike.
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
// A [Server] has what every Service uses: the data directory with its lock, the query log, the metrics registry, the
// HTTP server, the ledger of the heap and the link to the service manager. All files of TLS are loaded here.
//
// # What it does not do
//
// It knows no protocol but HTTP, and parses no options: internal/config does.
package server
