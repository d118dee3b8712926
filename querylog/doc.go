// Package querylog writes one line for each statement that a server has served to files, standard output, a
// ring in memory and HTTP readers, without allocating.
//
//	l, err := querylog.New(querylog.Options{Sinks: []querylog.SinkOptions{{Path: "query.log"}}})
//	defer l.Close(ctx)
//	l.Log(&record) // the caller reuses record
//
// # Terms
//
// An entry is the unit of logging: a Record for a gateway's statement, or a type of the caller's. A line is
// an entry in a Format. A lane is a format and Redaction in use: an entry is formatted once per lane,
// regardless of the number of sinks and readers. A stripe is one of several buffers with a lock each, chosen
// by the entry's origin. A batch is the lines of one stripe and lane that go to the sinks together. A sink is
// an output with a goroutine and a queue bounded in bytes.
//
// # Data flow
//
//	session ── Log ── Sampling, Filter ── seq ── lane 1 ── line ┐
//	                                          └─ lane 2 ── line ┤ stripe
//	                      64 KiB or 1 s: batch ─────────────────┘
//	                        ├── ring ── ServeHTTP readers, each at its own pace
//	                        ├── sink: queue ── writer ── file (rotated, compressed, reopened)
//	                        └── sink: queue ── writer ── standard output
//
// Logging never waits for a sink. Records that exceed a queue or that a disk refuses are counted as dropped,
// and a line of kind "dropped" reports them in the output as soon as it accepts lines again: for each sink,
// records written and records dropped add up to the records offered. Each line has the boot it comes from and
// a number, seq, without gaps over all lanes together, so that the records that a killed process had not
// written can be counted. An idle logger has no timers.
//
// Line, ParseLine, appendEscaped and AppendUnescaped are usable on their own: a typed builder of JSON and
// text lines, and the parser for both.
//
// # Limits
//
// The package does not parse statements, keeps no statistics, opens no network connections, and has no
// levels: messages for operators go to slog.
//
// # Specification
//
// JSON lines are RFC 8259 objects in UTF-8, each followed by a line feed; times are RFC 3339 section 5.6 in
// UTC; base64 is RFC 4648 section 4; text lines are labeled tab-separated values (ltsv.org) with the escapes
// of appendEscaped. The values of bind variables follow MySQL "Binary Protocol Value".
package querylog
