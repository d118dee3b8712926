// Package explain queries the server behind a gateway for the execution plans of the statements with most load, and
// reports when it chooses another plan.
//
// # Usage
//
//	p, err := explain.New(explain.Options{Account: account, Candidates: heaviest, Log: log})
//	gateway.Options{Observers: []gateway.Observer{p}} // keeps a recent slow execution of each candidate
//	go p.Run(ctx)
//	state, ok := p.State(digest)      // its plans, the current one first
//
// # Terms
//
//   - A candidate is one of the statements with most load; there are at most MaxCandidates.
//   - An execution is the text of a call with its bind values. The slowest of the last minute is kept per
//     candidate, in memory only; it is never logged or shown.
//   - A plan is the tables that the server reads, in join order, each with its access type and key. Its ID is a hash
//     of these: costs and estimated rows do not count. Plans of different server products have different IDs.
//
// # Data flow
//
//	gateway ─Record─► Observe ─► candidate's execution ┐
//	SchemaChanged(tables), latency, age ─► due ────────┴─► Run ─► EXPLAIN FORMAT=JSON ─► plan ─► State, Options.Changed
//
// # What is sent to the server
//
// Only EXPLAIN FORMAT=JSON in a transaction that is rolled back, over a dedicated connection: read-only for
// SELECT, with a limit on the execution time (max_execution_time, max_statement_time) and on waits for locks,
// at most one at a time and MaxPerMinute per minute. The statement is never executed, but optimizers evaluate
// parts of it: MySQL subqueries and MariaDB functions that are constant, and both read rows of tables by a
// unique key. So statements that lock rows, call functions that are not built in or that wait, name a view,
// use variables of their session, or are not understood are refused. MariaDB is prevented from evaluating
// subqueries (expensive_subquery_limit = 0).
//
// # Limits
//
// The package supports MySQL and MariaDB only. An execution is explained in the default sql_mode, utf8mb4 and
// the account's optimizer switches: a session that has changed these may get another plan. A plan may depend
// on the values, so one execution may have another plan than the next one.
//
// Formats: "EXPLAIN Output Format" of the MySQL Reference Manual (JSON format version 1), "EXPLAIN FORMAT=JSON" of the
// MariaDB documentation.
package explain
