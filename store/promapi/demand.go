package promapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
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

// labelsOnly is not a function: as the Func of hints, it signals the storage that no samples are needed.
const labelsOnly = "series"

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

// samplesError adds the limit, the size of the query and the advice to the error of a query that exceeded MaxSamples.
func (c *call) samplesError(err error) error {
	o := &c.api.o
	if _, ok := errors.AsType[promql.ErrTooManySamples](err); !ok || o.SamplesAdvice == "" {
		return err
	}
	steps := ""
	if c.seen.Step > 0 {
		steps = fmt.Sprintf(" in its %d steps", c.seen.End.Sub(c.seen.Start)/c.seen.Step+1)
	}
	return fmt.Errorf("%w: it has more than %d samples%s%s: %s", err, o.MaxSamples, steps, c.matched, o.SamplesAdvice)
}

// countMatched counts the series that a query's selectors match if it exceeded MaxSamples on its last attempt. The engine
// stops at the limit, so that it does not count the samples that the query requires; series times steps is their number if
// each series has a sample at each step. The count is left out if it fails. The engine has released its memory.
func (c *call) countMatched(q promql.Query, err error) {
	tooMany, ok := errors.AsType[promql.ErrTooManySamples](err)
	statement, evaluates := q.Statement().(*parser.EvalStmt)
	if !ok || !evaluates || c.api.o.SamplesAdvice == "" || c.api.tooManySamples(tooMany, Attempt(c.ctx)) {
		return
	}
	mint, maxt := promql.FindMinMaxTime(statement)
	querier, err := c.api.o.Queryable.Querier(mint, maxt)
	if err != nil {
		return
	}
	defer func() { _ = querier.Close() }()
	series := 0
	parser.Inspect(statement.Expr, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok || err != nil {
			return nil
		}
		set := querier.Select(c.ctx, false, &storage.SelectHints{Start: mint, End: maxt, Func: labelsOnly}, selector.LabelMatchers...)
		for set.Next() {
			series++
		}
		err = set.Err()
		return nil
	})
	if err != nil {
		return
	}
	c.matched = fmt.Sprintf("; its selectors match %d series", series)
	if c.seen.Step > 0 {
		steps := int64(c.seen.End.Sub(c.seen.Start)/c.seen.Step) + 1
		c.matched += fmt.Sprintf(", %d samples with one per step", int64(series)*steps)
	}
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
