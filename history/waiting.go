package history

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// A waitingQuerier reads the bucket while the archive waits, and warns that local samples are missing.
type waitingQuerier struct {
	storage.Querier
	warning annotations.Annotations
}

var _ storage.Querier = (*waitingQuerier)(nil)

// Select implements storage.Querier.
func (q *waitingQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return &warnedSet{q.Querier.Select(ctx, sorted, hints, ms...), q.warning}
}

// LabelValues implements storage.Querier.
func (q *waitingQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	values, warnings, err := q.Querier.LabelValues(ctx, name, hints, ms...)
	return values, warnings.Merge(q.warning), err //nolint:wrapcheck // of the bucket
}

// LabelNames implements storage.Querier.
func (q *waitingQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names, warnings, err := q.Querier.LabelNames(ctx, hints, ms...)
	return names, warnings.Merge(q.warning), err //nolint:wrapcheck // of the bucket
}

// A warnedSet is a set of series with one warning more.
type warnedSet struct {
	storage.SeriesSet
	warning annotations.Annotations
}

// Warnings implements storage.SeriesSet.
func (s *warnedSet) Warnings() annotations.Annotations {
	all := s.SeriesSet.Warnings()
	return all.Merge(s.warning)
}
