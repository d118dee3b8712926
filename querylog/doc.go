// Package querylog writes one line for each statement that a server has served, without
// allocating, to files, standard output, a ring in memory and HTTP readers.
//
// Terms. An entry is what is logged: a Record for a gateway's statement, or another type of
// the caller's. A line is an entry in a Format. A lane is a format and Redaction in use: an
// entry is formatted once for each lane, however many sinks and readers want it. A stripe is
// one of several buffers with a lock each, chosen by the entry's origin. A batch is the
// lines of one stripe and lane that go to the sinks together. A sink is an output with a
// queue bounded in bytes and a goroutine of its own.
//
//	session ── Log ── Sampling, Filter ── seq ── lane 1 ── line ┐
//	                                          └─ lane 2 ── line ┤ stripe
//	                      64 KiB or 1 s: batch ─────────────────┘
//	                        ├── ring ── ServeHTTP readers, each at its own pace
//	                        ├── sink: queue ── writer ── file (rotated, compressed, reopened)
//	                        └── sink: queue ── writer ── standard output
//
// Nothing waits for a sink. What a queue or a disk cannot take is counted, and a line of kind
// "dropped" says so in the output as soon as it takes lines again: for each sink, records
// written and records dropped add up to the records offered. Each line carries the boot it
// comes from and a number, seq, without gaps over all lanes together, so that what a killed
// process had not written can be counted. A process that logs nothing is not woken.
//
// Line, ParseLine, AppendEscaped and AppendUnescaped are of use by themselves: a typed
// builder of JSON and text lines, and the reader of both.
//
// The package does not decide what a statement is, keeps no statistics, sends nothing over
// the network by itself, and has no levels: messages for operators go to slog.
//
// Specification: JSON lines are RFC 8259 objects in UTF-8, each followed by a line feed;
// times are RFC 3339 section 5.6 in UTC; base64 is RFC 4648 section 4; text lines are labeled
// tab-separated values (ltsv.org) with the escapes of AppendEscaped. The values of bind
// variables follow MySQL "Binary Protocol Value".
package querylog
