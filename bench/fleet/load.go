package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// A verdict is what a response under load is. Wrong ones are errors.
type verdict int

const (
	complete verdict = iota
	marked           // partial, with a warning
	refused          // an error
	verdicts
)

// judge compares a response with the complete result of its query.
func (q *query) judge(r *response) (verdict, error) {
	switch {
	case r.Status != "success":
		return refused, nil
	case !r.partial():
		if !reflect.DeepEqual(r.Data, q.want) {
			return 0, fmt.Errorf("%s: a response differs and has no warning: %s", q.name, difference(r.Data, q.want))
		}
		return complete, nil
	case q.raw:
		known := samples(q.want)
		for text := range samples(r.Data) {
			if !known[text] {
				return 0, fmt.Errorf("%s: the complete response does not have %.200s", q.name, text)
			}
		}
	}
	return marked, nil
}

var phaseNames = [...]string{"all instances", "one killed", "replaced"}

// A phase is a part of the load.
type phase struct {
	counts    [verdicts]int
	latencies []time.Duration
}

// A loadTest sends queries from several clients.
type loadTest struct {
	querier string
	queries []*query

	mu     sync.Mutex
	phases [3]phase // before, without and after
	now    int
	err    error
}

// run sends queries until ctx is done or a response is wrong.
func (l *loadTest) run(ctx context.Context, first int) {
	for i := first; ctx.Err() == nil; i++ {
		q := l.queries[i%len(l.queries)]
		l.mu.Lock()
		in := l.now
		l.mu.Unlock()
		r, took, err := q.run(ctx, l.querier)
		if ctx.Err() != nil {
			return
		}
		var v verdict
		if err == nil {
			v, err = q.judge(r)
		}
		l.mu.Lock()
		if err != nil {
			l.err = fmt.Errorf("load, %s: %w", phaseNames[in], err)
			l.mu.Unlock()
			return
		}
		p := &l.phases[in]
		p.counts[v]++
		p.latencies = append(p.latencies, took)
		l.mu.Unlock()
	}
}

func (l *loadTest) enter(phase int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = phase
}

// underLoad kills an instance while clients send queries, and starts it again. It returns the phases and the time
// from the new start until a response was complete.
func (f *fleet) underLoad(ctx context.Context, o *options, queries []*query) (phases [3]phase, whole time.Duration, err error) {
	l := &loadTest{querier: f.querier}
	for _, q := range queries {
		if q.load {
			l.queries = append(l.queries, q)
		}
	}
	clients, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	for n := range o.clients {
		all.Go(func() { l.run(clients, n) })
	}
	whole, err = f.replace(ctx, o, l)
	stop()
	all.Wait()
	return l.phases, whole, errors.Join(err, l.err)
}

func (f *fleet) replace(ctx context.Context, o *options, l *loadTest) (whole time.Duration, err error) {
	if err := sleep(ctx, o.load/3); err != nil {
		return 0, err
	}
	l.enter(1)
	if err := f.kill(1); err != nil {
		return 0, err
	}
	if err := sleep(ctx, o.load/3); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := f.start(ctx, o, 1); err != nil {
		return 0, err
	}
	for q := l.queries[0]; ; {
		r, _, err := q.run(ctx, f.querier)
		if err != nil {
			return 0, err
		}
		if v, err := q.judge(r); err != nil {
			return 0, err
		} else if v == complete {
			break
		}
		if time.Since(began) > readyLimit {
			return 0, errors.New("responses stay partial after the start of the new instance")
		}
	}
	whole = time.Since(began)
	l.enter(2)
	return whole, sleep(ctx, o.load/3)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
