package slab

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestGateGrowth runs random queries that are admitted with less than they eventually require. Each grows, or
// releases everything and is admitted again with PerQuery, and then never lacks bytes. All of them finish: a
// query that waited forever would be a deadlock of the bubble.
func TestGateGrowth(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { gateGrowth(t, rand.New(rand.NewPCG(seed, 3))) })
	}
}

func gateGrowth(t *testing.T, random *rand.Rand) {
	const perQuery = 8 * growStep
	light := random.Int64N(3) * growStep
	g := NewGate(GateOptions{Bytes: (1+random.Int64N(4))*perQuery + light + random.Int64N(growStep), PerQuery: perQuery, Light: light})
	keys := []string{"", "a", "b"}
	var all sync.WaitGroup
	again := 0
	var mu sync.Mutex
	for range 60 {
		ask := AdmitOptions{Key: keys[random.IntN(3)], First: random.Int64N(perQuery), Light: random.IntN(3) == 0}
		need, pause := 1+random.Int64N(perQuery), time.Duration(random.Int64N(100))
		random := rand.New(rand.NewPCG(random.Uint64(), 4))
		all.Go(func() {
			time.Sleep(pause)
			err := growingQuery(t, g, ask, need, random)
			if err == nil {
				return
			}
			mu.Lock()
			again++
			mu.Unlock()
			if !errors.Is(err, ErrShort) || errors.Is(err, ErrOverQuota) {
				t.Errorf("a query of %d bytes: %v", need, err)
			} else if err := growingQuery(t, g, AdmitOptions{Key: ask.Key}, need, random); err != nil {
				t.Errorf("a query that has all its bytes: %v", err)
			}
		})
	}
	all.Wait()
	s := g.Stats()
	if s.Held != 0 || s.Running != 0 || s.Waiting != 0 || s.Misused != 0 || s.Peak > s.Bytes || s.Short < int64(again) || s.Admitted != int64(60+again) {
		t.Errorf("at the end: %+v, %d queries were admitted again", s, again)
	}
	if g.main.free != s.Bytes-light || g.light.free != light || len(g.main.keys)+len(g.light.keys) != 0 {
		t.Errorf("at the end: %d and %d bytes are free of %d and %d", g.main.free, g.light.free, s.Bytes-light, light)
	}
}

// growingQuery is admitted and reserves need bytes in steps.
func growingQuery(t *testing.T, g *Gate, ask AdmitOptions, need int64, random *rand.Rand) error {
	q, err := g.AdmitFor(t.Context(), ask)
	if err != nil {
		return err
	}
	defer q.Close()
	var held int64
	defer func() { q.Return(Chunks, held) }()
	for held < need {
		n := min(need-held, 1+random.Int64N(2*growStep))
		if err := q.Reserve(Chunks, n); err != nil {
			return err
		}
		held += n
		if q.Granted() < held {
			t.Errorf("%d bytes are reserved of %d granted", held, q.Granted())
		}
		time.Sleep(time.Duration(random.Int64N(10)))
	}
	return nil
}

// TestGateTurns has one key with many queries and others with one: they are admitted in turn. A query that
// asks for less does not overtake the first in turn, and a light query waits for none of them.
func TestGateTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Bytes: 110, PerQuery: 100, Light: 10})
		running, err := g.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		done := make(chan *Quota)
		wait := func(name string, a AdmitOptions) {
			go func() {
				q, err := g.AdmitFor(t.Context(), a)
				if err != nil {
					t.Error(err)
				}
				order = append(order, name)
				done <- q
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a1", "a2", "a3"} {
			wait(name, AdmitOptions{Key: "a"})
		}
		wait("b", AdmitOptions{Key: "b"})
		wait("c", AdmitOptions{Key: "c", First: 60})
		wait("d", AdmitOptions{Key: "d", First: 60})
		wait("light", AdmitOptions{Key: "a", First: 10, Light: true})
		if s := g.Stats(); s.Waiting != 6 || s.LightWaiting != 0 {
			t.Errorf("%+v", s)
		}
		(<-done).Close()
		running.Close()
		for range 6 {
			(<-done).Close()
			synctest.Wait()
		}
		if want := []string{"light", "a1", "b", "c", "d", "a2", "a3"}; !slices.Equal(order, want) {
			t.Errorf("admitted in the order %v, want %v", order, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.AdmitFor(ctx, AdmitOptions{Key: "x"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
