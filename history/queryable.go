package history

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// A queryable answers over the head, the local blocks and the bucket.
//
// Local data goes without a gap from wholeStart to now, so of this instance's series the bucket is
// only asked for what is older. What other instances have shipped is asked for the whole time.
// Where both have a sample, as around that start, it is answered once.
type queryable struct {
	db     *database
	bucket storage.Queryable
	own    []*labels.Matcher // each denies one of our external labels
}

var _ storage.Queryable = (*queryable)(nil)

func newQueryable(db *database, bucket storage.Queryable, external map[string]string) *queryable {
	q := &queryable{db: db, bucket: bucket}
	for _, name := range slices.Sorted(maps.Keys(external)) {
		q.own = append(q.own, labels.MustNewMatcher(labels.MatchNotEqual, name, external[name]))
	}
	return q
}

// Querier implements storage.Queryable.
func (q *queryable) Querier(mint, maxt int64) (storage.Querier, error) {
	local, err := q.db.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	// The querier keeps the blocks that it has; one that goes from here on makes the start later,
	// and what is answered twice is answered once.
	start := wholeStart(q.db.current())
	bucket, err := q.bucket.Querier(mint, maxt)
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	old := &bucketQuerier{Querier: bucket, mint: mint, maxt: maxt, start: start, own: q.own}
	return storage.NewMergeQuerier([]storage.Querier{local, old}, nil, storage.ChainedSeriesMerge), nil
}

// A bucketQuerier asks the bucket for what is not local.
type bucketQuerier struct {
	storage.Querier
	mint, maxt int64
	start      int64 // of the local data
	own        []*labels.Matcher
}

var _ storage.Querier = (*bucketQuerier)(nil)

// Select implements storage.Querier.
func (q *bucketQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	h := storage.SelectHints{Start: q.mint, End: q.maxt}
	if hints != nil {
		h = *hints
	}
	var sets []storage.SeriesSet
	if h.Start < q.start {
		before := h
		before.End = min(h.End, q.start-1)
		sets = append(sets, q.Querier.Select(ctx, true, &before, ms...))
	}
	if h.End >= q.start && q.start != math.MaxInt64 {
		since := h
		since.Start = max(h.Start, q.start)
		// Whoever differs in one of the labels is another.
		for i, m := range q.own {
			others := append(slices.Clone(ms), m)
			for _, same := range q.own[:i] {
				equal := labels.MustNewMatcher(labels.MatchEqual, same.Name, same.Value)
				others = append(others, equal)
			}
			sets = append(sets, q.Querier.Select(ctx, true, &since, others...))
		}
	}
	if len(sets) == 1 {
		return sets[0]
	}
	return storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
}
