package promapi

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/stats"
)

// replay is an engine that evaluates a query once, and returns the same result for the same arguments.
type replay struct {
	engine *promql.Engine
	seen   map[replayKey]*outcome
	runs   int // queries evaluated
}

// replayKey has all arguments that a handler passes to an engine.
type replayKey struct {
	query      string
	start, end time.Time
	step       time.Duration
	perStep    bool
	lookback   time.Duration
}

type outcome struct {
	result promql.Result
	stats  *stats.Statistics
}

func (e *replay) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	inner, err := e.engine.NewInstantQuery(ctx, q, opts, qs, ts)
	return e.wrap(inner, replayKey{qs, ts, ts, 0, opts.EnablePerStepStats(), opts.LookbackDelta()}), err
}

func (e *replay) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, step time.Duration) (promql.Query, error) {
	inner, err := e.engine.NewRangeQuery(ctx, q, opts, qs, start, end, step)
	return e.wrap(inner, replayKey{qs, start, end, step, opts.EnablePerStepStats(), opts.LookbackDelta()}), err
}

func (e *replay) wrap(q promql.Query, key replayKey) promql.Query {
	return &replayed{inner: q, engine: e, key: key}
}

type replayed struct {
	inner  promql.Query
	engine *replay
	key    replayKey
	found  *outcome
}

func (q *replayed) Exec(ctx context.Context) *promql.Result {
	q.found = q.engine.seen[q.key]
	if q.found == nil {
		q.engine.runs++
		// Not closed: the points would be reused by the next query.
		q.found = &outcome{result: *q.inner.Exec(ctx), stats: q.inner.Stats()}
		q.engine.seen[q.key] = q.found
	}
	result := q.found.result // a handler may truncate its copy
	return &result
}

func (q *replayed) Stats() *stats.Statistics    { return q.found.stats }
func (q *replayed) Statement() parser.Statement { return q.inner.Statement() }
func (q *replayed) String() string              { return q.inner.String() }
func (q *replayed) Cancel()                     { q.inner.Cancel() }
func (*replayed) Close()                        {}
