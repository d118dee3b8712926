package promapi

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

type (
	attemptKey struct{}
	failedKey  struct{}
	scalarKey  struct{}
)

// Failed returns the error of a request's last attempt, nil if this is the first. See Options.Again.
func Failed(ctx context.Context) error {
	err, _ := ctx.Value(failedKey{}).(error)
	return err
}

// Attempt returns which attempt of a request this is, from 0. See Options.Again.
func Attempt(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return n
}

// maxAttempts is how many attempts a request has at most.
const maxAttempts = 4

// A Repeat is how a request that failed is served again.
type Repeat uint8

// The ways to serve a request again.
const (
	NoRepeat     Repeat = iota
	RepeatLarger        // as the next attempt, which may hold more, of at most four
	RepeatSame          // as the same attempt, within the request's time-out, since the cause of the error was removed
)

// SampleParts are how many times fewer samples than MaxSamples a query may hold in its first attempts, if
// Options.Again is set: a query that needs more is served again with more.
var sampleParts = [...]int{16, 4, 1}

// MaxSamples returns the most samples that the engine lets a query hold in an attempt, of which the last admits most.
func MaxSamples(most, attempt int) int {
	return max(1, most/sampleParts[min(attempt, len(sampleParts)-1)])
}

// tooManySamples reports whether a query held more samples than its attempt allows, and another allows more.
func (a *API) tooManySamples(err error, attempt int) bool {
	_, ok := errors.AsType[promql.ErrTooManySamples](err)
	return ok && attempt < len(a.engines)-1
}

// engine returns the engine of the request's attempt.
func (c *call) engine() promql.QueryEngine {
	return c.api.engines[min(Attempt(c.ctx), len(c.api.engines)-1)]
}

// WithoutSeries reports whether a request is a query that selects no series, such as 1+1: it reads nothing of the
// storage.
func WithoutSeries(ctx context.Context) bool { return ctx.Value(scalarKey{}) != nil }

// markScalar has WithoutSeries report a query without selectors.
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

// holds calls Options.Hold for what the response's buffer has grown by.
func (c *call) holds(n int) error {
	more := int64(n) - c.held
	if c.api.o.Hold == nil || more <= 0 {
		return nil
	}
	c.held += more
	return c.api.o.Hold(c.ctx, more)
}
