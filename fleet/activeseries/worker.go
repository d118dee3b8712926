package activeseries

import (
	"errors"
	"io"

	"github.com/taredb/tare/internal/panics"
)

// A worker reads sources one after the other and writes their items.
type worker struct {
	b     *Body
	spawn func() // starts other workers, once; nil for those

	source   *Source // current source, or nil
	decoder  Decoder // reused
	reopened bool    // the current source was reopened
	items    int64   // of the current source
	lists    int     // steps in the current source; a small body takes two
	seen     int     // bytes of items of all sources

	hashes    []uint64 // of the current items if Request.Unique is set
	canonical canonicalForm
	counter   *counter // counts if Request.CountBy is set
}

func (b *Body) newWorker() *worker {
	w := &worker{b: b}
	if b.order.CountBy != "" {
		w.counter = newCounter(b.order.CountBy, &b.out.countBudget)
	}
	return w
}

// all reads sources until there are no more. A panic fails the response, not the process.
func (w *worker) all() {
	err := panics.Guard(func() error {
		for w.step() {
		}
		w.finish()
		return nil
	})
	if p := panics.Of(err); p != nil {
		w.abandon(p)
	}
}

// abandon fails the response because of a panic. The decoder may be in any state, so it is not reused.
func (w *worker) abandon(p *panics.Error) {
	err := &panicError{p}
	w.b.fail(err)
	if c, ok := w.decoder.(*comparison); ok && c.pipe != nil {
		_ = c.pipe.CloseWithError(err) // ends its goroutine, whose verdict is not read
	}
	s := w.source
	w.decoder, w.source, w.counter = nil, nil, nil
	if s != nil {
		_ = s.Body.Close()
		s.done(w.items, 0, err)
	}
}

// A panicError is a panic in the form that clients see. It unwraps to the panic, for the server's log.
type panicError struct{ panic *panics.Error }

// Error implements error.
func (e *panicError) Error() string { return "internal error: see the server's log" }

// Unwrap returns the panic.
func (e *panicError) Unwrap() error { return e.panic }

// step reads some items, or the end of a source. It reports whether there may be more.
func (w *worker) step() bool {
	if w.b.stopped.Load() {
		return false
	}
	if w.source == nil && !w.open() {
		return false
	}
	list, n, err := w.decoder.Next()
	switch err {
	case nil:
		w.items += int64(n)
		w.deliver(list, n)
	case io.EOF: //nolint:errorlint // wrapped, it is an error of reading and no end
		w.close(nil)
	default:
		err = nameShard(err, w.source.Shard)
		if !w.reopen(err) {
			w.b.fail(err)
			w.close(err)
		}
	}
	w.lists++
	if w.seen += len(list); w.spawn != nil && (w.seen >= spawnBytes || w.lists > 2) {
		w.spawn()
		w.spawn = nil
	}
	return true
}

// open opens the next source.
func (w *worker) open() bool {
	i := int(w.b.next.Add(1) - 1)
	if i >= len(w.b.sources) {
		return false
	}
	w.source, w.items, w.lists, w.reopened = &w.b.sources[i], 0, 0, false
	w.decode(w.source.Body)
	return true
}

// decode starts to decode body.
func (w *worker) decode(body io.Reader) {
	if w.decoder == nil || w.b.order.Compare != nil {
		w.release()
		w.decoder = w.b.merger.decoder(&w.b.order, w.source)
	}
	w.decoder.Reset(body)
}

// reopen replaces the body of a source that turned out to be invalid before any of its items was written.
func (w *worker) reopen(why error) bool {
	s := w.source
	if s.Reopen == nil || w.reopened || w.items > 0 || w.b.stopped.Load() {
		return false
	}
	w.reopened = true
	body, err := s.Reopen(why)
	if err != nil {
		w.b.fail(nameShard(err, s.Shard))
		return false
	}
	_ = s.Body.Close() // the invalid body
	s.Body = body
	w.decode(body)
	return true
}

// close closes the current source, which ended with err.
func (w *worker) close(err error) {
	s := w.source
	w.source = nil
	offset := w.decoder.InputOffset()
	if texts := w.decoder.Warnings(); texts != nil {
		w.b.warn(s, texts)
	}
	if cerr := s.Body.Close(); err == nil {
		err = cerr // no part of the response is lost
	}
	s.done(w.items, offset, err)
}

// finish releases the resources of the worker.
func (w *worker) finish() {
	if w.source != nil {
		w.close(errStopped)
	}
	w.release()
	if w.counter != nil {
		w.b.addCounts(w.counter)
		w.counter = nil
	}
}

// errStopped is passed to Done of a source that was not read to its end, because the response needs no more
// items or failed elsewhere.
var errStopped = errors.New("not read to the end")

func (w *worker) release() {
	if w.decoder != nil {
		w.b.merger.release(&w.b.order, w.decoder)
		w.decoder = nil
	}
}

// deliver passes items to the hash set, the counter or the writer.
func (w *worker) deliver(list []byte, n int) {
	b := w.b
	if b.out.unique != nil {
		w.hashes = w.hashes[:0]
		for item := range Items(list) {
			w.hashes = append(w.hashes, b.out.unique.hash(item, &w.canonical))
		}
		if list, n = b.keepNew(list, w.hashes); n == 0 {
			return
		}
	}
	if w.counter != nil {
		for item := range Items(list) {
			if err := w.counter.add(item, w.source.Counts); err != nil {
				b.fail(err)
				return
			}
		}
		return
	}
	b.send(list, n)
}
