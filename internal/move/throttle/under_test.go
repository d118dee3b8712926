package throttle

import (
	"testing"
	"time"
)

// TestUnder has readings below all limits, in each state of the rate.
func TestUnder(t *testing.T) {
	const now = 10 * time.Second
	for _, c := range []struct {
		name              string
		t                 throttle
		ratio             float64
		rate, dip, faster float64 // afterwards
		because           string
	}{
		{"at full speed without room", throttle{rate: 1, dip: 1, faster: 4, because: "lag"}, 0.9, 1, 1, 1, ""},
		{"below full speed without room", throttle{rate: 0.5, dip: 1, faster: 4, because: "lag"}, 0.9, 0.5, 1, 1, "lag"},
		{"at the edge of room", throttle{rate: 0.5, dip: 1, faster: 4, because: "lag"}, roomLeft, 1, 1, 4, ""},
		{"growing", throttle{rate: 0.25, dip: 1, faster: 4, because: "lag"}, 0.1, 0.5, 1, 4, "lag"},
		{"growing to full speed", throttle{rate: 0.5, dip: 1, faster: 4, because: "lag"}, 0.1, 1, 1, 4, ""},
		{"dipping", throttle{rate: 1, dip: 0.25, faster: 4, because: "lag"}, 0.1, 1, 0.5, 4, "lag"},
		{"dipped", throttle{rate: 1, dip: 0.5, faster: 4, because: "lag"}, 0.1, 1, 1, 4, ""},
		{"not settled", throttle{rate: 0.5, dip: 1, faster: 4, settled: now + 1, because: "lag"}, 0.1, 0.5, 1, 4, "lag"},
		{"just settled", throttle{rate: 0.5, dip: 1, faster: 4, settled: now, because: "lag"}, 0.1, 1, 1, 4, ""},
		{"stopped", throttle{rate: 0.5, dip: 1, faster: 4, stopped: true, because: "lag"}, 0.1, 0.5, 1, 4, "lag"},
	} {
		s := c.t
		s.crossed, s.sampled = true, true
		s.under(now, time.Second, c.ratio)
		if s.rate != c.rate || s.dip != c.dip || s.faster != c.faster || s.because != c.because || s.crossed || s.stopped {
			t.Errorf("%s: %+v, want %+v", c.name, s, c)
		}
	}
	above := throttle{rate: 0.5, dip: 1, faster: 4, limitRate: 0.4}
	if above.under(now, time.Second, 0.1); above.rate <= 0.5 || above.rate >= 0.6 || above.faster <= 4 {
		t.Errorf("above the rate of the last limit: %+v", above)
	}
}
