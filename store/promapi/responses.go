package promapi

import (
	"sync"
	"sync/atomic"
	"time"
)

// partBytes is the size of the parts in which responses wait.
const partBytes = 64 << 10

// A ResponseBudget bounds the bytes of encoded responses that wait for their clients. APIs of one process can
// share it. A reservation is granted or refused immediately. It is safe for concurrent use.
type ResponseBudget struct {
	most, each int64 // limits of all responses, and of one
	held, peak atomic.Int64
}

// NewResponseBudget returns a budget of bytes for all responses. One response may take a quarter of it.
func NewResponseBudget(bytes int64) *ResponseBudget {
	return &ResponseBudget{most: bytes, each: bytes / 4}
}

// Reserve reserves n bytes for a response that has charged bytes already, and reports whether they were
// granted.
func (b *ResponseBudget) Reserve(n, charged int64) bool {
	if charged+n > b.each {
		return false
	}
	now := b.held.Add(n)
	if now > b.most {
		b.held.Add(-n)
		return false
	}
	for peak := b.peak.Load(); now > peak && !b.peak.CompareAndSwap(peak, now); peak = b.peak.Load() {
	}
	return true
}

// Release returns n reserved bytes.
func (b *ResponseBudget) Release(n int64) {
	if b.held.Add(-n) < 0 {
		panic("BUG: promapi: more bytes of responses released than reserved")
	}
}

// Reserved returns the reserved bytes.
func (b *ResponseBudget) Reserved() int64 { return b.held.Load() }

// responses are the encoded responses of an API that wait for their clients.
type responses struct {
	*ResponseBudget
	timeout time.Duration // time without progress after which a write fails

	unbuffered, cut atomic.Uint64

	parts sync.Pool // of *part
}

func newResponses(b *ResponseBudget, timeout time.Duration) *responses {
	return &responses{ResponseBudget: b, timeout: timeout}
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

// add copies as much of b as fits and returns the number of bytes copied.
func (p *part) add(b []byte) int {
	n := copy(p.buf[p.n:], b)
	p.n += n
	return n
}

// ResponseStats are the counts of encoded responses that wait for their clients.
type ResponseStats struct {
	Bytes      int64  // limit of all responses
	Held, Peak int64  // reserved bytes, and their peak
	Unbuffered uint64 // responses written while their query was admitted, including streams
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
