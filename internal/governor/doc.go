// Package governor chooses how many processors the Go scheduler runs on (GOMAXPROCS) by
// the load.
//
// A relay's work is many short turns with waits between. With more processors than it
// needs, the scheduler wakes an idle one for almost each turn, and those wake-ups cost more
// than the turns. So the governor starts at one processor, adds one at once when the
// process uses most of what it has or goroutines queue, and takes one away only after a spell
// of little load.
//
//	every 100 ms: CPU time used ──┐
//	              median of waits ─┴─► Decide ─► GOMAXPROCS
//
// The wait is that of runnable goroutines (/sched/latencies), and its median: with hundreds of
// busy connections it is milliseconds, and a second processor then brings a fifth more
// statements for the same CPU each. Its p99 is no good signal: on a machine shared with the
// database it rises because other processes have the processors, and another P then costs a
// sixth more CPU a statement and brings nothing.
package governor
