package slab

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/taredb/tare/internal/testseed"
)

// TestKeyLimits has random queries of random keys with random limits arrive, grow and leave: no key exceeds
// its limits, no query waits that may run, and all are admitted at the end.
func TestKeyLimits(t *testing.T) {
	seed := testseed.New(t)
	for round := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { keyLimits(t, rand.New(rand.NewPCG(seed, round))) })
	}
}

func keyLimits(t *testing.T, random *rand.Rand) {
	var mu sync.Mutex
	limits := map[string]KeyLimits{}
	change := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, key := range []string{"a", "b"} {
			limits[key] = KeyLimits{Bytes: 10 + random.Int64N(40), Requests: 1 + random.IntN(4), Queue: 3 + random.IntN(5)}
		}
	}
	change()
	of := func(key string) KeyLimits {
		mu.Lock()
		defer mu.Unlock()
		return limits[key]
	}
	g := NewGate(GateOptions{Bytes: 100, PerQuery: 30, Light: 20, Limits: of})
	type query struct {
		key   string
		quota *Quota
		err   error
		done  bool
		over  context.CancelFunc
	}
	var all []*query
	check := func() {
		t.Helper()
		synctest.Wait()
		g.Keys(func(key string, s KeyStats) {
			if l := limits[key]; l.Requests > 0 && (s.Running > l.Requests || s.Bytes > l.Bytes || s.Waiting > l.Queue) {
				t.Fatalf("key %s has %+v, its limits are %+v", key, s, l)
			}
		})
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, l := range []*lane{&g.main, &g.light} {
			if w := g.nextLocked(l); w != nil && w.first <= l.free {
				t.Fatalf("a query of key %s waits for %d bytes, of %d that are free", w.turn.key, w.first, l.free)
			}
		}
	}
	for range 200 {
		switch n := random.IntN(10); {
		case n < 5:
			ctx, cancel := context.WithCancel(t.Context())
			q := &query{key: []string{"a", "b", "c", "d"}[random.IntN(4)], over: cancel}
			all = append(all, q)
			ask := AdmitOptions{Key: q.key, First: 1 + random.Int64N(30), Light: random.IntN(3) == 0}
			go func() {
				q.quota, q.err = g.AdmitFor(ctx, ask)
				q.done = true
			}()
		case n < 6:
			for _, q := range all {
				if q.done && q.err == nil {
					held := q.quota.Used()
					if q.quota.Reserve(Chunks, random.Int64N(20)) == nil {
						q.quota.Return(Chunks, q.quota.Used()-held)
					}
					synctest.Wait() // its growth may have admitted others
				}
			}
		default:
			if len(all) == 0 {
				continue
			}
			i := random.IntN(len(all))
			q := all[i]
			all = append(all[:i], all[i+1:]...)
			q.over()
			synctest.Wait()
			if q.err == nil {
				q.quota.Close()
			} else if !errors.Is(q.err, context.Canceled) && !errors.Is(q.err, ErrQueueFull) {
				t.Fatal(q.err)
			}
		}
		check()
	}
	mu.Lock()
	limits = map[string]KeyLimits{"a": {Bytes: 5, Requests: 1}} // lowered while queries wait for more
	mu.Unlock()
	g.Recheck()
	for len(all) > 0 {
		synctest.Wait()
		var left, over []*query
		for _, q := range all {
			if q.done {
				over = append(over, q)
			} else {
				left = append(left, q)
			}
		}
		for _, q := range over {
			if q.over(); q.err == nil {
				q.quota.Close()
			}
		}
		if len(left) == len(all) {
			t.Fatalf("%d queries are never admitted: %+v", len(left), g.Stats())
		}
		all = left
	}
	if s := g.Stats(); s.Running != 0 || s.Waiting != 0 || s.Held != 0 || s.Misused != 0 || len(g.accounts) != 0 || g.main.free != 80 || g.light.free != 20 {
		t.Errorf("at the end: %+v, accounts %v, free %d and %d", s, g.accounts, g.main.free, g.light.free)
	}
}

// TestKeyLimitsByExample has a key at its limits while another runs beside it, overtaking its waiting
// queries.
func TestKeyLimitsByExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]KeyLimits{"small": {Bytes: 40, Requests: 2, Queue: 1}}
		g := NewGate(GateOptions{Bytes: 1000, PerQuery: 100, Limits: func(key string) KeyLimits { return limits[key] }})
		admit := func(key string, first int64) *Quota {
			t.Helper()
			q, err := g.AdmitFor(t.Context(), AdmitOptions{Key: key, First: first})
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		first, second := admit("small", 10), admit("small", 10)
		waits := make(chan *Quota, 1)
		go func() {
			q, err := g.AdmitFor(t.Context(), AdmitOptions{Key: "small", First: 100})
			if err != nil {
				t.Error(err)
			}
			waits <- q
		}()
		synctest.Wait()
		if _, err := g.AdmitFor(t.Context(), AdmitOptions{Key: "small", First: 1}); !errors.Is(err, ErrQueueFull) || err.Error() != "the queue is full: 1 queries wait already" {
			t.Errorf("past the queue: %v", err)
		}
		other := admit("other", 100) // overtakes the waiting one
		if err := first.Reserve(Chunks, 31); !errors.Is(err, ErrShort) {
			t.Errorf("growth past the bytes of the key: %v", err)
		}
		if err := first.Reserve(Chunks, 30); err != nil {
			t.Errorf("growth to the bytes of the key: %v", err)
		}
		first.Return(Chunks, 30)
		second.Close()
		synctest.Wait()
		if s := g.Stats(); s.Waiting != 1 {
			t.Errorf("40 bytes were admitted beside the 30 of the same key: %+v", s)
		}
		limits["small"] = KeyLimits{Bytes: 70, Requests: 2}
		g.Recheck()
		q := <-waits
		if q.Allowed() != 40 {
			t.Errorf("a query of the key may hold %d bytes", q.Allowed())
		}
		for _, q := range []*Quota{first, other, q} {
			q.Close()
		}
		if s := g.Stats(); s.Full != 1 || s.Running != 0 {
			t.Errorf("at the end: %+v", s)
		}
	})
}
