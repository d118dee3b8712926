package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"
)

// A queryable reads the head, the local blocks and the bucket.
//
// The current instance has local data without a gap from wholeStart to now. The bucket is queried only for
// its older samples, and over the whole range for the series of other instances. A sample that both have,
// around that start, is returned once.
type queryable struct {
	archive *Archive
	bucket  storage.Queryable
}

var _ storage.Queryable = (*queryable)(nil)

func newQueryable(a *Archive, bucket storage.Queryable) *queryable {
	return &queryable{archive: a, bucket: bucket}
}

// denials returns one matcher per label that excludes the label's value.
func denials(external map[string]string) (own []*labels.Matcher) {
	for _, name := range slices.Sorted(maps.Keys(external)) {
		own = append(own, labels.MustNewMatcher(labels.MatchNotEqual, name, external[name]))
	}
	return own
}

// hasLocal reports whether a block is local. Its samples are then not missing while its copy in the bucket is
// incomplete, as during the upload.
func (a *Archive) hasLocal(id ulid.ULID) bool {
	return slices.ContainsFunc(a.all(), func(in *instance) bool {
		return slices.ContainsFunc(in.db.Current().Blocks(), func(b *tsdb.Block) bool { return b.Meta().ULID == id })
	})
}

// Querier implements storage.Queryable.
func (q *queryable) Querier(mint, maxt int64) (storage.Querier, error) {
	if cause := q.archive.Waiting(); cause != nil {
		bucket, err := q.bucket.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return &waitingQuerier{bucket, annotations.New().Add(fmt.Errorf("incomplete result: local samples are not read: %w", cause))}, nil
	}
	var queriers []storage.Querier
	failed := func(err error) (storage.Querier, error) {
		for _, q := range queriers {
			err = errors.Join(err, q.Close())
		}
		return nil, err
	}
	all := q.archive.all()
	for _, in := range all {
		local, err := in.db.Querier(mint, maxt)
		if err != nil {
			return failed(err)
		}
		queriers = append(queriers, local)
	}
	// The queriers keep their blocks open. A block that is deleted from here on makes the start later, and
	// samples from both sides are returned once.
	in := all[len(all)-1]
	start := in.db.WholeStart()
	bucket, err := q.bucket.Querier(mint, maxt)
	if err != nil {
		return failed(err)
	}
	queriers = append(queriers, &bucketQuerier{Querier: bucket, mint: mint, maxt: maxt, start: start, own: denials(in.labels)})
	return storage.NewMergeQuerier(queriers, nil, storage.ChainedSeriesMerge), nil
}

// A bucketQuerier reads samples from the bucket that are not local.
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
		// A series that differs in any of the labels belongs to another instance.
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
