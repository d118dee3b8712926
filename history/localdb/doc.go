// Package localdb is the local time series database of a history: its head, write-ahead log and blocks in a directory.
//
//	Directory.Open ──► checks blocks and the log, sets aside what cannot be read ──► TSDB
//	Database ──► queriers; Replace closes the TSDB when they are done, and opens it again after a failed write
//
// The TSDB does not compact on its own: its owner has it write blocks, where a panic can be recovered.
package localdb
