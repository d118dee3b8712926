// Package telemetry is the interface by which a running copy is watched: its events, its status, its lag, progress and
// waits. Their JSON forms are stable.
package telemetry
