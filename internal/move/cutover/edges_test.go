package cutover

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestOptionsAtEdges validates options at their bounds and beyond them.
func TestOptionsAtEdges(t *testing.T) {
	const negative, long = "a cutover's times and tries are 0 or more", "a cutover that holds clients for "
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // start of the error
	}{
		"least":            {func(*Options) {}, ""},
		"lag":              {func(o *Options) { o.Lag = -1 }, negative},
		"window":           {func(o *Options) { o.Window = -1 }, negative},
		"tries":            {func(o *Options) { o.Tries = -1 }, negative},
		"pinned":           {func(o *Options) { o.ClosePinned = -1 }, negative},
		"pause":            {func(o *Options) { o.MaxPause = -1 }, long + "-1ns"},
		"longest pause":    {func(o *Options) { o.MaxPause = 30 * time.Second }, ""},
		"too long a pause": {func(o *Options) { o.MaxPause = 30*time.Second + 1 }, long + "30.000000001s"},
		"everything": {func(o *Options) {
			*o = Options{Gateway: o.Gateway, Back: o.Back, Lag: 1, Window: 1, Tries: 1, ClosePinned: 1, MaxPause: 1}
		}, ""},
		"an invalid gateway": {func(o *Options) { o.Gateway.URL = "ftp://x" }, "gateway"},
		"an invalid source":  {func(o *Options) { o.Back.Addr = "" }, "no address to connect to"},
		"no gateway":         {func(o *Options) { *o = Options{Lag: -1, MaxPause: -1} }, ""},
	} {
		o := Options{Gateway: gatewayclient.Gateway{URL: "http://127.0.0.1:1"}, Back: mysqlconn.Config{Addr: "127.0.0.1:2", User: "u"}}
		c.change(&o)
		err := o.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if name == "least" && (o.MaxPause != DefaultMaxPause || o.Tries != DefaultTries) || name == "everything" && (o.MaxPause != 1 || o.Tries != 1) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestTries has machines whose tries fail: the pauses between them grow up to half a minute, and the last error is the machine's.
func TestTries(t *testing.T) {
	for tried, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 7: 30 * time.Second, 1 << 40: 30 * time.Second} {
		if got := (&machine{tried: tried}).pause(); got != want {
			t.Errorf("after %d tries: %v, want %v", tried, got, want)
		}
	}
	fails := errors.New("it fails")
	for _, at := range []step{stepHold, stepReach, stepNote, stepSwitch} {
		for _, tries := range []int{1, 2} {
			m := newMachine(phaseNone, tries, true)
			holds := 0
			for m.step != stepEnd {
				if m.step == stepHold {
					holds++
				}
				switch m.step {
				case stepCheck, stepAsk:
					m.route(routeSource)
				case at:
					m.failed(fails)
				default:
					m.ok()
				}
			}
			if holds != tries || m.tried != tries || !errors.Is(m.err, fails) || m.phase != phaseNone || !m.followable() || m.requested {
				t.Errorf("%s fails: %d holds of %d tries, %+v", at, holds, tries, m)
			}
		}
	}
	// A pause that cannot be ended expires; a step that is no try ends the cutover.
	for _, c := range []struct {
		m    machine
		want machine
	}{
		{machine{step: stepRelease, tries: 2, tried: 1}, machine{step: stepPause, tries: 2, tried: 1}},
		{machine{step: stepRelease, tries: 2}, machine{step: stepWait, tries: 2}},
		{machine{step: stepRelease, tries: 2, phase: phaseCutting}, machine{step: stepForget, tries: 2, phase: phaseCutting}},
		{machine{step: stepRelease, tries: 2, phase: phaseCutting, requested: true}, machine{step: stepAsk, tries: 2, phase: phaseCutting, requested: true}},
		{machine{step: stepCommit, tries: 2}, machine{step: stepEnd, tries: 2, err: fails}},
		{machine{step: stepForget, tries: 2}, machine{step: stepEnd, tries: 2, err: fails}},
		{machine{step: stepReverse, tries: 2}, machine{step: stepEnd, tries: 2, err: fails}},
	} {
		if c.m.failed(fails); c.m != c.want {
			t.Errorf("%+v, want %+v", c.m, c.want)
		}
	}
	for s := stepCheck; s <= stepEnd; s++ {
		if s.String() == "" {
			t.Errorf("step %d has no name", s)
		}
	}
	if m := newMachine(phaseDone, 1, true); m.step != stepEnd || m.err != nil || m.followable() {
		t.Errorf("a cutover that is done: %+v", m)
	}
	for _, misuse := range []func(*machine){(*machine).ok, func(m *machine) { m.step = stepHold; m.route(routeSource) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(&machine{step: stepCheck})
		}()
	}
}

// TestOtherServersNames names the servers of both sides.
func TestOtherServersNames(t *testing.T) {
	for standby, want := range map[string]string{"": "between a:1 (backend) and nothing (standby)", "c:1": "between a:1 (backend) and c:1 (standby)"} {
		if err := otherServers(&gatewayclient.Route{Backend: "a:1", Standby: standby}, "x:1", "y:1"); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "from x:1 to y:1") {
			t.Errorf("%v", err)
		}
	}
}
