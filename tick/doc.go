// Package tick is one coarse clock for the whole process, and throttle checks that cost one
// atomic read.
//
// Code that asks "may I go on?" once a row must not read the system's clock once a row to
// find out whether it asked recently. A Clock is a goroutine that writes the time into one
// word a few times a second; a Throttle asks its question again only when that word has
// changed.
//
//	Clock ── every interval ──> word <── read once a row ── Throttle ── at most once a tick ──> question
//
// The clock runs only while someone holds it, so that an idle process is not woken.
//
// It does not measure: a Tick is up to one interval old. It does not decide what a throttle
// waits for: the question is the caller's.
package tick
