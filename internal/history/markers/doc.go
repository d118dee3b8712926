// Package markers keeps what happened around a gateway: schema changes that passed through it, switches, pauses,
// restarts, reloads of rules, and events that clients report, such as deployments. Charts draw them as vertical lines,
// and package incidents finds the one that caused a rise of a statement's load.
//
// # Usage
//
//	store, err := markers.Open(markers.Options{Path: path, State: state, Log: log})
//	gateway.Options{Observers: []gateway.Observer{store}} // records schema changes
//	go store.Run(ctx)
//	http.Handle("/api/v1/events", store.Handler())
//
// # Data flow
//
//	gateway ─Record─► Observe ──► slots, fixed ──► Run ──tables──┐
//	switch, restart, reload ─────────────────────────────────────┼─► Add ──► list, bounded ──► Between
//	POST /api/v1/events ── validated, rate-limited ──────────────┘      └──► file, one line per marker
//
// # File format
//
// Each line is the CRC-32C of the rest of the line as eight hexadecimal digits, a space, and a JSON object: in the first
// line {"version":1,"markers":N}, then at least N markers. Lines are appended; the file is rewritten with the markers
// that are kept at each start, and when it has grown to twice their bound. An incomplete last line, as a kill leaves
// it, is removed; a file that is damaged otherwise is set aside whole.
//
// # Limits
//
// The package sees no schema change that bypasses the gateway.
package markers
