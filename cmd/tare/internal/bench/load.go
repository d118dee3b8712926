package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// An operation is the unit of a latency measurement.
type operation func(ctx context.Context, s *connection, rng *rand.Rand) error

// stopGrace is the time limit for current operations after the load is stopped.
const stopGrace = 10 * time.Second

// counts are the results of one period.
type counts struct {
	latency    latencies // of operations, from their due times
	operations uint64    // including conflicts
	queries    uint64
	rows       uint64
	conflicts  uint64
}

// latencies are durations with their exact maximum. An open loop records from the due time, so that a stalled server
// counts (coordinated omission).
type latencies struct {
	stmtstats.Histogram
	longest time.Duration
}

func (l *latencies) record(d time.Duration) {
	l.Record(d)
	l.longest = max(l.longest, d)
}

// quantile returns a quantile, which is at most the maximum.
func (l *latencies) quantile(q float64) time.Duration { return min(l.Quantile(q), l.longest) }

func (l *latencies) merge(other *latencies) {
	l.Merge(&other.Histogram)
	l.longest = max(l.longest, other.longest)
}

func (c *counts) merge(other *counts) {
	c.latency.merge(&other.latency)
	c.operations += other.operations
	c.queries += other.queries
	c.rows += other.rows
	c.conflicts += other.conflicts
}

// A load is a set of threads that repeat an operation.
type load struct {
	op      operation
	every   time.Duration // interval between operations of all threads; 0: closed loop
	began   time.Time
	due     atomic.Int64 // operations assigned to a thread, in an open loop
	threads []*thread
	stopped chan struct{} // closed to stop the threads
	failed  chan error    // receives the first failure
	running sync.WaitGroup
}

// A thread is one connection of a load.
type thread struct {
	session *connection
	rng     *rand.Rand

	mu  sync.Mutex // locked briefly for counting
	now *counts    // under mu
}

// startLoad connects threads and starts them. A rate above 0 is operations per second of all threads.
func startLoad(ctx context.Context, c *connector, threads int, rate float64, op operation) (*load, error) {
	l := &load{op: op, stopped: make(chan struct{}), failed: make(chan error, 1)}
	if rate > 0 {
		l.every = time.Duration(float64(time.Second) / rate)
	}
	for i := range threads {
		s, err := c.connect(ctx)
		if err != nil {
			return nil, errors.Join(err, l.stop())
		}
		l.threads = append(l.threads, &thread{session: s, rng: rand.New(rand.NewPCG(uint64(i), 0x7a1e)), now: new(counts)})
	}
	l.began = time.Now()
	for _, t := range l.threads {
		l.running.Go(func() { l.work(t) })
	}
	return l, nil
}

// work repeats the operation until the load is stopped or an operation fails.
func (l *load) work(t *thread) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		start := time.Now()
		if l.every > 0 {
			start = l.began.Add(time.Duration(l.due.Add(1)-1) * l.every)
			timer.Reset(time.Until(start))
			select {
			case <-l.stopped:
				return
			case <-timer.C:
			}
		}
		select {
		case <-l.stopped:
			return
		default:
		}
		queries, rows := t.session.queries, t.session.rows
		err := l.op(context.Background(), t.session, t.rng)
		if err != nil && !errors.Is(err, errConflict) {
			select {
			case l.failed <- err:
			default:
			}
			return
		}
		t.count(time.Since(start), t.session.queries-queries, t.session.rows-rows, err != nil)
	}
}

func (t *thread) count(took time.Duration, queries, rows uint64, conflict bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.latency.record(took)
	t.now.operations++
	t.now.queries += queries
	t.now.rows += rows
	if conflict {
		t.now.conflicts++
	}
}

// cut returns the results since the previous cut.
func (l *load) cut() *counts {
	sum := new(counts)
	for _, t := range l.threads {
		fresh := new(counts)
		t.mu.Lock()
		done := t.now
		t.now = fresh
		t.mu.Unlock()
		sum.merge(done)
	}
	return sum
}

// behind returns the delay of the next operation of an open loop that no thread has started; 0 if the load
// keeps up.
func (l *load) behind() time.Duration {
	next := l.began.Add(time.Duration(l.due.Load()) * l.every)
	return max(0, time.Since(next))
}

// wait runs the load for a while; it returns early if an operation fails or ctx is done.
func (l *load) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-l.failed:
		return fmt.Errorf("an operation failed: %w", err)
	case <-timer.C:
		return nil
	}
}

// stop lets current operations finish and closes the connections.
func (l *load) stop() error {
	close(l.stopped)
	ended := make(chan struct{})
	go func() {
		l.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	var errs []error
	select {
	case <-ended:
		for _, t := range l.threads {
			errs = append(errs, t.session.close())
		}
	case <-timer.C:
		errs = append(errs, fmt.Errorf("operations were still running %v after the end", stopGrace))
	}
	return errors.Join(errs...)
}
