package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestLiveRecent has the p99 of the last second, or of as many more as have 200 statements.
func TestLiveRecent(t *testing.T) {
	m := newMetrics(2)
	record := func(second, n int, d time.Duration) {
		for i := range n {
			m.stripes[i%len(m.stripes)].live.record(time.Duration(second)*time.Second+time.Millisecond, d, false)
		}
	}
	near := func(us float64, d time.Duration) bool {
		want := float64(d / time.Microsecond)
		return us > want*15/16 && us < want*17/16
	}
	now := func(second int) Live { return m.live(time.Duration(second) * time.Second) }
	if l := now(1); l.RecentP99 != 0 || l.P99 != 0 {
		t.Errorf("without statements: %+v", l)
	}
	if text, err := json.Marshal(now(1)); err != nil || strings.Contains(string(text), "_us") || !strings.Contains(string(text), `"statements":0,`) {
		t.Errorf("without statements: %s, %v", text, err)
	}
	record(1, 1000, 100*time.Millisecond)
	for _, name := range []string{`"p50_us":`, `"p99_us":`, `"p999_us":`, `"p99_recent_us":`, `"connections":0}`} {
		if text, err := json.Marshal(now(2)); err != nil || !strings.Contains(string(text), name) {
			t.Errorf("%s, %v lacks %s", text, err, name)
		}
	}
	record(2, 300, 10*time.Millisecond)
	record(3, 100, time.Millisecond)
	for second, want := range map[int]time.Duration{
		2: 100 * time.Millisecond, // the first
		3: 10 * time.Millisecond,
		4: 10 * time.Millisecond, // the last has 100 alone
		5: 10 * time.Millisecond, // likewise, after one without
	} {
		if l := now(second); !near(l.RecentP99, want) || !near(l.P99, 100*time.Millisecond) {
			t.Errorf("after %d seconds: %v of the recent, want %v; %v of all", second, l.RecentP99, want, l.P99)
		}
	}
	if l := now(13); !near(l.RecentP99, time.Millisecond) || l.RecentP99 != l.P99 || l.Statements != 100 {
		t.Errorf("with less than 200 in ten seconds: %+v", l)
	}
	record(13, 200, 2*time.Millisecond) // the slot of an earlier second
	if l := now(14); !near(l.RecentP99, 2*time.Millisecond) || l.Statements != 200 {
		t.Errorf("%+v", l)
	}
}
