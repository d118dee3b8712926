package promapi

import (
	"context"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

type (
	failedKey struct{}
	scalarKey struct{}
)

// Failed returns the error of a request's first attempt, nil if this is the first. See Options.Again.
func Failed(ctx context.Context) error {
	err, _ := ctx.Value(failedKey{}).(error)
	return err
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
