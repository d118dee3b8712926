package frontend

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// TestHedge delays one shard of four: it is requested a second time, from another replica or from the same
// member, and the first response is used. The other request is cancelled, whatever its result.
func TestHedge(t *testing.T) {
	ok := hasSeries(2)
	canceled := func(w http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		first, second func(other <-chan struct{}) shardResponse // other is closed when the other one has responded
		arrived       bool                                      // the first waits until the second request has arrived
		members       bool
		code          int
		won           float64
	}{
		"the second wins":            {first: func(<-chan struct{}) shardResponse { return canceled }, second: func(<-chan struct{}) shardResponse { return ok }, code: 200, won: 1},
		"the second of a member":     {first: func(<-chan struct{}) shardResponse { return canceled }, second: func(<-chan struct{}) shardResponse { return ok }, members: true, code: 200, won: 1},
		"the first wins":             {first: func(<-chan struct{}) shardResponse { return ok }, second: func(<-chan struct{}) shardResponse { return canceled }, arrived: true, code: 200},
		"the first fails":            {first: func(<-chan struct{}) shardResponse { return fails(500, "text/plain", "boom") }, second: after(ok), arrived: true, code: 200, won: 1},
		"the second fails":           {first: after(ok), second: func(<-chan struct{}) shardResponse { return fails(503, "text/plain", "busy") }, arrived: true, code: 200},
		"the second is refused":      {first: after(ok), second: func(<-chan struct{}) shardResponse { return fails(429, "text/plain", "busy") }, arrived: true, code: 200},
		"the first is refused":       {first: func(<-chan struct{}) shardResponse { return fails(413, "text/plain", "big") }, second: func(<-chan struct{}) shardResponse { return canceled }, arrived: true, code: 413},
		"both fail, the first first": {first: func(<-chan struct{}) shardResponse { return fails(500, "text/plain", "boom") }, second: after(fails(503, "text/plain", "busy")), arrived: true, code: 500},
		"both fail, the other first": {first: after(fails(500, "text/plain", "boom")), second: func(<-chan struct{}) shardResponse { return fails(503, "text/plain", "busy") }, arrived: true, code: 500},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			requests := 0
			// Closed when these requests have arrived. A hedge is sent after the responses of the other shards. These wait
			// for the first request, so that it arrives before the hedge.
			first, second := make(chan struct{}), make(chan struct{})
			others := func(w http.ResponseWriter, r *http.Request, shard string) {
				select {
				case <-first:
				case <-r.Context().Done():
				}
				ok(w, r, shard)
			}
			responded := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
			slow := func(w http.ResponseWriter, r *http.Request, shard string) {
				mu.Lock()
				n := requests
				requests++
				mu.Unlock()
				switch n {
				case 0:
					close(first)
					if c.arrived {
						<-second
					}
					defer close(responded[0])
					c.first(responded[1])(w, r, shard)
				case 1:
					close(second)
					defer close(responded[1])
					c.second(responded[0])(w, r, shard)
				default:
					t.Errorf("request %d for one shard", n+1)
				}
			}
			replies := []shardResponse{onlyShard("2_of_4", slow, others), onlyShard("2_of_4", slow, others)}
			if c.members {
				replies = replies[:1]
			}
			l := newFleet(t, c.members, func(o *Options) { o.Hedge = 1 }, replies...)
			r := l.get("")
			if r.code != c.code {
				t.Fatalf("status %d: %s", r.code, r.body)
			}
			if c.code == http.StatusOK {
				if diff := cmp.Diff(wantSeries(t, 4, 2), r.series(t)); diff != "" {
					t.Errorf("series (-want +got):\n%s", diff)
				}
			}
			testwait.Receive(t, "the response or cancellation of the first request", responded[0])
			testwait.Receive(t, "the response or cancellation of the second request", responded[1])
			m := l.frontend.metrics
			if sent, won := testutil.ToFloat64(m.hedges), testutil.ToFloat64(m.hedgesWon); sent != 1 || won != c.won {
				t.Errorf("%v sent, %v won; want 1, %v", sent, won, c.won)
			}
			if n := testutil.ToFloat64(m.retries); n != 0 {
				t.Errorf("%v retries beside the hedge", n)
			}
		})
	}
}

// after responds when the other request has been served.
func after(result shardResponse) func(<-chan struct{}) shardResponse {
	return func(other <-chan struct{}) shardResponse {
		return func(w http.ResponseWriter, r *http.Request, shard string) {
			select {
			case <-other:
			case <-r.Context().Done():
			}
			result(w, r, shard)
		}
	}
}

// TestHedgeLeft disconnects a client while two requests for a shard run: both are cancelled.
func TestHedgeLeft(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	arrived := make(chan struct{}, 2)
	slow := func(_ http.ResponseWriter, r *http.Request, _ string) {
		defer both.Done()
		arrived <- struct{}{}
		<-r.Context().Done()
	}
	l := newFleet(t, false, func(o *Options) { o.Hedge = 1 }, onlyShard("2_of_4", slow, hasSeries(2)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/api/v1/cardinality/active_series?selector=up", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Error("a response of shards that never responded")
		}
	}()
	testwait.Receive(t, "the first request", arrived)
	testwait.Receive(t, "the second request", arrived)
	cancel()
	testwait.Group(t, "the end of both requests", &both)
}

// TestHedgeBudget expects hedges to stay within their fraction of the requests, at any time.
func TestHedgeBudget(t *testing.T) {
	rng := testseed.Rand(t)
	for range 100 {
		fraction := rng.Float64() * 0.2
		if rng.IntN(10) == 0 {
			fraction = 0
		}
		b := newHedgeBudget(fraction)
		requests, spent := 0, 0
		for range 1000 {
			n := rng.IntN(32)
			b.earn(n)
			requests += n
			for range rng.IntN(3) {
				if b.spend() {
					spent++
				}
			}
			if float64(spent) > fraction*float64(requests) {
				t.Fatalf("%d hedges of %d requests, want at most %v of them", spent, requests, fraction)
			}
		}
		if fraction > 0.05 && spent == 0 {
			t.Errorf("no hedge in %d requests, with %v of them", requests, fraction)
		}
	}
}
