package activeseries

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// spawnBytes is how much one goroutine reads before it asks for help: single series from
// a hundred shards are merged sooner than another goroutine has started.
const spawnBytes = 32 << 10

// A Body is the merged answer. It is written by WriteTo, or read by Read, once; then closed.
type Body struct {
	merger  *Merger
	order   Order
	sources []Source

	next    atomic.Int64 // of the sources to be begun
	stopped atomic.Bool  // nothing more is to be read
	hurry   sync.Once    // Stop is called
	state   bodyState    // of the caller's goroutine

	mu    sync.Mutex
	out   output    // under mu
	w     io.Writer // under mu
	fault error     // under mu: the first
	lost  error     // under mu: of w

	reader  *worker // of Read
	pending pending // of Read: made and not yet read
}

// bodyState is how a Body is taken, and how far.
type bodyState uint8

const (
	fresh bodyState = iota
	writing
	reading // sources
	ending  // read to the tail
	closed
)

// pending is a writer that holds a view of what was written until it is read.
type pending struct{ rest []byte }

func (p *pending) Write(b []byte) (int, error) {
	if len(p.rest) > 0 {
		panic("BUG: more is made of a merged answer than was read")
	}
	p.rest = b
	return len(b), nil
}

// ErrClosed is what a Body's Read and WriteTo return after Close.
var ErrClosed = errors.New("read of a merged response after Close")

// Stats is what went through a Body.
type Stats struct {
	Items      int64 // that went out
	Duplicates int64 // that did not, as they had gone out before
	Bytes      int64 // that went out
	Limited    bool  // there may have been more than Order.Limit
}

// WriteTo writes the answer. Small bodies are read in the caller's goroutine, one after the other; large
// ones by as many goroutines as the Merger has workers, which have ended when WriteTo returns. Each
// writes what it has read itself, so that a slow w holds all readers back.
//
// The error is the writer's, or that which the answer tells of.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	if err := b.take(writing, w); err != nil {
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
	return b.out.bytes, b.Err()
}

// take begins the answer, which w is to have.
func (b *Body) take(by bodyState, w io.Writer) error {
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

// finish writes the end of the answer, when no worker is left.
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

// write sends p to the writer, with mu held.
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

// fail keeps the first error, and ends reading.
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

// stop ends reading.
func (b *Body) stop() {
	b.stopped.Store(true)
	b.hurry.Do(func() {
		if b.order.Stop != nil {
			b.order.Stop()
		}
	})
}

// Err is the error that ended the answer early, after it has been written or read: the writer's, or that
// of which the answer tells.
func (b *Body) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != nil {
		return b.lost
	}
	return b.fault
}

// Stats is what went through so far.
func (b *Body) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Items: b.out.items, Duplicates: b.out.duplicates, Bytes: b.out.bytes, Limited: b.out.limited}
}

// Read reads the answer, from one source after the other in the caller's goroutine. It is for callers
// that cannot use WriteTo. After the answer it returns io.EOF, also where the answer tells of an error:
// see Err.
func (b *Body) Read(p []byte) (int, error) {
	if b.state != reading && b.state != ending {
		if err := b.take(reading, &b.pending); err != nil {
			return 0, err
		}
		b.reader = b.newWorker()
	}
	for len(b.pending.rest) == 0 {
		if b.state == ending {
			return 0, io.EOF
		}
		if !b.reader.step() {
			b.reader.end()
			b.state = ending
			b.finish()
		}
	}
	n := copy(p, b.pending.rest)
	b.pending.rest = b.pending.rest[n:]
	return n, nil
}

// Close closes the sources that have not been read, and their Done is told ErrClosed. It must
// not run beside WriteTo or Read: what ends those is the context of their sources.
func (b *Body) Close() error {
	if b.state == closed {
		return nil
	}
	b.stop()
	if b.state == reading {
		b.reader.end()
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
