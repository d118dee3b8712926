package promapi

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/taredb/tare/internal/testwait"
)

// TestGate expects requests to be admitted in the order of arrival, refused if the queue is full, and removed
// if they are cancelled.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{maxRunning: 2, maxQueued: 3}
		for range 2 {
			if err := g.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		gone, leave := context.WithCancel(t.Context())
		var order []int
		errs := make([]error, 3)
		for i, ctx := range []context.Context{t.Context(), short, gone} {
			go func() {
				errs[i] = g.acquire(ctx)
				order = append(order, i)
			}()
			synctest.Wait() // one after the other
		}
		err := g.acquire(t.Context())
		if e, ok := errors.AsType[*Error](err); !ok || e.Type != Unavailable || e.Err.Error() != "too many queries: 2 are running and 3 waiting, try again later" {
			t.Errorf("with a full queue: %v", err)
		}
		leave()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, ok := errors.AsType[promql.ErrQueryCanceled](errs[2]); !ok {
			t.Errorf("left the queue: %v", errs[2])
		}
		if _, ok := errors.AsType[promql.ErrQueryTimeout](errs[1]); !ok || errs[1].Error() != "query timed out in query queue" {
			t.Errorf("out of time: %v", errs[1])
		}
		if s := g.stats(); s != (gateStats{Running: 2, Queued: 1, Refused: 1}) {
			t.Errorf("two run and one waits, but the gate says %+v", s)
		}
		g.release()
		synctest.Wait()
		if errs[0] != nil || !slices.Equal(order, []int{2, 1, 0}) {
			t.Errorf("the one that stayed: %v, order %v", errs[0], order)
		}
		g.release()
		g.release()
		if s := g.stats(); s != (gateStats{Refused: 1}) {
			t.Errorf("all left, but the gate says %+v", s)
		}
	})
}

// TestGateTurnLost cancels a request while it gets its turn: the turn passes to the next one.
func TestGateTurnLost(t *testing.T) {
	for range 200 {
		g := &gate{maxRunning: 1, maxQueued: 2}
		if err := g.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- g.acquire(ctx) }()
		testwait.Until(t, "the first to wait", func() bool { return g.stats().Queued == 1 })
		go func() { second <- g.acquire(t.Context()) }()
		testwait.Until(t, "the second to wait", func() bool { return g.stats().Queued == 2 })
		go cancel()
		g.release()
		if err := testwait.Receive(t, "the first in the queue", first); err == nil {
			g.release()
		}
		if err := testwait.Receive(t, "the second in the queue", second); err != nil {
			t.Fatalf("the second in the queue: %v", err)
		}
		g.release()
		if s := g.stats(); s.Running != 0 || s.Queued != 0 {
			t.Fatalf("all left, but the gate says %+v", s)
		}
	}
}
