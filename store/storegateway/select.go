package storegateway

import (
	"context"
	"unsafe"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// A Request selects series.
type Request struct {
	// MinTime and MaxTime are in milliseconds, both inclusive. The result has the series with chunks that
	// overlap this range, with those chunks, complete.
	MinTime, MaxTime int64

	Matchers []*labels.Matcher

	// MaxResolution is the coarsest resolution of the blocks to read. Each time is read from the coarsest
	// allowed block, if several have samples of it.
	MaxResolution blocksync.Resolution

	// Blocks are matchers of BlockIDLabel that select the blocks to read. None: all.
	Blocks []*labels.Matcher

	// Held reports blocks that the caller reads elsewhere: they do not count as missing. nil: none.
	Held func(ulid.ULID) bool

	// Shard selects a part of the series by the hash of their labels in the block. A matcher of
	// tsblock.ShardLabel has the same effect.
	Shard tsblock.Shard

	// Keep, if not nil, reports whether to return a series with the given final labels. Chunks of other
	// series are not read. It is called concurrently and must not retain the labels.
	Keep func([]tsblock.Label) bool

	// WithoutLabels are names of labels to omit from the result. Series that differ in nothing else become
	// one.
	WithoutLabels []string

	SkipChunks bool // return labels only
	Limit      int  // maximum number of series; 0: none
}

// A Series is one series of a result. It is valid until the next call of Next or Close.
type Series struct {
	Labels []tsblock.Label // sorted by name; views
	Chunks []ChunkView     // sorted by time; views
}

// A SeriesSet iterates over the series of a result in the order of their labels. Its reads use the context of
// Select. It must not be used concurrently.
type SeriesSet struct {
	query   *Query
	request Request
	ctx     context.Context //nolint:containedctx // Next takes none, as in Prometheus' storage interface
	cancel  context.CancelFunc
	sel     tsblock.Select // the selection in each block

	mode    chunkMode
	grouped bool // the caller enters groups of the streams

	streams []*stream
	walker  walker
	merged  mergedSeries
	front   []*entry // entries of the current series, one per block that has it, in the order of the blocks' times
	few     [4]*entry

	series    Series
	chunks    []ChunkView
	charged   int64 // bytes reserved for streams
	chunkRoom int64 // bytes reserved for chunks
	rewritten int64 // bytes reserved for chunks re-encoded without deleted samples
	missing   blocksync.Missing
	count     uint64
	countOf   uint64 // number of chunks
	err       error
	closed    bool
}

// Select starts to read. It opens all blocks in the request's time range and reads their first batches,
// several concurrently. The caller closes the set; closing the query closes it too.
//
// It costs some tens of allocations per block and a few per batch, and none per series or chunk.
func (q *Query) Select(ctx context.Context, r Request) (*SeriesSet, error) {
	return q.newSet(ctx, r, false)
}

// newSet implements Select. With grouped, it opens the blocks but does not start their streams, and the
// caller loads the chunks.
func (q *Query) newSet(ctx context.Context, r Request, grouped bool) (*SeriesSet, error) {
	shard, matchers, err := tsblock.TakeShard(r.Matchers)
	if err != nil {
		return nil, err
	}
	if r.Matchers = matchers; !shard.All() {
		r.Shard = shard
	}
	set := &SeriesSet{query: q, request: r, grouped: grouped}
	set.front = set.few[:0]
	set.ctx, set.cancel = q.context(ctx)
	q.register(set)
	if err := set.open(); err != nil {
		set.fail(err)
		set.Close()
		return nil, set.err
	}
	return set, nil
}

// A chunkMode determines when the chunks of a set are loaded, and by which component.
type chunkMode uint8

const (
	chunksWithBatches chunkMode = iota // each batch is loaded with its chunks
	chunksPlanned                      // chunks of the first batches of several blocks once all are planned, then with batches
	chunksOfSorted                     // by the windows of sorted series, during iteration
	chunksOfCaller                     // by the windows of the caller
	noChunks                           // labels only
)

// modeOf returns the mode of a set.
func (set *SeriesSet) modeOf() chunkMode {
	switch {
	case set.request.SkipChunks:
		return noChunks
	case set.grouped:
		return chunksOfCaller
	case set.sorted():
		return chunksOfSorted
	}
	return chunksWithBatches
}

// sorted reports whether the series must be sorted.
func (set *SeriesSet) sorted() bool {
	_, sorted := set.walker.(*sortedSeries)
	return sorted
}

// streamed reports whether series are iterated while they are read, so that batches are read ahead.
func (set *SeriesSet) streamed() bool { return !set.grouped && !set.sorted() }

// allSeries returns the matcher of every series.
func allSeries() *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, "", "") }

// open opens the blocks and positions the set before the first series.
func (set *SeriesSet) open() error {
	q, r := set.query, &set.request
	mint, maxt := q.gateway.Clip(r.MinTime, r.MaxTime)
	handles, tenant := q.gateway.Open(q.tenant, mint, maxt, r.MaxResolution, r.Blocks...)
	handles, matchers := matchExternal(handles, r.Matchers)
	set.missing = q.missingOf(tenant, r.MinTime, r.MaxTime, r.MaxResolution, r.Matchers, r.Blocks, r.Held)
	set.sel = tsblock.Select{
		MinTime: mint, MaxTime: maxt, Shard: r.Shard,
		SkipChunks: r.SkipChunks, BatchBytes: q.batchBytes(len(handles)),
	}
	set.streams = make([]*stream, len(handles))
	for i, h := range handles {
		set.streams[i] = &stream{
			set: set, number: i, handle: h, matchers: matchers[i],
			relabel: newRelabeling(h.External(), r.WithoutLabels), reader: h.Reader(q.quota),
		}
	}
	if err := q.gateway.check(set.missing); err != nil {
		return err
	}
	if err := set.charge(int64(len(handles)) * streamBytes); err != nil {
		return err
	}
	if err := q.gateway.LoadHeaders(set.ctx, handles); err != nil {
		return err
	}
	sort, err := set.mustSort()
	if err != nil {
		return err
	}
	set.walker = &set.merged
	if sort {
		set.walker = &sortedSeries{set: set}
	}
	if set.mode = set.modeOf(); set.grouped && !sort {
		return nil // the caller enters them
	}
	return set.startStreams(set.streams)
}

// startStreams opens some of the streams and positions each at its first series.
func (set *SeriesSet) startStreams(streams []*stream) error {
	// The first batch of a single block needs no plan: its load reserves everything before it fetches.
	planned := len(streams) > 1 && set.mode == chunksWithBatches
	if planned {
		set.mode = chunksPlanned
	}
	err := parallel.ForEach(set.ctx, set.query.gateway.OpenBlocks(), streams, func(_ context.Context, s *stream) error { return s.start() })
	if err != nil {
		return err
	}
	if planned {
		set.mode = chunksWithBatches
		if err := set.loadFirst(); err != nil {
			return err
		}
	}
	return set.walker.start(streams)
}

// streamBytes is the heap memory of a block that is being read, in addition to the bytes that its reader
// charges.
const streamBytes = tsblock.ReaderBytes + int64(unsafe.Sizeof(stream{})+unsafe.Sizeof(blocksync.Handle{}))

// charge reserves n bytes until the set is closed.
func (set *SeriesSet) charge(n int64) error {
	if err := set.query.quota.Reserve(slab.Series, n); err != nil {
		return err
	}
	set.charged += n
	return nil
}

// matchExternal releases the blocks whose external labels do not match, and returns the others, each with the
// matchers of its series' own labels.
func matchExternal(handles []*blocksync.Handle, ms []*labels.Matcher) ([]*blocksync.Handle, [][]*labels.Matcher) {
	left, matchers := handles[:0], make([][]*labels.Matcher, 0, len(handles))
	for _, h := range handles {
		own, ok := h.MatchExternal(ms)
		switch {
		case !ok:
			h.Release()
			continue
		case len(own) == 0 && len(ms) > 0:
			own = []*labels.Matcher{allSeries()}
		}
		left, matchers = append(left, h), append(matchers, own)
	}
	return left, matchers
}

// mustSort reports whether the series of a block must be sorted again.
func (set *SeriesSet) mustSort() (bool, error) {
	for _, s := range set.streams {
		if s.relabel == nil {
			continue
		}
		names, err := s.reader.LabelNames(set.ctx, 0)
		if err != nil {
			return false, err
		}
		if len(set.streams) > groupBlocks {
			s.reader.ReleaseIndex() // until its group is read
		}
		if s.relabel.breaksOrder(names) {
			return true, nil
		}
	}
	return false, nil
}

// Next advances to the next series and reports whether there is one. After false, Err returns the error, if
// any. Next does not allocate within a batch.
func (set *SeriesSet) Next() bool {
	if set.err != nil || set.closed || set.request.Limit > 0 && set.count >= uint64(set.request.Limit) {
		return false
	}
	ok, err := set.next()
	if err == nil && ok {
		err = set.query.countSeries(1)
	}
	if err != nil {
		set.fail(err)
		return false
	}
	if ok {
		set.count++
		set.countOf += uint64(len(set.series.Chunks))
	}
	return ok
}

// step advances like Next without counting, for a select that counts its series after merging them.
func (set *SeriesSet) step() bool {
	if set.err != nil || set.closed {
		return false
	}
	ok, err := set.next()
	if err != nil {
		set.fail(err)
		return false
	}
	return ok
}

// checkCount counts the series of a select so far against the limit.
func (set *SeriesSet) checkCount(n int) error {
	more := n - int(set.count)
	set.count = uint64(n)
	return set.query.countSeries(max(more, 0))
}

func (set *SeriesSet) next() (bool, error) {
	var err error
	if set.front, err = set.walker.next(set.front[:0]); err != nil || len(set.front) == 0 {
		return false, err
	}
	return true, set.assemble()
}

// assemble builds the current series from the entries in front.
func (set *SeriesSet) assemble() error {
	set.series = Series{Labels: set.front[0].labels}
	if set.mode == noChunks || set.mode == chunksOfCaller {
		return nil
	}
	chunks := set.chunks[:0]
	for _, e := range set.front {
		if err := set.room(&chunks, len(e.held.batch.Chunks(e.i))); err != nil {
			return err
		}
		deleted := e.deleted()
		if deleted == nil && !e.restricted() {
			chunks = appendChunks(chunks, e.held.batch, e.i)
			continue
		}
		var err error
		if chunks, err = set.appendKept(chunks, e, deleted); err != nil {
			return err
		}
	}
	chunks = orderChunks(chunks)
	set.chunks, set.series.Chunks = chunks, chunks
	return nil
}

// room grows the list by n chunks, within the quota.
func (set *SeriesSet) room(chunks *[]ChunkView, n int) error {
	if len(*chunks)+n <= cap(*chunks) {
		return nil
	}
	need := max(len(*chunks)+n, 2*cap(*chunks), 64)
	more := int64(need)*int64(unsafe.Sizeof(ChunkView{})) - set.chunkRoom
	if err := set.query.quota.Reserve(slab.Series, more); err != nil {
		return err
	}
	set.chunkRoom += more
	*chunks = append(make([]ChunkView, 0, need), *chunks...)
	return nil
}

// At returns the current series. It does not allocate.
func (set *SeriesSet) At() *Series { return &set.series }

// Corrupt returns the error for a chunk of the current series whose data cannot be decoded.
func (set *SeriesSet) Corrupt(c *ChunkView, reason string) error {
	err := &tsblock.CorruptError{Reason: reason}
	for _, e := range set.front {
		for j, at := range e.held.batch.Chunks(e.i) {
			if _, data := e.held.batch.Data(e.i, j); unsafe.SliceData(data) == unsafe.SliceData(c.Data) {
				err.Block, err.File, err.Offset = e.held.stream.handle.Prefix(), tsblock.SegmentFile(uint32(at.Ref>>32)), int64(uint32(at.Ref))
			}
		}
	}
	return err
}

// fail stops the set with an error. If the context is done, it reports the context's cause rather than the
// error of the interrupted read.
func (set *SeriesSet) fail(err error) {
	if set.ctx.Err() != nil {
		if cause := context.Cause(set.ctx); isLimit(cause) {
			err = cause
		}
	}
	set.err = err
}

// Missing returns the blocks of the time range that were not served when the set was opened.
func (set *SeriesSet) Missing() blocksync.Missing { return set.missing }

// Err returns the error that stopped the set early, or nil.
func (set *SeriesSet) Err() error { return set.err }

// Close releases the memory of the set. Further calls do nothing.
func (set *SeriesSet) Close() {
	if set.closed {
		return
	}
	set.closed = true
	set.cancel()
	set.series, set.front = Series{}, nil
	if set.walker != nil {
		set.walker.close()
	}
	blocks := make([]BlockStats, len(set.streams))
	for i, s := range set.streams {
		blocks[i] = s.close()
	}
	set.chunks = nil
	set.query.quota.Return(slab.Series, set.chunkRoom+set.rewritten+set.charged)
	set.query.unregister(set, set.count, set.countOf, blocks...)
}
