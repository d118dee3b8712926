// Package testdir puts temporary files of tests on an in-memory file system. There a sync is free: tests that
// sync small files most of the time, as those of a time series database do, take a third as long.
//
// Small mounts a file system that a test fills. WithDescriptors has files not be opened. TraceFiles runs a process of which one system call on a file fails.
//
// # Limits
//
// Memory, Small and WithDescriptors exist on Linux alone, and TraceFiles on linux/amd64. Pre-allocated files take their whole size there, in memory and in time, so
// packages that write many small blocks, each with a chunk file of 512 MiB, stay on a disk. Files that a
// killed test leaves behind take memory until they are removed.
package testdir
