// Package weigh measures the cost of another process: its CPU time and memory from the kernel, its Go
// runtime's allocations and collections from its /metrics.
//
// Terms: a reading is the values of all counters at one time; a weight is the difference of two readings per
// time, or per statement, between them.
//
//	/proc/PID, CPU clock of PID ──┐
//	                              ├── Reading ── Reading.Since(earlier) ── Weight
//	GET /metrics of the process ──┘
//
// Measuring has a cost for the measured process too: it serves each scrape, which is part of its readings. A
// caller with few statements measures the cost of a scrape and subtracts it.
//
// It starts no process, keeps no series, and reads one machine only: /proc of a process in another container
// or on another host is inaccessible.
//
// Specification: proc_pid_stat(5), proc_pid_status(5), clock_getcpuclockid(3); the metric names are those of
// github.com/prometheus/client_golang's collectors over the names of runtime/metrics.
package weigh
