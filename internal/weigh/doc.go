// Package weigh reads what another process costs: from the kernel its CPU time and
// memory, from its /metrics what its Go runtime says of allocation and collection.
//
// Terms: a reading is every counter at one moment; a weight is the difference of two
// readings over the time, or the statements, between them.
//
//	/proc/PID, CPU clock of PID ──┐
//	                              ├── Reading ── Reading.Since(earlier) ── Weight
//	GET /metrics of the process ──┘
//
// Watching costs the watched process something too: each answer to /metrics is made by it,
// and is part of its readings. A caller with few statements measures what a scrape costs
// and takes it off.
//
// It starts no process, keeps no series, and reads one machine only: /proc of a process in
// another container or on another host is not to be had.
//
// Specification: proc_pid_stat(5), proc_pid_status(5), clock_getcpuclockid(3); the metric
// names are those of github.com/prometheus/client_golang's collectors over the names of
// runtime/metrics.
package weigh
