package storegateway

import (
	"errors"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// An entry is one series of a block: its index in a batch, which it pins, and its final labels.
type entry struct {
	held   *sharedBatch // nil: empty
	i      int
	labels []tsblock.Label
	buffer []tsblock.Label // memory of labels that are not the batch's own
}

// own returns the labels of the series in its block.
func (e *entry) own() []tsblock.Label { return e.held.batch.Labels(e.i) }

func (e *entry) release() {
	if e.held != nil {
		e.held.release()
		e.held = nil
	}
}

// A stream yields the series of one block in the order of their labels, with their chunks. It reads the next
// batch while one is in use.
type stream struct {
	set      *SeriesSet
	number   int
	out      bool // excluded from the merge: its series is current
	handle   *blocksync.Handle
	matchers []*labels.Matcher // matchers that the block's index can evaluate
	relabel  *relabeling       // nil: no label is added or dropped

	reader  *tsblock.Reader
	series  *tsblock.SeriesReader
	batches int
	planned int64

	now     entry   // current series; without a batch at the end
	waiting []entry // delayed series; the labels of each start with those of the previous one, and it sorts behind it
	peek    entry   // with relabel: the series after those that wait

	held  *sharedBatch             // the batch that is iterated; nil before the first and at the end
	last  *sharedBatch             // the last batch read
	i     int                      // index of the next series in held
	ahead prefetch[*tsblock.Batch] // the next batch
	first []*sharedBatch           // batches read while the set was opened, without their chunks
	once  int64                    // bytes of the largest planned load
	all   int64                    // bytes of all planned loads

	charged int64 // bytes reserved for batches that are kept
	done    bool  // no batch follows

	// Used by windows: the batch whose chunks are being loaded ahead.
	loading *sharedBatch
	chunks  prefetch[struct{}]
}

// inMerge reports whether the stream takes part in the merge.
func (s *stream) inMerge() bool { return !s.out && s.now.held != nil }

// start finds the block's series and advances to the first.
func (s *stream) start() error {
	p, err := s.reader.Postings(s.set.ctx, s.matchers...)
	if err != nil {
		return err
	}
	sel := s.set.sel
	sel.Keep = s.keep()
	if mint, maxt, restricted := s.handle.Part(); restricted {
		sel.MinTime, sel.MaxTime = max(sel.MinTime, mint), min(sel.MaxTime, maxt)
	}
	sel.Deleted = s.handle.Deletions().Whole()
	s.series = s.reader.Series(p, sel)
	if s.relabel != nil {
		if err := s.read(&s.peek); err != nil {
			return err
		}
	}
	return s.advance()
}

// keep returns a function that reports whether the request selects a series, given its labels in the block.
// It returns nil if the request selects all.
func (s *stream) keep() func([]tsblock.Label) bool {
	keep := s.set.request.Keep
	if keep == nil || s.relabel == nil {
		return keep
	}
	var buffer []tsblock.Label
	return func(own []tsblock.Label) bool {
		buffer = s.relabel.appendTo(buffer[:0], own)
		return keep(buffer)
	}
}

// advance advances to the next series. At the end there is no current series.
func (s *stream) advance() error {
	s.now.release()
	if s.relabel == nil {
		if err := s.read(&s.now); err != nil || s.now.held == nil {
			return err
		}
		s.now.labels = s.now.own()
		return nil
	}
	top := len(s.waiting) - 1
	for s.peek.held != nil && (top < 0 || s.relabel.overtakes(s.waiting[top].own(), s.peek.own())) {
		s.waiting = append(s.waiting, s.peek)
		top++
		s.peek = entry{}
		if err := s.read(&s.peek); err != nil {
			return err
		}
	}
	if top < 0 {
		return nil
	}
	s.now.held, s.now.i = s.waiting[top].held, s.waiting[top].i
	s.waiting = s.waiting[:top]
	s.now.buffer = s.relabel.appendTo(s.now.buffer[:0], s.now.own())
	s.now.labels = s.now.buffer
	return nil
}

// read sets e to the next series of the block, or leaves it empty at the end.
func (s *stream) read(e *entry) error {
	for s.held == nil || s.i >= s.held.batch.Len() {
		if s.held != nil {
			s.held.release()
			s.held = nil
		}
		if s.done {
			return nil
		}
		if err := s.nextBatch(); err != nil {
			return err
		}
	}
	s.held.retain()
	e.held, e.i = s.held, s.i
	s.i++
	return nil
}

// nextBatch takes the batch read ahead, or reads one, and starts to read the following one if there is room.
func (s *stream) nextBatch() error {
	var b *tsblock.Batch
	var err error
	if s.ahead.running {
		b, err = s.ahead.take()
	} else {
		b, err = s.load()
	}
	if errors.Is(err, tsblock.ErrNoMoreSeries) {
		s.done = true
		s.reader.ReleaseIndex()
		return nil
	}
	if err != nil {
		return err
	}
	s.batches++
	s.planned += b.PlannedBytes()
	next := &sharedBatch{batch: b, stream: s}
	if s.series.Ended() {
		s.done, s.series = true, nil
		s.reader.ReleaseIndex() // only chunks are read from now on
	}
	last := s.last
	s.last, s.held, s.i = next, next, 0
	s.held.retain()
	switch s.set.mode {
	case chunksPlanned:
		s.first = append(s.first, next)
		return s.plan(next)
	case chunksOfSorted, chunksOfCaller:
		if last != nil {
			last.next = next
		}
		return errors.Join(s.chargeBatch(), s.plan(next))
	}
	if !s.done && s.set.streamed() {
		s.readAhead()
	}
	return nil
}

// chargeBatch reserves the memory of a batch that is kept, beyond the bytes that it charges itself.
func (s *stream) chargeBatch() error {
	const n = tsblock.BatchBytes + int64(unsafe.Sizeof(sharedBatch{}))
	if err := s.set.query.quota.Reserve(slab.Series, n); err != nil {
		return err
	}
	s.charged += n
	return nil
}

// readAhead starts to read the next batch if there is room.
func (s *stream) readAhead() {
	if s.set.query.roomAhead() {
		s.ahead.start((*batchLoad)(s))
	}
}

// A batchLoad reads the next batch of a stream ahead.
type batchLoad stream

func (l *batchLoad) work() (*tsblock.Batch, error) { return (*stream)(l).load() }

// load reads the next batch, and its chunks if they are requested.
func (s *stream) load() (*tsblock.Batch, error) {
	b, err := s.series.Next(s.set.ctx)
	if err != nil {
		return nil, err
	}
	if s.set.mode != noChunks {
		if err = s.set.query.countChunks(b.ChunkCount()); err == nil && s.set.mode == chunksWithBatches {
			err = s.loadError(b, s.reader.LoadChunks(s.set.ctx, b))
		}
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// close releases the resources of the stream. The set's context is done, so a load in progress finishes soon.
func (s *stream) close() BlockStats {
	if s.ahead.running {
		if b, err := s.ahead.take(); err == nil {
			b.Release()
		}
	}
	s.now.release()
	s.peek.release()
	for i := range s.waiting {
		s.waiting[i].release()
	}
	s.waiting = nil
	if s.held != nil {
		s.held.release()
		s.held = nil
	}
	mint, maxt := s.handle.Times()
	stats := BlockStats{
		ID: s.handle.ID(), MinTime: mint, MaxTime: maxt, Resolution: s.handle.Resolution(),
		Batches: s.batches, PlannedBytes: s.planned, Read: s.reader.Stats(),
	}
	s.set.query.quota.Return(slab.Series, s.charged)
	s.reader.Close()
	s.handle.Release()
	return stats
}
