package throttle

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/testwait"
)

// TestLiveBound checks that a long recording keeps its first point and its greatest value in bounded memory, and that a poll that
// failed is a point without a value.
func TestLiveBound(t *testing.T) {
	l := newLive(nil, 20)
	start := time.Unix(1_000_000, 0)
	const polls, peak = 100_000, 77_777
	for i := range polls {
		v := 1.0
		if i == peak {
			v = 99
		}
		l.add(start.Add(time.Duration(i)*livePoll), v, nil)
	}
	s := l.Status(&Status{})
	if n := len(s.Points); n > livePoints || n < livePoints/2 {
		t.Errorf("%d points, want at most %d and at least half of that", n, livePoints)
	}
	if !s.Points[0].Time.Equal(start) || s.Limit != 20 || s.Error != "" {
		t.Errorf("starts at %v with limit %v and error %q", s.Points[0].Time, s.Limit, s.Error)
	}
	peaks := 0
	for i, p := range s.Points {
		if p.P99 == nil {
			t.Fatalf("point %d has no value", i)
		}
		interval := time.Duration(s.Interval * float64(time.Second))
		if want := start.Add(time.Duration(i) * interval); !p.Time.Equal(want) {
			t.Fatalf("point %d is of %v, want %v", i, p.Time, want)
		}
		if at := start.Add(peak * livePoll); *p.P99 == 99 {
			if peaks++; at.Before(p.Time) || !at.Before(p.Time.Add(interval)) {
				t.Errorf("the peak of %v is in the point of %v", at, p.Time)
			}
		}
	}
	if peaks != 1 {
		t.Errorf("the peak is in %d points", peaks)
	}

	l = newLive(nil, 20)
	l.add(start, 0, errors.New("unreachable"))
	s = l.Status(&Status{Limits: []LimitStatus{{Kind: LimitLag, Bound: 1}, {Kind: LimitP99, Bound: 40}}})
	if len(s.Points) != 1 || s.Points[0].P99 != nil || s.Error != "unreachable" || s.Limit != 40 {
		t.Errorf("after a failed poll: %+v", s)
	}
}

// TestLivePolls checks that the p99 of a gateway is recorded.
func TestLivePolls(t *testing.T) {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/live" {
			t.Errorf("a request for %s", r.URL.Path)
		}
		_, _ = w.Write([]byte(`{"p99_us": 12500}`))
	}))
	defer gateway.Close()
	l := NewLive(gatewayclient.Gateway{URL: gateway.URL}, 20*time.Millisecond)
	defer l.Start(context.Background())()
	testwait.Until(t, "a recorded p99", func() bool { return len(l.Status(&Status{}).Points) > 0 })
	if s := l.Status(&Status{}); s.Points[0].P99 == nil || *s.Points[0].P99 != 12.5 || s.Limit != 20 {
		t.Errorf("%+v", s)
	}
}
