package frontend

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/panics"
)

// The last shard of a request is hedged after hedgeFactor times the time of the slowest other shard, and not
// before hedgeLeast.
const (
	hedgeFactor = 2
	hedgeLeast  = 10 * time.Millisecond
)

// errHedged is the cause of the cancellation of the slower of two requests for a shard.
var errHedged = errors.New("another request for the shard was faster")

// A hedgeBudget bounds hedges to a fraction of the requests.
type hedgeBudget struct {
	each  int64 // credit per request, in millionths of a hedge
	saved atomic.Int64
}

const (
	hedgeCost = 1_000_000
	maxSaved  = 10 * hedgeCost
)

func newHedgeBudget(fraction float64) hedgeBudget {
	return hedgeBudget{each: int64(fraction * hedgeCost)}
}

// earn adds the credit of the given number of requests.
func (b *hedgeBudget) earn(requests int) {
	if b.each > 0 && b.saved.Add(int64(requests)*b.each) > maxSaved {
		b.saved.Store(maxSaved)
	}
}

// spend takes the credit of a hedge, and reports whether there was enough.
func (b *hedgeBudget) spend() bool {
	for {
		saved := b.saved.Load()
		if b.each == 0 || saved < hedgeCost {
			return false
		}
		if b.saved.CompareAndSwap(saved, saved-hedgeCost) {
			return true
		}
	}
}

// A gather waits for the headers of the responses to all parts of a request.
type gather struct {
	x       *exchange
	ctx     context.Context //nolint:containedctx // it lives as long as fetchAll
	parts   []*gatheredPart
	results chan gathered
	start   time.Time
	missing int // parts without a response
	running int // requests that have not reported
	fault   error
}

// A gatheredPart is a part with its response.
type gatheredPart struct {
	*part
	cancel  context.CancelCauseFunc // cancels its first request
	hedge   context.CancelCauseFunc // cancels its hedge; nil: there is none
	pending int                     // requests that have not reported
	claimed atomic.Bool             // one of its requests has the response
	resp    *http.Response
	err     error // of its first request
}

// A gathered is the result of one request.
type gathered struct {
	part  *gatheredPart
	hedge bool
	lost  bool // another request has the response
	resp  *http.Response
	err   error
}

// fetchAll requests all parts concurrently and waits for the headers of all responses. The first error cancels
// the others; then no body is left open. A part that is much slower than all others is requested a second
// time, and the first response is used.
func (x *exchange) fetchAll(ctx context.Context) ([]*http.Response, error) {
	parts := x.parts()
	g := &gather{x: x, ctx: ctx, results: make(chan gathered, len(parts)+1), start: time.Now(), missing: len(parts)}
	x.f.hedges.earn(len(parts))
	for _, p := range parts {
		of := &gatheredPart{part: p}
		g.parts = append(g.parts, of)
		partCtx := ctx
		if x.f.hedges.each > 0 {
			partCtx, of.cancel = context.WithCancelCause(ctx) // cancelled with ctx: the body is read with it
		}
		g.request(partCtx, of, false)
	}
	g.wait()
	replies := make([]*http.Response, len(parts))
	for i, p := range g.parts {
		if replies[i] = p.resp; g.fault != nil && p.resp != nil {
			p.resp.Body.Close()
		}
	}
	if g.fault != nil {
		return nil, g.fault
	}
	return replies, nil
}

// request starts a request for a part, which reports to results.
func (g *gather) request(ctx context.Context, p *gatheredPart, hedge bool) {
	g.running++
	p.pending++
	go func() {
		r := gathered{part: p, hedge: hedge}
		r.err = panics.Guard(func() (err error) {
			if hedge {
				r.resp, err = g.x.fetchFrom(ctx, p.part, p.replicas[1%len(p.replicas)])
			} else {
				r.resp, err = g.x.fetch(ctx, p.part)
			}
			return err
		})
		if r.err == nil && !p.claimed.CompareAndSwap(false, true) {
			r.resp.Body.Close()
			r.resp, r.lost = nil, true
		}
		g.results <- r
	}()
}

// wait blocks until all parts have a response or, after a failure, until no request runs.
func (g *gather) wait() {
	var slow *time.Timer
	var due <-chan time.Time
	for g.missing > 0 && g.fault == nil || g.running > 0 && g.fault != nil {
		select {
		case r := <-g.results:
			g.running--
			g.take(&r)
		case <-due:
			due = nil
			g.hedge()
		}
		if g.missing == 1 && slow == nil && len(g.parts) > 1 && g.x.f.hedges.each > 0 {
			took := time.Since(g.start)
			slow = time.NewTimer(max(hedgeFactor*took, hedgeLeast) - took)
			defer slow.Stop()
			due = slow.C
		}
	}
}

// take records the result of a request.
func (g *gather) take(r *gathered) {
	p := r.part
	p.pending--
	switch {
	case r.lost:
	case r.err == nil:
		r.resp.Body = &partBody{ReadCloser: r.resp.Body, part: p.part}
		p.resp = r.resp
		g.missing--
		if r.hedge {
			g.x.f.metrics.hedgesWon.Inc()
			p.cancel(errHedged)
		} else if p.hedge != nil {
			p.hedge(errHedged)
		}
	case p.resp != nil: // the request was cancelled, or too late
	default:
		if !r.hedge {
			p.err = r.err
		}
		// An error caused by the request is the same at all replicas; after another error the second request
		// may succeed.
		if p.pending > 0 && (r.hedge || mayRetry(r.err)) {
			return
		}
		if g.fault == nil {
			g.fault = r.err
			if p.err != nil {
				g.fault = p.err
			}
			g.x.cancel(errDone)
		}
	}
}

// hedge requests the only part without a response a second time.
func (g *gather) hedge() {
	for _, p := range g.parts {
		if p.resp != nil || g.fault != nil {
			continue
		}
		if p.pending == 0 || p.retried.Load() || !g.x.f.hedges.spend() || !p.retried.CompareAndSwap(false, true) {
			return
		}
		var ctx context.Context
		ctx, p.hedge = context.WithCancelCause(g.ctx)
		g.x.f.metrics.hedges.Inc()
		g.request(ctx, p, true)
		return
	}
}
