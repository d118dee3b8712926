package slab

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/taredb/tare/internal/testwait"
)

// TestGateOrder has three queries wait for one slot: they get it in order of arrival, and a cancelled one
// leaves the queue.
func TestGateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Bytes: 100, PerQuery: 100})
		first, err := g.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		why := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		type outcome struct {
			name  string
			quota *Quota
			err   error
		}
		done := make(chan outcome, 3)
		for _, name := range []string{"a", "b", "c"} {
			use := t.Context()
			if name == "b" {
				use = ctx
			}
			go func() {
				q, err := g.Admit(use)
				done <- outcome{name, q, err}
			}()
			synctest.Wait() // each one is queued before the next
		}
		if s := g.Stats(); s.Running != 1 || s.Waiting != 3 {
			t.Fatalf("stats: got %+v, want 1 running and 3 waiting", s)
		}
		cancel(why)
		if o := <-done; o.name != "b" || !errors.Is(o.err, why) || o.quota != nil {
			t.Fatalf("after the cancel: got %+v, want b to fail with its cause", o)
		}
		first.Close()
		a := <-done
		if a.name != "a" || a.err != nil {
			t.Fatalf("after the first: got %+v, want a", a)
		}
		synctest.Wait()
		if s := g.Stats(); s.Running != 1 || s.Waiting != 1 {
			t.Fatalf("stats: got %+v, want 1 running and 1 waiting", s)
		}
		a.quota.Close()
		c := <-done
		if c.name != "c" || c.err != nil {
			t.Fatalf("at last: got %+v, want c", c)
		}
		c.quota.Close()
		want := GateStats{Bytes: 100, PerQuery: 100, Queries: 1, Admitted: 3, Cancelled: 1}
		if s := g.Stats(); s != want {
			t.Errorf("stats: got %+v, want %+v", s, want)
		}
	})
}

// TestGateEndedContext shows that a context that is done is refused although there is room.
func TestGateEndedContext(t *testing.T) {
	g := NewGate(GateOptions{Bytes: 100, PerQuery: 100})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if q, err := g.Admit(ctx); q != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, %v", q, err)
	}
	if s := g.Stats(); s.Running != 0 || s.Cancelled != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// TestGateModel performs random arrivals, departures and cancellations on gates of random size, and compares
// with a model: a list of waiting and a set of running queries.
func TestGateModel(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { gateModel(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

type modelQuery struct {
	cancel context.CancelFunc
	quota  *Quota // written by its goroutine before done is closed
	err    error
	done   chan struct{}
}

func (q *modelQuery) over() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

func gateModel(t *testing.T, random *rand.Rand) {
	places := 1 + random.IntN(4)
	g := NewGate(GateOptions{Bytes: int64(places)*10 + random.Int64N(10), PerQuery: 10})
	var running, waiting []*modelQuery
	admit := func() {
		for len(running) < places && len(waiting) > 0 {
			running, waiting = append(running, waiting[0]), waiting[1:]
		}
	}
	takeOut := func(from *[]*modelQuery) *modelQuery {
		i := random.IntN(len(*from))
		q := (*from)[i]
		*from = slices.Delete(*from, i, i+1)
		return q
	}
	var admitted, cancelled int64
	for range 300 {
		switch what := random.IntN(10); {
		case what < 5:
			ctx, cancel := context.WithCancel(t.Context())
			q := &modelQuery{cancel: cancel, done: make(chan struct{})}
			go func() {
				q.quota, q.err = g.Admit(ctx)
				close(q.done)
			}()
			waiting = append(waiting, q)
			admit()
		case what < 8 && len(running) > 0:
			q := takeOut(&running)
			q.quota.Close()
			q.cancel()
			admitted++
			admit()
		case what == 8 && len(waiting) > 0:
			q := takeOut(&waiting)
			q.cancel()
			<-q.done
			cancelled++
			if q.err == nil {
				t.Fatal("a cancelled query was admitted")
			}
		case what == 9 && len(waiting) > 0 && len(running) > 0:
			// Concurrently: nothing is lost in whichever order the gate sees them.
			leaves, gone := takeOut(&running), takeOut(&waiting)
			var both sync.WaitGroup
			both.Go(leaves.quota.Close)
			both.Go(gone.cancel)
			both.Wait()
			<-gone.done
			leaves.cancel()
			admitted++
			if gone.err == nil { // admitted before it was cancelled
				gone.quota.Close()
				admitted++
			} else {
				cancelled++
			}
			admit()
		}
		synctest.Wait()
		for _, q := range running {
			if !q.over() || q.err != nil {
				t.Fatalf("a query that is the gate's next is not admitted: %v", q.err)
			}
		}
		for _, q := range waiting {
			if q.over() {
				t.Fatalf("a query is served before its turn: %v", q.err)
			}
		}
		s := g.Stats()
		if s.Running != len(running) || s.Waiting != len(waiting) || s.Cancelled != cancelled ||
			s.Admitted != admitted+int64(len(running)) {
			t.Fatalf("stats: got %+v, want %d running, %d waiting, %d cancelled, %d admitted",
				s, len(running), len(waiting), cancelled, admitted+int64(len(running)))
		}
	}
	for len(running) > 0 || len(waiting) > 0 {
		q := running[0]
		running = running[1:]
		<-q.done
		q.quota.Close()
		q.cancel()
		admit()
	}
}

// TestGateStress has many goroutines arrive, reserve, and finish or give up, under the race detector.
func TestGateStress(t *testing.T) {
	g := NewGate(GateOptions{Bytes: 300, PerQuery: 100})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 2))
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(3) == 0 {
					go cancel()
				}
				q, err := g.Admit(ctx)
				if err != nil {
					cancel()
					continue
				}
				what, n := Purpose(random.IntN(int(purposes))), random.Int64N(101)
				if err := q.Reserve(what, n); err != nil {
					t.Errorf("reserve %d of 100: %v", n, err)
				}
				if held := g.Stats().Held; held > 300 {
					t.Errorf("held: got %d, want at most 300", held)
				}
				q.Return(what, n)
				q.Close()
				cancel()
			}
		})
	}
	testwait.Group(t, "the queries", &all)
	if s := g.Stats(); s.Running != 0 || s.Waiting != 0 || s.Held != 0 || s.Misused != 0 || s.Admitted+s.Cancelled < 16*200 {
		t.Errorf("stats at the end: %+v", s)
	}
}

func TestGateOptions(t *testing.T) {
	for _, o := range []GateOptions{{}, {Bytes: 10}, {Bytes: 10, PerQuery: 11}, {Bytes: 10, PerQuery: -1}} {
		if o.Validate() == nil {
			t.Errorf("%+v passes", o)
		}
	}
	if err := (GateOptions{Bytes: 10, PerQuery: 10}).Validate(); err != nil {
		t.Error(err)
	}
}
