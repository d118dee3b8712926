// Package telemetry is the interface by which a running copy is watched: its events, its status, its lag and progress, and what it
// waits for. Their JSON forms are stable.
package telemetry
