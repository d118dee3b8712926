package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// A beatenSource takes heartbeats, or fails to.
type beatenSource struct {
	binlog.Follower
	err     error
	written []binlog.Heartbeat
	deleted []binlog.Heartbeat
}

func (s *beatenSource) WriteHeartbeat(_ context.Context, h binlog.Heartbeat) error {
	if s.err == nil {
		s.written = append(s.written, h)
	}
	return s.err
}

func (s *beatenSource) DeleteHeartbeat(_ context.Context, h binlog.Heartbeat) error {
	s.deleted = append(s.deleted, h)
	return s.err
}

func (s *beatenSource) CheckHeartbeat(_ context.Context, h binlog.Heartbeat) error {
	if h.Number != 1 {
		return fmt.Errorf("heartbeat %d", h.Number)
	}
	return s.err
}

// TestHeartbeatModel writes, reads and applies heartbeats at random times: the lag, its age and what is due, fresh or missing are those of a model.
func TestHeartbeatModel(t *testing.T) {
	rnd := testseed.Rand(t)
	lost := errors.New("lost")
	for range 60 {
		s := &beatenSource{}
		now := time.Unix(1000, 0)
		waits := telemetry.Waits{Observe: func(telemetry.Event) {}}
		h := NewHeartbeat(HeartbeatOptions{Source: s, Copy: "c", Waits: &waits, Observe: func(telemetry.Event) {}, Tables: []*tabledef.Table{{Source: &rowstream.Table{Schema: "z"}}, {Source: &rowstream.Table{Schema: "a"}}, {Source: &rowstream.Table{Schema: "z"}}}})
		h.now = func() time.Time { return now }
		type beat struct {
			number uint64
			at     time.Time
		}
		var sent []beat
		var proven beat
		var applied, idle, failing time.Time
		var number, seen uint64
		for range 120 {
			now = now.Add([]time.Duration{0, 10 * time.Millisecond, 400 * time.Millisecond, time.Second, 3 * time.Second, 11 * time.Second}[rnd.IntN(6)])
			switch rnd.IntN(5) {
			case 0, 1:
				if s.err = nil; rnd.IntN(4) == 0 {
					s.err = lost
				}
				got, err := h.beat(t.Context())
				if number++; !errors.Is(err, s.err) || err == nil && got != number {
					t.Fatalf("heartbeat %d: %d, %v", number, got, err)
				}
				if err == nil {
					sent, failing = append(sent, beat{number, now}), time.Time{}
				} else if failing.IsZero() {
					failing = now
				}
			case 2:
				b := &binlog.ChangeBatch{}
				b.Heartbeat, b.Idle = rnd.Uint64N(number+1), rnd.IntN(2) == 0
				h.read(b)
				if seen = max(seen, b.Heartbeat); b.Idle {
					idle = now
				}
			case 3:
				upto := rnd.Uint64N(number + 1)
				h.applied(upto)
				for len(sent) > 0 && sent[0].number <= upto {
					proven, applied, sent = sent[0], now, sent[1:]
				}
			}
			since, err := h.unwritten()
			if (err != nil) != !failing.IsZero() || err != nil && since != now.Sub(failing) {
				t.Fatalf("not written for %v: %v", since, err)
			}
			if got := len(waits.Status()); (got == 1) != !failing.IsZero() || got > 1 {
				t.Fatalf("%d waits, failing since %v", got, failing)
			}
			if got := h.provenUpto(); got != proven.number {
				t.Fatalf("proven %d, want %d", got, proven.number)
			}
			last := proven.at
			if len(sent) > 0 {
				last = sent[len(sent)-1].at
			}
			for _, hasty := range []bool{false, true} {
				if want := now.Sub(last) >= beatPause || hasty && len(sent) == 0; h.due(hasty) != want {
					t.Fatalf("due %t, want %t", !want, want)
				}
			}
			if want := proven.number > 0 && applied.Sub(proven.at) <= beatFresh && now.Sub(applied) <= 2*beatPause; h.fresh() != want {
				t.Fatalf("fresh %t", !want)
			}
			var missing time.Duration
			for _, b := range sent {
				if b.number > seen {
					if idle.Sub(b.at) >= beatMissing {
						missing = now.Sub(b.at)
					}
					break
				}
			}
			if got := h.missing(); got != missing {
				t.Fatalf("missing for %v, want %v", got, missing)
			}
			behind, age := h.lag()
			switch {
			case proven.number == 0:
				if behind != nil || age != nil {
					t.Fatal("a lag without a proof")
				}
			case *age != now.Sub(applied).Seconds() || (behind == nil) != (now.Sub(applied) > lagUnknown):
				t.Fatalf("the lag's age is %v", *age)
			case behind != nil:
				want := applied.Sub(proven.at)
				if len(sent) > 0 {
					want = max(want, now.Sub(sent[0].at))
				}
				if *behind != want.Seconds() {
					t.Fatalf("the lag is %v, want %v", *behind, want)
				}
			}
		}
		for i, w := range s.written {
			if w.Copy != "c" || w.Run != s.written[0].Run || w.Run == "" || strings.Join(w.Schemas, " ") != "a z" || i > 0 && w.Number <= s.written[i-1].Number {
				t.Fatalf("%+v", w)
			}
		}
	}
}

// TestHeartbeatEnds deletes heartbeats at the end: what fails is reported, and the wait for the source is over.
func TestHeartbeatEnds(t *testing.T) {
	lost := errors.New("lost")
	for _, fails := range []error{nil, lost} {
		s := &beatenSource{err: lost}
		waits := telemetry.Waits{Observe: func(telemetry.Event) {}}
		var events []string
		h := NewHeartbeat(HeartbeatOptions{Copy: "c", Waits: &waits, Observe: func(e telemetry.Event) { events = append(events, string(e.Kind)+" "+e.Text) }})
		h.Use(s)
		if _, err := h.beat(t.Context()); !errors.Is(err, lost) || len(waits.Status()) != 1 {
			t.Errorf("%v, waits %v", err, waits.Status())
		}
		s.err = fails
		if err := h.Check(t.Context()); !errors.Is(err, fails) {
			t.Errorf("checked: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		h.End(gone)
		want := "[]"
		if fails != nil {
			want = "[" + string(telemetry.EventRetry) + " heartbeats remain in the source: lost]"
		}
		if fmt.Sprint(events) != want || len(waits.Status()) != 0 || len(s.deleted) != 1 || s.deleted[0].Copy != "c" || s.deleted[0].Run != h.run {
			t.Errorf("%v: events %v, waits %v, deleted %+v", fails, events, waits.Status(), s.deleted)
		}
		h.End(t.Context())
		if len(s.deleted) != 2 {
			t.Errorf("again: %+v", s.deleted)
		}
	}
	var none *Heartbeat
	none.Use(nil)
	none.read(&binlog.ChangeBatch{})
	none.applied(3)
	none.End(t.Context())
}
