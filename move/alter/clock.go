package alter

import (
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
)

// Durations are the seconds that the parts of a copy took in this run; 0: it did not get there.
type Durations struct {
	Rows    float64 `json:"rows_seconds"`     // until all rows were copied and the indexes built
	CatchUp float64 `json:"catch_up_seconds"` // from there until the changes made meanwhile were applied
	Compare float64 `json:"compare_seconds"`  // from there until all rows were compared
	Swap    float64 `json:"swap_seconds"`     // from there until the tables were swapped, with a postponement and all tries
}

// A clock measures the parts of a copy by its events.
type clock struct {
	d    *Durations
	next func(telemetry.Event)

	mu   sync.Mutex
	last time.Time // the end of the part before
}

func newClock(d *Durations, next func(telemetry.Event)) *clock {
	return &clock{d: d, next: next, last: time.Now()}
}

// observe ends a part where an event does, and passes the event on.
func (c *clock) observe(e telemetry.Event) {
	switch e.Kind {
	case telemetry.EventDone:
		c.lap(&c.d.Rows)
	case telemetry.EventCaughtUp:
		c.lap(&c.d.CatchUp)
	}
	c.next(e)
}

// lap ends a part that has not ended before.
func (c *clock) lap(seconds *float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); *seconds == 0 {
		*seconds, c.last = now.Sub(c.last).Seconds(), now
	}
}
