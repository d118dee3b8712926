package blocksync

import (
	"context"
	"sync/atomic"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/store/tsblock"
)

// preparedSeries bounds the series of a block whose index header is prepared. Headers of larger blocks take long
// compared with a request, so the first query that reads such a block loads its header. There are few of them.
const preparedSeries = 10_000

// loadsOf returns the slots for loading the header of a block.
func (s *Syncer) loadsOf(m *tsblock.Meta) chan struct{} {
	if m.Stats.NumSeries > preparedSeries {
		return s.headerLoads
	}
	return s.smallLoads
}

// prepareNew prepares the blocks that syncs add until the context is done.
func (s *Syncer) prepareNew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.fresh:
			s.prepare(ctx)
		}
	}
}

// prepare loads the index headers of blocks that appeared since the last call, so that the first query of many
// small blocks does not build them. It stops when loaded headers take Options.PrepareBytes. Each block is prepared
// once: a header unloaded since is loaded by the next query. A header that cannot be loaded is left to that query.
func (s *Syncer) prepare(ctx context.Context) {
	var blocks []*block
	for b := range s.current().all() {
		if n := b.data.Meta().Stats.NumSeries; n > 0 && n <= preparedSeries && !b.prepared.Swap(true) && !b.data.Loaded() {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		return
	}
	var held atomic.Int64
	held.Store(s.HeaderBytes())
	_ = parallel.ForEach(ctx, cap(s.smallLoads), blocks, func(ctx context.Context, b *block) error {
		if held.Load() >= s.options.PrepareBytes || !s.Serves(b.tenant, b.id) {
			return nil
		}
		if err := s.loadHeader(ctx, b); err == nil {
			held.Add(b.data.HeapBytes())
		} else if ctx.Err() == nil {
			s.log.Debug("index header not prepared", "block", b.id, "error", err)
		}
		return nil
	})
}
