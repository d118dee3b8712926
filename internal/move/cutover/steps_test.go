package cutover

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestStatementsFail has the source and the target fail at each login and statement of each operation of a cutover, in turn: the operation fails with the
// server's error.
func TestStatementsFail(t *testing.T) {
	s := newSides(t)
	proxy := testproxy.StartFaulty(t, s.direct.Addr)
	back := s.direct
	back.Addr = proxy.Addr
	k := &cut{copied: s.copy("dst")}
	direct, through := s.source, testrows.Direct(t, back)
	k.g = newModelGateway(t, back.Addr, s.through.Addr)
	r := record{k.state}
	refused := 0 // a request to the gateway
	var said atomic.Bool
	open := func(window time.Duration) (*Cutover, error) {
		s.source = through
		defer func() { s.source = direct }()
		o, copy := k.options(), k.of()
		o.Back, o.MaxPause, o.Tries, o.Window = back, 20*time.Second, 1, window
		copy.Observe = func(e telemetry.Event) {
			if e.Text == "the gateway says that its clients are at the target" {
				said.Store(true)
			}
		}
		return Open(t.Context(), o, copy)
	}
	described, err := open(time.Hour)
	s.must(err)
	defer described.Close()
	s.must(errors.Join(described.mayReverse(t.Context()), described.describeReversed(t.Context())))
	for _, o := range []struct {
		name     string
		recorded phase
		window   time.Duration
		do       func(context.Context, *Cutover) error
	}{
		{"check", phaseNone, 0, func(ctx context.Context, x *Cutover) error { return x.Check(ctx) }},
		{"start", phaseNone, time.Hour, func(ctx context.Context, x *Cutover) error { return x.Start(ctx) }},
		{"commit", phaseCutting, 0, func(ctx context.Context, x *Cutover) error {
			if err := x.Start(ctx); err != nil {
				return err
			}
			err := x.Finish(ctx)
			if err == nil && !said.Swap(false) {
				t.Error("a switch of an earlier run is not reported")
			}
			return err
		}},
		{"describe", phaseNone, time.Hour, func(ctx context.Context, x *Cutover) error {
			x.back = described.back
			defer func() { x.back = nil }()
			return x.describeReversed(ctx)
		}},
		{"reverse", phaseCut, time.Hour, func(ctx context.Context, x *Cutover) error {
			x.back, x.reversed = described.back, described.reversed
			defer func() { x.back = nil }()
			there, from, err := x.openReverse(ctx)
			if err != nil {
				return err
			}
			defer state.CloseLease(there.c)
			if from != k.from || x.m.phase != phaseReversing || k.phase() != phaseReversing {
				t.Errorf("the reverse stream starts at %v, want %v, with the phase %q", from, k.from, x.m.phase)
			}
			return x.raiseBack(ctx, there)
		}},
		{"whole", phaseNone, 0, func(ctx context.Context, x *Cutover) error {
			limited, cancel := context.WithTimeout(ctx, testwait.Limit)
			defer cancel()
			if err := x.Start(limited); err != nil {
				return err
			}
			s.source = through
			f := k.follower()
			s.source = direct
			err = x.Follow(limited, f, f.Run)
			if report := x.Report(); err == nil && (report.Phase != string(phaseDone) || k.phase() != phaseDone || said.Load()) {
				t.Errorf("the whole: %+v, reported as a switch of an earlier run: %t", report, said.Load())
			}
			return err
		}},
	} {
		do := func() error {
			if o.name != "check" && o.name != "describe" {
				k.reset()
			}
			k.g.set(refused, testproxy.Refused)
			if o.recorded != phaseNone {
				k.g.address = k.g.to
				s.must(r.recordCutting(t.Context(), k.holder, k.from, k.from))
			}
			if o.recorded != phaseNone && o.recorded != phaseCutting {
				s.must(r.recordPhase(t.Context(), k.holder, o.recorded))
			}
			x, err := open(o.window)
			if err != nil {
				return err
			}
			defer x.Close()
			return o.do(t.Context(), x)
		}
		s.must(do())
		if o.recorded == phaseNone {
			t.Run(o.name+", the gateway", func(t *testing.T) {
				requests, _, _ := k.g.now()
				for at, request := range requests {
					if strings.HasSuffix(request, "/release") {
						continue // of no pause, which a gateway refuses that may be switched
					}
					refused = at + 1
					err := do()
					if err == nil || !strings.Contains(err.Error(), testproxy.RefusedText) {
						t.Errorf("the gateway refused %s: %v", request, err)
					}
					refused = 0
					_, address, paused := k.g.now()
					if phase := k.phase(); phase != phaseNone || address != k.g.from || paused {
						t.Errorf("the gateway refused %s: record %q, clients at %s, paused %t", request, phase, address, paused)
					}
				}
			})
		}
		for name, p := range map[string]*testproxy.Faulty{"source": proxy, "target": s.proxy} {
			t.Run(o.name+", "+name, func(t *testing.T) {
				p.Set(0, "")
				if s.must(do()); len(p.Packets()) > 0 {
					p.EachFails(t, do, "SELECT VERSION(), CONNECTION_ID(),", "SET @@SESSION.max_statement_time = ", // settings that are set in other forms then
						"SELECT RELEASE_ALL_LOCKS()", "SHOW BINARY LOGS", "\x04") // not needed, and a stream, which is opened again
				}
			})
		}
	}
}

// switched matches the events of a switch.
var switched = regexp.MustCompile(`(?s)the gateway holds all commands, for at most 200ms\n.*1 sessions are at the target; commands waited for at most \S+; it has all of the source before \S+ [0-9]+`)

// TestWait has each cause that prevents a switch: rows that differ, clients that are elsewhere, and sessions that cannot be switched.
func TestWait(t *testing.T) {
	s := newSides(t)
	k := &cut{copied: s.copy("dst")}
	k.g = newModelGateway(t, s.source.Addr(), s.through.Addr)
	for _, c := range []struct {
		name   string
		change func(*Options, *Copy)
		pinned bool
		want   string // of the error; "": none
		event  string
		phase  phase
	}{
		{"rows differ", func(_ *Options, c *Copy) { c.Unequal = func() int { return 1 } }, false, "", "rows differ between the two sides", phaseNone},
		{"clients are elsewhere", func(o *Options, c *Copy) {
			o.Lag = -1 // is never reached
			c.Unequal = func() int {
				k.g.mu.Lock()
				defer k.g.mu.Unlock()
				k.g.address = k.g.to
				return 0
			}
		}, false, "no cutover of this copy has brought them there", "", phaseNone},
		{"sessions that let go", func(o *Options, _ *Copy) { o.ClosePinned = testwait.Limit }, true, "", `1 sessions cannot be switched, and are closed in`, phaseDone},
		{"sessions that do not let go", func(o *Options, _ *Copy) { o.ClosePinned = time.Millisecond }, true, "", `connection 7 of user "u": it has a lock`, phaseDone},
		{"sessions that are not closed", func(*Options, *Copy) {}, true, "", "", phaseDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			k.reset()
			k.g.set(0, "")
			k.g.pinned = 0
			if c.pinned {
				k.g.pinned = 2 // are reported twice
			}
			o, copy := k.options(), k.of()
			var mu sync.Mutex
			var texts []string
			copy.Observe = func(e telemetry.Event) {
				mu.Lock()
				defer mu.Unlock()
				texts = append(texts, e.Text)
			}
			c.change(o, &copy)
			_, err := k.runWith(o, copy)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || k.phase() != c.phase {
				t.Errorf("got %v, want %q, record %q", err, c.want, k.phase())
			}
			all := strings.Join(texts, "\n")
			if c.phase == phaseDone && !switched.MatchString(all) {
				t.Errorf("events %q", texts)
			}
			if !strings.Contains(all, c.event) || c.event == "" && strings.Contains(all, "cannot be switched") {
				t.Errorf("events %q, want %q", texts, c.event)
			}
		})
	}
}

// TestPartsMissing waits for parts that do not follow yet.
func TestPartsMissing(t *testing.T) {
	h, err := NewHandover(HandoverOptions{Source: mysqlconn.Config{Addr: "x:1"}, Observe: func(telemetry.Event) {}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if parts, err := h.wait(ctx); parts != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", parts, err)
	}
}
