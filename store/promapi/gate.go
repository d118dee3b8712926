package promapi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/prometheus/promql"
)

// A gate bounds the requests that use the storage concurrently and those that wait for it, first in first
// out.
type gate struct {
	maxRunning, maxQueued int

	mu      sync.Mutex
	running int
	queue   []chan struct{} // closed when the waiter may run
	refused uint64
}

// where is the engine's name of its queue in errors.
const where = "query queue"

// ErrTooMany is the cause of the error of a request that found the queue full.
var ErrTooMany = errors.New("too many queries")

// acquire blocks until the request may run. If it returns nil, the caller must call release.
func (g *gate) acquire(ctx context.Context) error {
	g.mu.Lock()
	if g.running < g.maxRunning {
		g.running++
		g.mu.Unlock()
		return nil
	}
	if len(g.queue) >= g.maxQueued {
		g.refused++
		running, queued := g.running, len(g.queue)
		g.mu.Unlock()
		return &Error{Type: Unavailable, Err: fmt.Errorf("%w: %d are running and %d waiting, try again later", ErrTooMany, running, queued)}
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	for i, c := range g.queue {
		if c == turn {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			g.mu.Unlock()
			return queueError(ctx)
		}
	}
	g.mu.Unlock()
	g.release() // its turn came concurrently: pass it on
	return queueError(ctx)
}

// queueError returns the engine's error for a query that is cancelled while it waits.
func queueError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return promql.ErrQueryTimeout(where)
	}
	return promql.ErrQueryCanceled(where)
}

// release admits the first request in the queue, or frees the slot.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) > 0 {
		close(g.queue[0])
		g.queue = g.queue[1:]
		return
	}
	if g.running == 0 {
		panic("BUG: more requests leave the gate than entered")
	}
	g.running--
}

// gateStats is the state of the queue in front of the storage.
type gateStats struct {
	Running, Queued int
	Refused         uint64 // requests that found the queue full, since the start
}

func (g *gate) stats() gateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return gateStats{Running: g.running, Queued: len(g.queue), Refused: g.refused}
}
