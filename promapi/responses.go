package promapi

import (
	"sync"
	"sync/atomic"
	"time"
)

// partBytes is the size of the parts that responses wait in.
const partBytes = 64 << 10

// responses is the budget of encoded responses that wait for their clients. A reservation is granted or
// refused at once.
type responses struct {
	most    int64         // bytes of all responses
	each    int64         // bytes of one
	timeout time.Duration // of a write that makes no progress

	held, peak      atomic.Int64
	unbuffered, cut atomic.Uint64

	parts sync.Pool // of *part
}

func newResponses(most int64, timeout time.Duration) *responses {
	return &responses{most: most, each: most / 4, timeout: timeout}
}

// reserve reserves n bytes for a response that has charged bytes already.
func (r *responses) reserve(n, charged int64) bool {
	if charged+n > r.each {
		return false
	}
	now := r.held.Add(n)
	if now > r.most {
		r.held.Add(-n)
		return false
	}
	for peak := r.peak.Load(); now > peak && !r.peak.CompareAndSwap(peak, now); peak = r.peak.Load() {
	}
	return true
}

func (r *responses) release(n int64) {
	if r.held.Add(-n) < 0 {
		panic("BUG: promapi: more bytes of responses released than reserved")
	}
}

func (r *responses) part() *part {
	if p, ok := r.parts.Get().(*part); ok {
		p.n = 0
		return p
	}
	return new(part)
}

func (r *responses) putPart(p *part) { r.parts.Put(p) }

// A part is a piece of an encoded response.
type part struct {
	n   int
	buf [partBytes]byte
}

func (p *part) room() int     { return partBytes - p.n }
func (p *part) bytes() []byte { return p.buf[:p.n] }

// add copies as much of b as fits and returns how much that was.
func (p *part) add(b []byte) int {
	n := copy(p.buf[p.n:], b)
	p.n += n
	return n
}

// ResponseStats are the counts of encoded responses that wait for their clients.
type ResponseStats struct {
	Bytes      int64  // that all of them may take
	Held, Peak int64  // that they take, and the most they took
	Unbuffered uint64 // responses that were written while their query was admitted, streams included
	Cut        uint64 // clients that took no data for Options.WriteTimeout
}

// Responses returns the counts of encoded responses that wait for their clients.
func (a *API) Responses() ResponseStats {
	r := a.responses
	return ResponseStats{
		Bytes: r.most, Held: r.held.Load(), Peak: r.peak.Load(),
		Unbuffered: r.unbuffered.Load(), Cut: r.cut.Load(),
	}
}
