// Package tick provides one coarse clock for the whole process, and throttle checks that cost one
// atomic read.
//
//	t := tick.NewThrottle(tick.Process(), serversAreHealthy)
//	defer t.Close()
//	for rows.Next() {
//		err := t.Wait(ctx) // one atomic read, except in the first row after a tick
//		…
//	}
//
// Code that checks per row whether it may continue must not read the system's clock per row. A Clock
// is a goroutine that writes the time into one word a few times per second; a Throttle polls its
// condition again only after that word has changed.
//
//	Clock ── every interval ──> word <── read once per row ── Throttle ── at most once per tick ──> condition
//
// The clock runs only while it has holders, so that an idle process is not woken.
//
// The package does not measure time: a Tick is up to one interval old. It does not define the
// condition: the caller does.
package tick
