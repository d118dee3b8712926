// Package governor chooses how many processors the Go scheduler runs on (GOMAXPROCS) by
// the load.
//
// A relay's work is many short turns with waits between. With more processors than it
// needs, the scheduler wakes an idle one for almost each turn, and those wake-ups cost more
// than the turns. So the governor starts at one processor, adds one at once when the
// process uses most of what it has or goroutines wait long to run, and takes one away only
// after a spell of little load.
//
//	every 100 ms: CPU time used ─┐
//	              p99 of waiting ─┴─► Decide ─► GOMAXPROCS
package governor
