package activeseries

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// spawnBytes is the number of bytes that one goroutine reads before it starts others: single series from a
// hundred shards are merged sooner than another goroutine starts.
const spawnBytes = 32 << 10

// A Body is the merged response. It is either written by WriteTo or read by Read, once, and then closed.
type Body struct {
	merger  *Merger
	order   Request
	sources []Source

	next     atomic.Int64 // index of the next source to open
	stopped  atomic.Bool  // nothing more must be read
	stopOnce sync.Once    // calls Stop once
	state    bodyState    // used by the caller's goroutine only

	mu    sync.Mutex
	out   output    // guarded by mu
	w     io.Writer // guarded by mu
	fault error     // first error; guarded by mu
	lost  error     // error of w; guarded by mu

	reader  *worker // used by Read
	pending pending // used by Read: bytes not read yet
}

// bodyState is the method by which a Body is consumed, and its progress.
type bodyState uint8

const (
	fresh bodyState = iota
	writing
	reading // reading sources
	ending  // all sources were read
	closed
)

// pending is a writer that keeps a view of the written bytes until they are read.
type pending struct{ rest []byte }

func (p *pending) Write(b []byte) (int, error) {
	if len(p.rest) > 0 {
		panic("BUG: more is made of a merged answer than was read")
	}
	p.rest = b
	return len(b), nil
}

// ErrClosed is returned by a Body's Read and WriteTo after Close.
var ErrClosed = errors.New("read of a merged response after Close")

// Stats are the counts of a Body.
type Stats struct {
	Items      int64 // items written
	Duplicates int64 // items omitted because they had been written before
	Bytes      int64 // bytes written
	Limited    bool  // items may have been omitted because of Request.Limit
}

// WriteTo writes the response to w. It reads small bodies in the caller's goroutine, one after the other, and
// large ones in as many goroutines as the Merger has workers, which have finished when WriteTo returns. Each
// writes the items that it has read, so a slow w throttles all readers.
//
// WriteTo returns the error of w, or the error that the response reports.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	if err := b.start(writing, w); err != nil {
		return 0, err
	}
	own := b.newWorker()
	var helpers sync.WaitGroup
	own.spawn = func() {
		for range min(b.merger.workers-1, len(b.sources)-int(b.next.Load())) {
			helpers.Go(func() { b.newWorker().all() })
		}
	}
	own.all()
	helpers.Wait()
	b.finish()
	b.state = ending
	return b.out.bytes, b.failure()
}

// start starts the response, which is written to w.
func (b *Body) start(by bodyState, w io.Writer) error {
	switch b.state {
	case fresh:
	case closed:
		return ErrClosed
	default:
		panic("BUG: a merged answer is taken twice")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.w = by, w
	b.write(b.out.head())
	return nil
}

// finish writes the end of the response after all workers have finished.
func (b *Body) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != nil {
		return
	}
	if b.fault != nil && b.order.Failed != nil && b.order.Failed(b.fault) {
		return
	}
	b.write(b.out.tail(b.fault))
}

// write writes p to the writer. The caller holds mu.
func (b *Body) write(p []byte) {
	if b.lost != nil || len(p) == 0 {
		return
	}
	n, err := b.w.Write(p)
	b.out.bytes += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		b.lost = err
		b.stop()
	}
}

// fail records the first error and stops reading.
func (b *Body) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failLocked(err)
}

func (b *Body) failLocked(err error) {
	if !b.stopped.Load() {
		b.fault = err
		b.stop()
	}
}

// stop stops reading.
func (b *Body) stop() {
	b.stopped.Store(true)
	b.stopOnce.Do(func() {
		if b.order.Stop != nil {
			b.order.Stop()
		}
	})
}

// Err returns the error that ended the response early, after it was written or read: the writer's, or the
// error that the response reports.
func (b *Body) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != nil {
		return b.lost
	}
	return b.fault
}

// Stats returns the counts so far.
func (b *Body) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Items: b.out.items, Duplicates: b.out.duplicates, Bytes: b.out.bytes, Limited: b.out.limited}
}

// Read reads the response, from one source after the other in the caller's goroutine. It is for callers that
// cannot use WriteTo. After the response it returns io.EOF, even if the response reports an error: see Err.
func (b *Body) Read(p []byte) (int, error) {
	if b.state != reading && b.state != ending {
		if err := b.start(reading, &b.pending); err != nil {
			return 0, err
		}
		b.reader = b.newWorker()
	}
	for len(b.pending.rest) == 0 {
		if b.state == ending {
			return 0, io.EOF
		}
		if !b.reader.step() {
			b.reader.finish()
			b.state = ending
			b.finish()
		}
	}
	n := copy(p, b.pending.rest)
	b.pending.rest = b.pending.rest[n:]
	return n, nil
}

// Close closes the sources that were not read, and calls their Done with ErrClosed. It must not be called
// concurrently with WriteTo or Read: to stop those, cancel the context of the sources.
func (b *Body) Close() error {
	if b.state == closed {
		return nil
	}
	b.stop()
	if b.state == reading {
		b.reader.finish()
	}
	b.state = closed
	b.pending.rest = nil
	var err error
	for {
		i := int(b.next.Add(1) - 1)
		if i >= len(b.sources) {
			return err
		}
		s := &b.sources[i]
		err = errors.Join(err, s.Body.Close())
		s.done(0, 0, ErrClosed)
	}
}
