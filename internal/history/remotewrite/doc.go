// Package remotewrite sends the samples of a history to a receiver of Prometheus' remote write.
//
//	database ──► window: samples after the position ──► requests ──► receiver
//	                           ▲                                         │ written
//	                           └────────── position, on disk ◄───────────┘
//
// # Position
//
// A Sender has no queue. It reads a window of time from the local databases, head and blocks alike,
// sends it, and then persists the end of the window as the position. What an outage of the receiver or of the process leaves
// unsent is thus read from where it lies already, in the order of time. Memory is bounded: a window that has too many bytes is
// shortened, and one that is too short for that is read in parts, by the hash of the labels.
//
// The end of a window is persisted before its first request: a process that is killed within a window sends it again, and
// a receiver refuses samples that it has. Samples refused then, or in a request that is repeated because
// its result is unknown, count as repeated and not as lost.
//
// # Samples older than the position
//
// A series starts with a sample of 0 at the time of its first call, see package history, which is appended in one commit with the
// first real sample and may be older than samples of other series that were sent. A sample of 0 at or before the position is
// therefore sent if the next one of its series is after the position.
//
// # What is lost
//
// Samples are lost when the receiver refuses or drops them, or when the local databases have deleted them
// before they could be sent. Both are counted, logged, and recorded with their range in the file of the position. A
// response that says nothing about the samples (a wrong password, a wrong path, a receiver that is
// overloaded or of another version) loses none: the request is repeated.
//
// # Why not another client
//
// Prometheus' storage/remote follows the write-ahead log from now on and has no position; it would also link scrape,
// OTLP and the clients of three clouds. client_golang's exp/api/remote repeats requests within Write, takes response bodies of
// any size, and has no status code to distinguish a wrong password, after which samples are kept, from refused samples.
//
// The protocols are Remote-Write 2.0 and 1.0: https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/.
package remotewrite
