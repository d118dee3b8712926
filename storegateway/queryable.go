package storegateway

import (
	"context"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/tsblock"
)

// Queryable returns the gateway as PromQL engines and Prometheus' HTTP API take it. tenant tells
// whose blocks a query reads.
//
// Chunks are planned before the first is loaded: a query that cannot hold them fails in Select.
//
// The selects of a querier share one query: that of their context if WithQuery put one there, else
// one that the first of them waits for. A select keeps labels, which are copies, and references
// to chunks. Chunks are loaded in windows as series are iterated, in the order of labels best of all; a
// window is dropped once the iteration is past it, and loaded again for who comes back. Selects of a querier
// that read the same are read once. So
// an iterator is valid until the querier's Close, and the iterators of a querier are for one
// goroutine. Histograms that iterators return are copies.
func (g *Gateway) Queryable(tenant func(context.Context) (string, error)) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		return &querier{sourceOfSeries{gateway: g, tenant: tenant, mint: mint, maxt: maxt}}, nil
	})
}

type queryKey struct{}

// WithQuery returns a context whose queriers read as a part of q, which is not closed with them.
func WithQuery(ctx context.Context, q *Query) context.Context {
	return context.WithValue(ctx, queryKey{}, q)
}

// sourceOfSeries is what queriers of samples and of chunks have in common.
type sourceOfSeries struct {
	gateway    *Gateway
	tenant     func(context.Context) (string, error)
	mint, maxt int64

	mu       sync.Mutex
	query    *Query // once there was a need for it
	own      bool   // the querier is to close it
	selected []*selected
	filled   map[string]*selected // by what they read: selects that read the same are one
	like     *selected            // the last of them
}

// admitted returns the query to be a part of, and waits for one if need be.
func (s *sourceOfSeries) admitted(ctx context.Context) (*Query, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.query != nil {
		return s.query, nil
	}
	if q, ok := ctx.Value(queryKey{}).(*Query); ok {
		s.query = q
		return q, nil
	}
	tenant, err := s.tenant(ctx)
	if err != nil {
		return nil, err
	}
	q, err := s.gateway.Query(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s.query, s.own = q, true
	return q, nil
}

// LabelNames implements storage.LabelQuerier.
func (s *sourceOfSeries) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	q, err := s.admitted(ctx)
	if err != nil {
		return nil, nil, err
	}
	names, missing, err := q.LabelNames(ctx, s.labelsRequest(hints, ms))
	return names, missing.annotations(), err
}

// LabelValues implements storage.LabelQuerier.
func (s *sourceOfSeries) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	q, err := s.admitted(ctx)
	if err != nil {
		return nil, nil, err
	}
	values, missing, err := q.LabelValues(ctx, name, s.labelsRequest(hints, ms))
	return values, missing.annotations(), err
}

func (s *sourceOfSeries) labelsRequest(hints *storage.LabelHints, ms []*labels.Matcher) LabelsRequest {
	r := LabelsRequest{MinTime: s.mint, MaxTime: s.maxt, Matchers: ms}
	if hints != nil {
		r.Limit = hints.Limit
	}
	return r
}

// Close implements storage.LabelQuerier: it gives back all that the selects hold.
func (s *sourceOfSeries) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.selected {
		l.close()
	}
	s.selected, s.filled, s.like = nil, nil, nil
	if s.own && s.query != nil {
		s.query.Close()
	}
	s.query, s.own = nil, false
	return nil
}

// labelsOnly is the function that Prometheus' API names in its hints when it needs no samples.
const labelsOnly = "series"

// choose reads the labels and chunk references of a select.
func (s *sourceOfSeries) choose(ctx context.Context, hints *storage.SelectHints, ms []*labels.Matcher, chunks bool) (*selected, error) {
	q, err := s.admitted(ctx)
	if err != nil {
		return nil, err
	}
	r := Request{MinTime: s.mint, MaxTime: s.maxt, Matchers: ms}
	trim := true
	if hints != nil {
		r.MinTime, r.MaxTime = hints.Start, hints.End
		r.Limit = hints.Limit
		r.Shard = tsblock.Shard{Index: hints.ShardIndex, Count: hints.ShardCount}
		r.SkipChunks = !chunks && hints.Func == labelsOnly
		trim = !hints.DisableTrimming
	}
	key := keyOf(&r, trim)
	s.mu.Lock()
	same, like := s.filled[key], s.like
	s.mu.Unlock()
	if same != nil {
		return same, nil
	}
	set, err := q.newSet(ctx, r, true)
	if err != nil {
		return nil, err
	}
	l := &selected{set: set, trim: trim, windows: newWindows(set.ctx, q, false), like: like}
	s.mu.Lock()
	s.selected = append(s.selected, l)
	s.mu.Unlock()
	if err := l.fill(); err != nil {
		set.fail(err)
		return nil, set.err // Close releases what was read
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filled == nil {
		s.filled = make(map[string]*selected)
	}
	s.filled[key], s.like = l, l
	return l, nil
}

// A querier is one of samples.
type querier struct{ sourceOfSeries }

var _ storage.Querier = (*querier)(nil)

// Select implements storage.Querier. What it costs is told at Gateway.Queryable.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	l, err := q.choose(ctx, hints, ms, false)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return &sampleSet{selected: l, i: -1}
}

// A sampleSet walks the series of a select.
type sampleSet struct {
	*selected
	i int
}

var _ storage.SeriesSet = (*sampleSet)(nil)

func (s *sampleSet) Next() bool {
	if s.i < len(s.series) {
		s.i++
	}
	return s.i < len(s.series)
}

func (s *sampleSet) At() storage.Series                { return &s.series[s.i] }
func (s *sampleSet) Err() error                        { return nil }
func (s *sampleSet) Warnings() annotations.Annotations { return s.set.missing.annotations() }

// Labels implements storage.Series.
func (s *oneSeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series. An iterator of ours is used again; with it, a series costs no
// allocation.
func (s *oneSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	one, _ := it.(*sampleIterator)
	walk, _ := it.(*walkIterator)
	many, _ := it.(*blocksIterator)
	switch {
	case one != nil:
		one.leave()
	case walk != nil:
		walk.it.leave()
	case many != nil:
		many.leave()
	}
	switch {
	case len(s.places) == 0: // labels only
		return chunkenc.NewNopIterator()
	case len(s.places) == 1:
		if one == nil {
			one = &sampleIterator{}
		}
		one.reset(s, s.places[0])
		return one
	case !s.overlaps():
		if walk == nil {
			walk = &walkIterator{}
		}
		walk.reset(s)
		return walk
	}
	if many == nil {
		many = &blocksIterator{}
	}
	many.reset(s)
	return many
}
