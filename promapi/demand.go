package promapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

type (
	attemptKey struct{}
	failedKey  struct{}
	scalarKey  struct{}
)

// Failed returns the error of a request's previous attempt, or nil on the first. See Options.Retry.
func Failed(ctx context.Context) error {
	err, _ := ctx.Value(failedKey{}).(error)
	return err
}

// Attempt returns the number of the current attempt of a request, from 0. See Options.Retry.
func Attempt(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return n
}

// maxAttempts bounds the attempts of a request.
const maxAttempts = 4

// A RetryMode specifies how a failed request is retried.
type RetryMode uint8

// Ways to retry a request.
const (
	NoRetry     RetryMode = iota
	RetryLarger           // as the next attempt, which may use more memory; at most four attempts
	RetrySame             // as the same attempt, within the request's time-out, after the cause of the error was removed
)

// sampleParts are the divisors of MaxSamples in the first attempts of a query, if Options.Retry is set: a
// query that needs more samples is retried with a smaller divisor.
var sampleParts = [...]int{16, 4, 1}

// MaxSamples returns the engine's limit of samples in an attempt. The last attempt has the full limit most.
func MaxSamples(most, attempt int) int {
	return max(1, most/sampleParts[min(attempt, len(sampleParts)-1)])
}

// tooManySamples reports whether a query exceeded the samples of its attempt and a later attempt allows more.
func (a *API) tooManySamples(err error, attempt int) bool {
	_, ok := errors.AsType[promql.ErrTooManySamples](err)
	return ok && attempt < len(a.engines)-1
}

// samplesError adds the limit, the steps and the advice to the error of a query that exceeded MaxSamples. The
// engine stops there, so how many samples the query would need is unknown.
func (c *call) samplesError(err error) error {
	o := &c.api.o
	if _, ok := errors.AsType[promql.ErrTooManySamples](err); !ok || o.SamplesAdvice == "" {
		return err
	}
	steps := ""
	if c.seen.Step > 0 {
		steps = fmt.Sprintf(" in its %d steps", c.seen.End.Sub(c.seen.Start)/c.seen.Step+1)
	}
	return fmt.Errorf("%w: it has more than %d samples%s: %s", err, o.MaxSamples, steps, o.SamplesAdvice)
}

// engine returns the engine of the request's attempt.
func (c *call) engine() promql.QueryEngine {
	return c.api.engines[min(Attempt(c.ctx), len(c.api.engines)-1)]
}

// WithoutSeries reports whether a request is a query that selects no series, such as 1+1: it does not read
// the storage.
func WithoutSeries(ctx context.Context) bool { return ctx.Value(scalarKey{}) != nil }

// markScalar makes WithoutSeries report a query without selectors.
func (c *call) markScalar(q promql.Query) {
	statement, ok := q.Statement().(*parser.EvalStmt)
	if !ok {
		return
	}
	selects := false
	parser.Inspect(statement.Expr, func(n parser.Node, _ []parser.Node) error {
		if _, ok := n.(*parser.VectorSelector); ok {
			selects = true
		}
		return nil
	})
	if !selects {
		c.ctx = context.WithValue(c.ctx, scalarKey{}, true)
	}
}

// reserveBuffer calls Options.ReserveResponse with the growth of the response's buffer.
func (c *call) reserveBuffer(n int) error {
	more := int64(n) - c.reserved
	if c.api.o.ReserveResponse == nil || more <= 0 {
		return nil
	}
	c.reserved += more
	return c.api.o.ReserveResponse(c.ctx, more)
}
