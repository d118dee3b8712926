package storegateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/slab"
)

// A plan is the memory that a query needs for chunks, estimated from its references. It is complete before
// the first chunk is fetched: an engine selects before it reads samples, and a set that loads chunks with its
// batches plans the first batches of all blocks before it loads any.
type plan struct {
	once int64 // bytes of the largest load
	all  int64 // bytes of the chunks of all selects, each limited to the size of its windows
}

// addPlan adds a select to the plan: once are the bytes of its largest load, all the bytes of all its loads,
// and windows bounds the bytes that it keeps. It grows the query to the plan, and fails if the process has no
// free bytes for that, or if the largest load does not fit beside the bytes in use.
func (q *Query) addPlan(once, all, windows int64) error {
	q.mu.Lock()
	q.plan.once = max(q.plan.once, once)
	q.plan.all += max(min(all, windows), once)
	p := q.plan
	q.mu.Unlock()
	if p.once > q.quota.Allowed()-q.quota.Used() {
		// It may fit once chunks loaded earlier are dropped.
		if err := q.quota.Reserve(slab.Chunks, p.once); err != nil {
			return err
		}
		q.quota.Return(slab.Chunks, p.once)
	}
	return q.quota.Plan(slab.Chunks, p.all)
}

// plan computes the bytes that loading the batch's chunks takes.
func (s *stream) plan(h *sharedBatch) error {
	n, err := s.reader.LoadBytes(h.batch)
	if err != nil {
		return err
	}
	s.once = max(s.once, n)
	s.all += n
	return nil
}

// planLazily plans the chunks of a set that has read all its references and loads chunks through windows.
func (set *SeriesSet) planLazily(w *windows) error {
	if set.mode == noChunks {
		return nil
	}
	var once, all int64
	for _, s := range set.streams {
		once = max(once, s.once)
		all += s.all
	}
	return set.planError(set.query.addPlan(once, all, w.most))
}

// loadFirst loads the chunks of the batches that were read while the set was opened. It plans all of them
// first, since they are in memory together.
func (set *SeriesSet) loadFirst() error {
	var all int64
	for _, s := range set.streams {
		all += s.all
	}
	if err := set.planError(set.query.addPlan(all, all, all)); err != nil {
		return err
	}
	return parallel.ForEach(set.ctx, set.query.gateway.OpenBlocks(), set.streams, func(_ context.Context, s *stream) error { return s.loadFirst() })
}

// loadFirst loads the chunks of the stream's first batches, and starts to read the next batch if there is
// room.
func (s *stream) loadFirst() error {
	for _, h := range s.first {
		if err := s.reader.LoadChunks(s.set.ctx, h.batch); err != nil {
			return s.loadError(h.batch, err)
		}
	}
	if s.first = nil; !s.done {
		s.readAhead()
	}
	return nil
}

// planError returns the error of addPlan. If the chunks exceed the query's bytes, it names the block with the most.
func (set *SeriesSet) planError(err error) error {
	if err == nil || !errors.Is(err, slab.ErrOverQuota) || len(set.streams) == 0 {
		return err
	}
	most := slices.MaxFunc(set.streams, func(a, b *stream) int { return cmp.Compare(a.all, b.all) })
	return fmt.Errorf("%w: block %s has the most, %d bytes: raise the limit, or select less", err, most.handle.Prefix(), most.all)
}
