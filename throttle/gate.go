package throttle

import "time"

// A gate is the pure core of the pacer: it lets everybody work for a slice and then nobody, for as
// long as makes the slice the share of both. It knows no clock and no server.
//
// All work and rest at the same time, since nobody knows how much one worker is held up by another: where
// they wait for one lock, a pause of one is filled by the work of the next, and four of them at a quarter of
// their speed copy as much as at full speed. A slice is the time in which anybody works: from the opening to
// the last one's rest. So the share of the time is that of the work of those within a step, whether they hinder each
// other or not.
type gate struct {
	working int           // who are let in and do not rest
	since   time.Time     // when working was last 0, or the gate was opened
	on      time.Duration // of the slice, before since

	closed  bool
	closing time.Time     // when it was closed
	rested  time.Time     // when the last one came to rest after that; zero before
	late    time.Duration // by how much it was opened too late the last time
	changed chan struct{} // closed and made anew when who waits at the gate has to look again
}

const (
	// leastPause is how short a pause may be: a shorter one would be lost in the time that waking up takes.
	// A slice lasts until its pause is as long as this.
	leastPause = 4 * time.Millisecond

	// longestSlice is how much of a slice is paid for by a pause.
	longestSlice = time.Second

	// longestStray is how long those at rest wait for the others to come to rest as well: who is within
	// a long statement must not stop everybody.
	longestStray = 250 * time.Millisecond

	// mostLate is how much of a late opening is made good by a shorter pause.
	mostLate = 10 * time.Millisecond
)

func newGate() gate { return gate{changed: make(chan struct{})} }

// busy is how long anybody has worked in this slice.
func (g *gate) busy(now time.Time) time.Duration {
	if g.working == 0 {
		return g.on
	}
	return g.on + now.Sub(g.since)
}

// due closes the gate when the slice has been long enough, and reports whether it is closed.
func (g *gate) due(now time.Time, share float64) bool {
	if !g.closed && (share <= 0 || pauseAfter(g.busy(now), share) >= leastPause) {
		g.closed, g.closing, g.rested = true, now, time.Time{}
		if g.working == 0 {
			g.rested = now
		}
	}
	return g.closed
}

// pauseAfter is the pause after a slice of work.
func pauseAfter(worked time.Duration, share float64) time.Duration {
	return time.Duration(float64(min(worked, longestSlice)) * (1/share - 1))
}

// enter counts somebody in.
func (g *gate) enter(now time.Time) {
	if g.working == 0 {
		g.since = now
	}
	g.working++
}

// leave counts somebody out. The last one begins the pause.
func (g *gate) leave(now time.Time) {
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

// wake makes those who wait look again.
func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// open opens the gate when the pause is over. Otherwise it answers how long that takes at least: 0 means until
// changed.
func (g *gate) open(now time.Time, share float64) (opened bool, wait time.Duration) {
	switch {
	case !g.closed:
		return true, 0
	case share <= 0:
		return false, 0
	case share == 1:
		g.begin(now)
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
	g.begin(now)
	g.late = late
	return true, 0
}

// begin begins a slice.
func (g *gate) begin(now time.Time) {
	g.closed, g.on, g.since, g.late = false, 0, now, 0
}
