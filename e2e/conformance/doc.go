//go:build e2e

// Package conformance runs the servers' own test suites directly and through `tare serve`, and compares what their test
// programs record, byte by byte. `make conformance` runs it.
//
// # Terms
//
//   - A server is one that .ci/unpack has unpacked with its suite, in .tools/NAME-suite. Nothing of a suite is copied
//     into this repository.
//   - A case is one test of a suite with one protocol (how the test program sends statements) and one profile (how
//     the gateway is started).
//     In the profiles pool and moved, clients share connections to the backend: see pooledDifferences.
//   - A leg is one run of a case: direct, or through the gateway.
//   - A rig is one private server, and the gateways in front of it, for one worker.
//
// # Data flow
//
//	suites ──rules──> cases ──sample, shard, journal──> workers
//
//	           ┌──direct──> server <──┐
//	mysqltest ─┤                      ├── compare ──> journal ──> table
//	           └──> tare serve ───────┘
//
// # Verdicts
//
// A case is equal if exit code, recorded result and output are the same bytes, after the differences in acceptances,
// each a narrow pattern with its reason. If they differ, more direct legs follow: the case is equal if one of these is,
// nondeterministic if they differ from each other, which excludes it. Everything else is different, and fails the test.
//
// After each leg the state of the server is compared, by the suite's own check, with that of a fresh one. Where it
// differs the server is replaced, so that each leg finds the same state.
//
// # Binary logs
//
// TestBinaryLogs (`make binlog-oracle`) runs tests of the suites directly on servers that write their binary log in each of
// their forms, and then random statements on tables of all types. The logs are compared by TestServersReaders of package
// binlog, and removed; binlog.jsonl in the directory of -conformance.dir has the counts, and makes a run resumable. Logs
// that differ are kept beside it.
//
// # Suites of clients
//
// TestClientSuites (`make client-suites`) runs the test suites of clients and applications in the same way, on a server
// with usual options. Each is one declaration in clientSuites: shell commands that fetch it, list its units, which can run
// alone, and run some of them, and the reading of its results. The verdicts are those of cases, in clients.jsonl.
//
// # Limits
//
// Tests that stop or reconfigure the server, need replication, a debug build or hours are left out by the rules in
// exclusions, which the table counts. The disk space of a leg and its time are bounded. The journal in the directory
// of -conformance.dir makes a run resumable; cases that differed run again.
package conformance
