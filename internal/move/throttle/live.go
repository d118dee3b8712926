package throttle

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/panics"
)

const (
	livePoll   = time.Second
	livePoints = 600 // a page draws them all
)

// A Live records the p99 of a gateway's statements from before work starts until it is over, so that the effect of the work
// on them is visible, whether or not the p99 is limited. Its memory is bounded: when it is full, each two points become one,
// with the greater value.
type Live struct {
	source source

	mu     sync.Mutex
	limit  float64 // the last known, in milliseconds; 0: none
	points []LivePoint
	per    int   // polls per point
	polls  int   // of the last point
	err    error // of the last poll
}

// A LivePoint is the greatest p99 of an interval.
type LivePoint struct {
	Time time.Time `json:"time"`   // of the first poll
	P99  *float64  `json:"p99_ms"` // each value is that of the last second, see gatewayclient.Client.P99; null: unknown
}

// LiveStatus is the p99 of live statements over time.
type LiveStatus struct {
	Limit    float64     `json:"limit_ms"` // 0: there is none
	Interval float64     `json:"interval_seconds"`
	Points   []LivePoint `json:"points"`          // the oldest first
	Error    string      `json:"error,omitempty"` // of the last poll
}

// NewLive returns a Live of a validated gateway. A limit of 0 is none.
func NewLive(g gatewayclient.Gateway, limit time.Duration) *Live {
	return newLive(gatewaySource{gatewayclient.New(&g)}, milliseconds(limit))
}

func newLive(s source, limit float64) *Live { return &Live{source: s, limit: limit, per: 1} }

// Start polls the gateway until the returned function is called.
func (l *Live) Start(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var polling sync.WaitGroup
	polling.Go(func() {
		defer l.source.close()
		err := panics.Guard(func() error {
			l.pollLoop(ctx)
			return nil
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = cmp.Or(err, l.err)
	})
	return func() {
		cancel()
		polling.Wait()
	}
}

func (l *Live) pollLoop(ctx context.Context) {
	next := time.NewTicker(livePoll)
	defer next.Stop()
	for ctx.Err() == nil {
		l.poll(ctx)
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
}

func (l *Live) poll(ctx context.Context) {
	polling, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	v, err := l.source.value(polling)
	if ctx.Err() == nil {
		l.add(time.Now(), v, err)
	}
}

// add records the result of a poll.
func (l *Live) add(now time.Time, v float64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	if len(l.points) == 0 || l.polls == l.per {
		if len(l.points) == livePoints {
			l.halve()
		}
		l.points, l.polls = append(l.points, LivePoint{Time: now}), 0
	}
	l.polls++
	if err == nil {
		raise(&l.points[len(l.points)-1], v)
	}
}

// halve joins each two points.
func (l *Live) halve() {
	for i := range len(l.points) / 2 {
		joined := l.points[2*i]
		if v := l.points[2*i+1].P99; v != nil {
			raise(&joined, *v)
		}
		l.points[i] = joined
	}
	l.points, l.per = l.points[:len(l.points)/2], 2*l.per
}

func raise(p *LivePoint, v float64) {
	if p.P99 == nil || *p.P99 < v {
		p.P99 = &v
	}
}

// Status returns the points so far, and the limit of a throttle, which may have been changed since its start.
func (l *Live) Status(s *Status) LiveStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range s.Limits {
		if s.Limits[i].Kind == LimitP99 {
			l.limit = s.Limits[i].Bound
		}
	}
	status := LiveStatus{Limit: l.limit, Interval: (time.Duration(l.per) * livePoll).Seconds(), Points: slices.Clone(l.points)}
	if l.points == nil {
		status.Points = []LivePoint{}
	}
	if l.err != nil {
		status.Error = l.err.Error()
	}
	return status
}
