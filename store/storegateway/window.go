package storegateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/tsblock"
)

// A sharedBatch is a batch with a reference count. The last release frees it.
type sharedBatch struct {
	batch   *tsblock.Batch
	stream  *stream
	next    *sharedBatch // the next one of its block, once it was read
	holders atomic.Int32
	viewers atomic.Int32 // holders that need labels

	// Fields of windows, guarded by its mu:
	loaded bool
	walked bool // since it was loaded
	users  int  // iterators inside its chunks

	// loads counts the loads and drops of its chunks: views into them are valid while it does not change.
	loads atomic.Uint32
}

// retain adds a reference to the batch with its labels.
func (h *sharedBatch) retain() {
	h.viewers.Add(1)
	h.holders.Add(1)
}

// retainChunks adds a reference to the chunks of the batch and their references.
func (h *sharedBatch) retainChunks() { h.holders.Add(1) }

// release drops a reference to the labels. After the last one the batch keeps only the memory that its chunks
// need.
func (h *sharedBatch) release() {
	if h.viewers.Add(-1) == 0 && h.holders.Load() > 1 {
		_ = h.batch.Compact() // without room for both forms it stays as it is
	}
	h.releaseChunks()
}

func (h *sharedBatch) releaseChunks() {
	switch n := h.holders.Add(-1); {
	case n == 0:
		h.batch.Release()
	case n < 0:
		panic("BUG: batch let go more often than held")
	}
}

// windows keep the chunks of some of a query's batches loaded: those being iterated, and the next ones.
// Chunks that the iteration has passed are dropped at once; chunks not in use are dropped when there is no
// room. An iterator that returns to them loads them again.
type windows struct {
	query  *Query
	ctx    context.Context //nolint:containedctx // that of the select: who walks has none
	strict bool            // chunks in use are not dropped, since their users cannot load them again
	most   int64           // limit of planned bytes

	source *querierBase // source whose other selects the same goroutine iterates; nil: none

	mu     sync.Mutex
	bytes  int64
	loaded []*sharedBatch // least recently used first
	ahead  []*stream      // streams that load ahead
}

// newWindows returns windows of at most a quarter of the query's bytes.
func newWindows(ctx context.Context, q *Query, strict bool) *windows {
	w := &windows{query: q, ctx: ctx, strict: strict, most: q.quota.Allowed() / 4}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.windows = append(q.windows, w)
	return w
}

// reclaim drops chunks of any of the query's selects that no iterator uses, for a reservation that does not
// fit. It may be called concurrently, and skips windows that are locked.
func (q *Query) reclaim() bool {
	q.mu.Lock()
	all := q.windows
	q.mu.Unlock()
	for _, w := range all {
		if !w.mu.TryLock() {
			continue
		}
		i := slices.IndexFunc(w.loaded, func(h *sharedBatch) bool { return h.users == 0 })
		if i >= 0 {
			w.drop(i)
		}
		w.mu.Unlock()
		if i >= 0 {
			return true
		}
	}
	return false
}

// acquire loads the batch's chunks and adds a user of them; release removes it.
func (w *windows) acquire(h *sharedBatch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.load(h); err != nil {
		return err
	}
	h.users++
	h.walked = true
	return nil
}

// cancelled returns the reason if the select was cancelled. Iterators check it once per chunk: a series may have many
// without a sample in the range.
func (w *windows) cancelled() error {
	if w.ctx.Err() == nil {
		return nil
	}
	return context.Cause(w.ctx)
}

// release removes a user. The chunks stay loaded until another batch of the block is entered.
func (w *windows) release(h *sharedBatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.users--
}

// reload reloads the chunks of a batch in use if they were dropped.
func (w *windows) reload(h *sharedBatch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.load(h)
}

func (w *windows) load(h *sharedBatch) error {
	s := h.stream
	if n := len(w.loaded); n > 0 && w.loaded[n-1] == h {
		return nil
	}
	if s.chunks.running && s.loading == h {
		w.await(s)
	}
	if h.loaded {
		i := slices.Index(w.loaded, h)
		w.loaded = append(slices.Delete(w.loaded, i, i+1), h)
		return nil
	}
	w.await(s)
	// Drop batches first that the iteration over the block has passed.
	for i := len(w.loaded) - 1; i >= 0; i-- {
		if old := w.loaded[i]; old.stream == s && old.users == 0 {
			w.drop(i)
		}
	}
	for w.bytes+h.batch.PlannedBytes() > w.most && w.dropOne() {
	}
	err := s.reader.LoadChunks(w.ctx, h.batch)
	for err != nil && (isLimit(err) || errors.Is(err, slab.ErrShort)) && w.makeRoom() {
		err = s.reader.LoadChunks(w.ctx, h.batch)
	}
	if err != nil {
		return s.loadError(h.batch, err)
	}
	w.add(h)
	if next := h.next; next != nil && !next.loaded && w.query.roomAhead() && w.bytes+next.batch.PlannedBytes() <= w.most {
		s.loading = next
		w.ahead = append(w.ahead, s)
		s.chunks.start((*chunkLoad)(s))
	}
	return nil
}

// A chunkLoad loads the chunks of a stream's batch ahead.
type chunkLoad stream

func (l *chunkLoad) work() (struct{}, error) {
	return struct{}{}, l.reader.LoadChunks(l.set.ctx, l.loading.batch)
}

// makeRoom drops chunks, or waits for loads ahead so that the next call can drop theirs, and reports whether
// there were any: first of this select, then of the querier's other selects, whether in use or not. An
// iterator whose chunks were dropped loads them again.
func (w *windows) makeRoom() bool {
	if w.dropOne() {
		return true
	}
	if len(w.ahead) > 0 {
		w.await(w.ahead[0])
		return true
	}
	if w.source == nil {
		return false
	}
	for _, l := range w.source.selected {
		if other := l.windows; other != w {
			other.mu.Lock()
			dropped := other.dropOne()
			other.mu.Unlock()
			if dropped {
				return true
			}
		}
	}
	return false
}

func (w *windows) add(h *sharedBatch) {
	h.loaded = true
	h.loads.Add(1)
	w.bytes += h.batch.PlannedBytes()
	w.loaded = append(w.loaded, h)
}

// dropOne drops the chunks that were left last: for one series after the other, an iteration visits all
// blocks, so these are the last that are needed again. If there are none, it drops chunks loaded ahead, and
// then, unless strict, chunks in use.
func (w *windows) dropOne() bool {
	i := len(w.loaded) - 1
	for i >= 0 && (w.loaded[i].users > 0 || !w.loaded[i].walked) {
		i--
	}
	if i < 0 {
		i = slices.IndexFunc(w.loaded, func(h *sharedBatch) bool { return h.users == 0 })
	}
	if i < 0 && !w.strict && len(w.loaded) > 0 {
		i = 0
	}
	if i >= 0 {
		w.drop(i)
	}
	return i >= 0
}

// drop drops the chunks of the batch at index i.
func (w *windows) drop(i int) {
	h := w.loaded[i]
	w.loaded = slices.Delete(w.loaded, i, i+1)
	w.bytes -= h.batch.PlannedBytes()
	h.loaded, h.walked = false, false
	h.loads.Add(1)
	h.batch.DropChunks()
}

// await waits for the load ahead in a block, since a reader does one thing at a time. If the load failed, the
// batch is loaded again when it is needed, and that error counts.
func (w *windows) await(s *stream) {
	if !s.chunks.running {
		return
	}
	w.ahead = slices.DeleteFunc(w.ahead, func(other *stream) bool { return other == s })
	if _, err := s.chunks.take(); err == nil {
		w.add(s.loading)
	}
	s.loading = nil
}

// close waits for loads in progress. The context is done, and the holders own the batches.
func (w *windows) close(streams []*stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range streams {
		w.await(s)
	}
	w.loaded = nil
}
