package querylog

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// An output takes batches of whole lines.
type output interface {
	// write writes p and returns the number of bytes that are permanently in the output: whole lines, or all
	// of p if err is nil.
	write(p []byte) (n int, err error)

	// close closes the output and returns the number of lines counted by write that are torn.
	close() (torn int, err error)
}

// A lost is a range of records that a sink could not accept.
type lost struct {
	records, bytes uint64
	from, to       int64 // Unix nanoseconds of the first and last record's end
}

func (d *lost) add(records, bytes uint64, from, to int64) {
	if records == 0 {
		return
	}
	if d.records == 0 {
		d.from, d.to = from, to
	}
	d.from, d.to = min(d.from, from), max(d.to, to)
	d.records += records
	d.bytes += bytes
}

// A queued is a batch in a sink's queue, with the records dropped just before it.
type queued struct {
	b      *batch // nil: only the report of dropped records
	before lost
}

// A sink owns one output and the goroutine that writes to it. Its queue contains at most limit bytes and one
// batch; further batches are dropped and counted.
type sink struct {
	name  string
	boot  string
	out   output
	limit int
	store *batchStore
	line  Line   // of the writer goroutine: for dropped records
	notes []byte // of the writer goroutine
	fault faultReport

	wake chan struct{} // has a token while there may be work
	done chan struct{} // closed when the writer has exited

	mu      sync.Mutex
	queue   []queued // under mu, as all below; the first head entries are consumed
	head    int
	bytes   int  // memory of the queued batches and of the one being written
	writing int  // lines of the batch being written
	pending lost // dropped since the last batch that was accepted
	hold    bool // the output failed: pending waits for the next batch
	closed  bool
	left    bool // Close has given up waiting for the writer
	stats   SinkStats
}

// offer queues b for the sink. It never waits for the output.
func (s *sink) offer(b *batch) {
	s.mu.Lock()
	s.stats.Offered += uint64(b.lines)
	if s.closed || s.bytes > 0 && s.bytes+cap(b.buf) > s.limit {
		s.drop(b.lines, len(b.buf), b.from, b.to)
		s.mu.Unlock()
		s.store.release(b)
		return
	}
	if s.head > 0 && len(s.queue) == cap(s.queue) {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, queued{b, s.pending})
	s.pending, s.hold = lost{}, false
	s.bytes += cap(b.buf)
	s.mu.Unlock()
	s.notify()
}

// notify makes the writer check the queue.
func (s *sink) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drop counts lost records. The caller holds mu.
func (s *sink) drop(records, bytes int, from, to int64) {
	s.pending.add(uint64(records), uint64(bytes), from, to)
	s.stats.Dropped += uint64(records)
}

// run writes batches until the sink is closed and its queue is empty.
func (s *sink) run() {
	defer close(s.done)
	for range s.wake {
		for {
			q, ok, closed := s.next()
			if ok {
				s.write(q)
				continue
			}
			if closed {
				s.abandon()
				return
			}
			break
		}
	}
}

// abandon closes the output after Close has stopped waiting for the writer.
func (s *sink) abandon() {
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if left {
		_, err := s.out.close() // its torn lines are counted already
		s.fault.report(err, 0)
	}
}

// next removes the first batch of the queue, or returns the records dropped since if there is none.
func (s *sink) next() (q queued, ok, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head < len(s.queue) {
		q = s.queue[s.head]
		s.queue[s.head] = queued{}
		if s.head++; s.head == len(s.queue) {
			s.queue, s.head = s.queue[:0], 0
		}
		s.writing = q.b.lines
		return q, true, false
	}
	if s.pending.records > 0 && !s.hold {
		q.before, s.pending = s.pending, lost{}
		return q, true, false
	}
	return q, false, s.closed
}

// write writes a batch, preceded by the record of dropped records.
func (s *sink) write(q queued) {
	if q.before.records > 0 {
		s.notes = appendDropped(s.notes[:0], &s.line, s.boot, s.name, q.before)
		if _, err := s.out.write(s.notes); err != nil {
			s.mu.Lock()
			s.pending.add(q.before.records, q.before.bytes, q.before.from, q.before.to)
			s.hold = true
			s.mu.Unlock()
		}
	}
	if q.b == nil {
		return
	}
	b := q.b
	n, err := s.out.write(b.buf)
	written := b.lines
	if n < len(b.buf) {
		written = bytes.Count(b.buf[:n], newline)
	}
	s.mu.Lock()
	s.bytes -= cap(b.buf)
	s.writing = 0
	s.stats.Bytes += uint64(n)
	if !s.left {
		s.stats.Written += uint64(written)
		if lines := b.lines - written; lines > 0 {
			s.drop(lines, len(b.buf)-n, b.from, b.to)
			s.hold = true
		}
	}
	dropped := s.stats.Dropped
	s.mu.Unlock()
	s.fault.report(err, dropped)
	s.store.release(b)
}

// close stops the writer after it has written the queue. Batches left when ctx is done count as dropped.
func (s *sink) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed, s.hold = true, false
	s.mu.Unlock()
	s.notify()
	select {
	case <-s.done:
		torn, err := s.out.close()
		s.mu.Lock()
		s.stats.Written -= uint64(torn)
		s.stats.Dropped += uint64(torn)
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("close query log %s: %w", s.name, err)
		}
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.writing
	for _, q := range s.queue[s.head:] {
		n += q.b.lines
		s.store.release(q.b)
	}
	clear(s.queue)
	s.queue, s.head, s.left = s.queue[:0], 0, true
	s.stats.Dropped += uint64(n)
	return fmt.Errorf("query log %s: %d records not written: %w", s.name, n, context.Cause(ctx))
}

func (s *sink) statsNow() SinkStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Name, st.QueuedBytes = s.name, s.bytes
	return st
}

var newline = []byte{'\n'}

// kindDropped is the kind of a line that reports records lost to a sink.
const kindDropped = "dropped"
