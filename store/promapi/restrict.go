package promapi

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// A RestrictFunc returns matchers that all series must match, in addition to a request's own, to be read with
// this context. Other series are invisible: label names and values do not reveal them either.
type RestrictFunc func(context.Context) []*labels.Matcher

// with returns the matchers of a request and those of its restriction.
func (f RestrictFunc) with(ctx context.Context, ms []*labels.Matcher) []*labels.Matcher {
	if more := f(ctx); len(more) > 0 {
		return append(slices.Clip(ms), more...)
	}
	return ms
}

// restricted wraps the storages of the options to apply the restriction.
func (o Options) restricted() Options {
	if o.Restrict == nil {
		return o
	}
	inner := o.Queryable
	o.Queryable = storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		q, err := inner.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return restrictedQuerier{q, restrictedLabels{q, o.Restrict}}, nil
	})
	if o.ChunkQueryable != nil {
		o.ChunkQueryable = restrictedChunks{o.ChunkQueryable, o.Restrict}
	}
	return o
}

// restrictedLabels restricts names and values.
type restrictedLabels struct {
	storage.LabelQuerier
	restrict RestrictFunc
}

// LabelValues implements storage.LabelQuerier.
func (q restrictedLabels) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.LabelQuerier.LabelValues(ctx, name, hints, q.restrict.with(ctx, ms)...)
}

// LabelNames implements storage.LabelQuerier.
func (q restrictedLabels) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.LabelQuerier.LabelNames(ctx, hints, q.restrict.with(ctx, ms)...)
}

type restrictedQuerier struct {
	inner storage.Querier
	restrictedLabels
}

var _ storage.Querier = restrictedQuerier{}

// Select implements storage.Querier.
func (q restrictedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return q.inner.Select(ctx, sorted, hints, q.restrict.with(ctx, ms)...)
}

type restrictedChunks struct {
	inner    storage.ChunkQueryable
	restrict RestrictFunc
}

// ChunkQuerier implements storage.ChunkQueryable.
func (c restrictedChunks) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := c.inner.ChunkQuerier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return restrictedChunkQuerier{q, restrictedLabels{q, c.restrict}}, nil
}

type restrictedChunkQuerier struct {
	inner storage.ChunkQuerier
	restrictedLabels
}

var _ storage.ChunkQuerier = restrictedChunkQuerier{}

// Select implements storage.ChunkQuerier.
func (q restrictedChunkQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	return q.inner.Select(ctx, sorted, hints, q.restrict.with(ctx, ms)...)
}
