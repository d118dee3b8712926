package throttle

import "time"

// A gate is the pure core of the pacer: it lets all workers work for a slice and then none. The length of the
// pause makes the slice the given fraction of both. It has no clock and no server.
//
// All workers work and pause together, because it is unknown how much one delays another: if they wait for
// one lock, the pause of one is filled by the work of the next, and four workers at a quarter of their speed
// copy as much as at full speed. A slice is the time in which any worker works: from the opening of the gate
// until the last worker pauses. So the fraction of time equals the fraction of work, whether or not the
// workers delay each other.
type gate struct {
	working int           // workers that are admitted and not paused
	since   time.Time     // when working was last 0, or the gate was opened
	on      time.Duration // of the slice, before since

	closed  bool
	closing time.Time     // when it was closed
	rested  time.Time     // when the last worker paused after that; zero before
	late    time.Duration // delay of the last opening
	changed chan struct{} // closed and replaced when waiting workers must check the gate again
}

const (
	// leastPause is the minimum pause: a shorter one would be lost in the time to wake up. A slice lasts
	// until its pause is at least this long.
	leastPause = 4 * time.Millisecond

	// longestSlice is the maximum part of a slice for which a pause compensates.
	longestSlice = time.Second

	// longestStray is how long paused workers wait for the others to pause too: one long statement must not
	// stop all workers.
	longestStray = 250 * time.Millisecond

	// mostLate is the maximum delay of an opening for which the next pause is shortened.
	mostLate = 10 * time.Millisecond
)

func newGate() gate { return gate{changed: make(chan struct{})} }

// busy returns how long any worker has worked in this slice.
func (g *gate) busy(now time.Time) time.Duration {
	if g.working == 0 {
		return g.on
	}
	return g.on + now.Sub(g.since)
}

// due closes the gate if the slice has been long enough, and reports whether it is closed.
func (g *gate) due(now time.Time, share float64) bool {
	if !g.closed && (share <= 0 || pauseAfter(g.busy(now), share) >= leastPause) {
		g.closed, g.closing, g.rested = true, now, time.Time{}
		if g.working == 0 {
			g.rested = now
		}
	}
	return g.closed
}

// pauseAfter returns the pause after a slice of work.
func pauseAfter(worked time.Duration, share float64) time.Duration {
	return time.Duration(float64(min(worked, longestSlice)) * (1/share - 1))
}

// admit adds a working worker.
func (g *gate) admit(now time.Time) {
	if g.working == 0 {
		g.since = now
	}
	g.working++
}

// remove removes a working worker. The last one starts the pause.
func (g *gate) remove(now time.Time) {
	g.working--
	if g.working > 0 {
		return
	}
	g.on += now.Sub(g.since)
	if g.closed && g.rested.IsZero() {
		g.rested = now
		g.wake()
	}
}

// wake makes waiting workers check the gate again.
func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// open opens the gate if the pause is over. Otherwise it returns the minimum remaining time; 0 means until
// changed is closed.
func (g *gate) open(now time.Time, share float64) (opened bool, wait time.Duration) {
	switch {
	case !g.closed:
		return true, 0
	case share <= 0:
		return false, 0
	case share == 1:
		g.start(now)
		return true, 0
	}
	if g.rested.IsZero() {
		if wait := g.closing.Add(longestStray).Sub(now); wait > 0 {
			return false, wait
		}
		g.rested = g.closing.Add(longestStray)
	}
	at := g.rested.Add(pauseAfter(g.busy(g.rested), share) - g.late)
	if wait := at.Sub(now); wait > 0 {
		return false, wait
	}
	late := min(now.Sub(at), mostLate)
	g.start(now)
	g.late = late
	return true, 0
}

// start starts a slice.
func (g *gate) start(now time.Time) {
	g.closed, g.on, g.since, g.late = false, 0, now, 0
}
