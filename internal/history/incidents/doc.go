// Package incidents finds when the load of a statement rose, and the event that caused it. It performs no I/O: callers
// pass series, events, plans, lock waits and sampled calls.
//
// # Usage
//
//	rise, ok := incidents.FindRise(incidents.Series{Times: times, End: end, Values: load, Step: step, Interval: interval})
//	f := incidents.Find(&incidents.Case{Digest: digest, Tables: tables, Onset: rise.Onset, Events: events, Plans: plans})
//	if f.Cause != nil { … } // has evidence
//	for _, n := range f.Near { … } // events near in time, without evidence
//
// # Terms
//
//   - The onset is the time at which the load stepped up, with the bounds that sampling and noise leave.
//   - A cause is an event with evidence, see Kind. Without evidence an event is near in time.
//   - A veto is evidence that an event is not the cause: the plan did not change, the index was not used.
//
// # Rules
//
//	event                    evidence required
//	lock wait                the lock graph: the statement waits for the session
//	schema change            of a table of the statement; its index was used, or the plan changed; calls take longer
//	ANALYZE                  of a table of the statement; the plan changed; calls take longer
//	changed plan             it changed at the onset; calls take longer
//	reported event           the statement is new, its tags, its rows per call, or its part of its callers' calls changed
//	switch                   the backend of its calls changed
//	caller                   one user or client adds most of the load
//	failing calls            most calls fail, with an error that did not occur before
//	server                   most other statements became slower at the same time; call rates did not change
//	traffic                  all statements are called more
//
// No event after the onset is a cause or near. The caller passes only events of the server that the statement runs on.
//
// # Limits
//
// Evidence shows that an event and the rise have the same object, not that one caused the other. Events that bypass
// the gateway are unknown. Values of Reach, DeployReach and others are choices; the corpus of docs/tasks/find-the-cause.md
// measures them.
package incidents
