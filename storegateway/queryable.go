package storegateway

import (
	"context"
	"errors"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway/blocksync"
)

// Queryable returns the gateway as PromQL engines and Prometheus' HTTP API take it. tenant tells
// whose blocks a query reads.
//
// Selects read nothing before the first series of one of them is needed. Chunks are planned before the first is loaded:
// a query that cannot hold them fails then.
//
// The selects of a querier share one query: that of their context if WithQuery put one there, else
// one that the first of them waits for. A select keeps labels, which are copies, and references
// to chunks. Chunks are loaded in windows as series are iterated, in the order of labels best of all; a
// window is dropped once the iteration is past it, and loaded again for who comes back. Selects of a querier
// with the same matchers are read once where their time ranges meet. So
// an iterator is valid until the querier's Close, and the iterators of a querier are for one
// goroutine. Histograms that iterators return are copies.
func (g *Gateway) Queryable(tenant func(context.Context) (string, error)) storage.Queryable {
	return g.QueryableBeside(tenant, nil)
}

// QueryableBeside is Queryable for a caller that merges the series with those of blocks that it reads
// elsewhere. held reports these blocks, at the time of each select: no warning or error says that one of
// them is missing, as while it is uploaded.
func (g *Gateway) QueryableBeside(tenant func(context.Context) (string, error), held func(ulid.ULID) bool) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		return &querier{sourceOfSeries{gateway: g, tenant: tenant, mint: mint, maxt: maxt, held: held}}, nil
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
	held       func(ulid.ULID) bool // blocks that are read elsewhere; nil: none

	mu     sync.Mutex
	query  *Query    // once there was a need for it
	own    bool      // the querier is to close it
	chosen []*choice // selects that have read nothing yet

	reading  sync.Mutex // held while reading; guards the fields below
	selected []*selected
	like     *selected // the last of them that was read
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
	q, err := s.gateway.Admit(ctx, Admission{Tenant: tenant})
	if err != nil {
		return nil, err
	}
	s.query, s.own = q, true
	return q, nil
}

// LabelNames implements storage.LabelQuerier.
func (s *sourceOfSeries) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return s.texts(ctx, func(q *Query) ([]string, blocksync.Missing, error) {
		return q.LabelNames(ctx, s.labelsRequest(hints, ms))
	})
}

// LabelValues implements storage.LabelQuerier.
func (s *sourceOfSeries) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return s.texts(ctx, func(q *Query) ([]string, blocksync.Missing, error) {
		return q.LabelValues(ctx, name, s.labelsRequest(hints, ms))
	})
}

// texts reads names or values as a part of the querier's query. A querier without one admits a light query for them, and
// one of all bytes if they need more.
func (s *sourceOfSeries) texts(ctx context.Context, read func(*Query) ([]string, blocksync.Missing, error)) ([]string, annotations.Annotations, error) {
	s.mu.Lock()
	alone := s.query == nil && ctx.Value(queryKey{}) == nil
	s.mu.Unlock()
	if alone {
		tenant, err := s.tenant(ctx)
		if err != nil {
			return nil, nil, err
		}
		q, err := s.gateway.Admit(ctx, Admission{Tenant: tenant, Demand: LightQuery})
		if err != nil {
			return nil, nil, err
		}
		found, missing, err := read(q)
		q.Close()
		if !errors.Is(err, slab.ErrShort) {
			return found, missing.Annotations(), err
		}
	}
	q, err := s.admitted(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, missing, err := read(q)
	return found, missing.Annotations(), err
}

func (s *sourceOfSeries) labelsRequest(hints *storage.LabelHints, ms []*labels.Matcher) LabelsRequest {
	r := LabelsRequest{MinTime: s.mint, MaxTime: s.maxt, Matchers: ms, Held: s.held}
	if hints != nil {
		r.Limit = hints.Limit
	}
	return r
}

// Close implements storage.LabelQuerier: it gives back all that the selects hold.
func (s *sourceOfSeries) Close() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.selected {
		l.close()
	}
	s.selected, s.like, s.chosen = nil, nil, nil
	if s.own && s.query != nil {
		s.query.Close()
	}
	s.query, s.own = nil, false
	return nil
}

// A querier is one of samples.
type querier struct{ sourceOfSeries }

var _ storage.Querier = (*querier)(nil)

// Select implements storage.Querier. What it costs is told at Gateway.Queryable.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return &sampleSet{q.choose(ctx, hints, ms, false)}
}

// A sampleSet walks the series of a select.
type sampleSet struct{ *choice }

var _ storage.SeriesSet = (*sampleSet)(nil)

func (s *sampleSet) At() storage.Series { return &s.of.series[s.i] }

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
