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

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
)

// Queryable returns the gateway as a storage.Queryable for PromQL engines and Prometheus' HTTP API. tenant
// returns the tenant whose blocks a query reads.
//
// A select reads nothing before the first series of any select is needed. Chunks are planned before the first
// is loaded: a query without room for them fails then.
//
// The selects of a querier share one query: that of withQuery if the context has one, otherwise one that the
// first of them waits for. A select keeps labels, which are copies, and references to chunks. Chunks are
// loaded in windows as series are iterated, most cheaply in the order of labels; a window is dropped once the
// iteration has passed it, and loaded again if the iteration returns. Selects of a querier with the same
// matchers and overlapping time ranges are read once. An iterator is valid until the querier is closed, and
// the iterators of a querier must not be used concurrently. Histograms that iterators return are copies.
func (g *Gateway) Queryable(tenant func(context.Context) (string, error)) storage.Queryable {
	return g.QueryableExcept(tenant, nil)
}

// QueryableExcept returns Queryable for a caller that merges the series with those of blocks that it reads
// elsewhere. held reports these blocks, at the time of each select: they do not count as missing, for example
// while they are uploaded.
func (g *Gateway) QueryableExcept(tenant func(context.Context) (string, error), held func(ulid.ULID) bool) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		return &querier{querierBase{gateway: g, tenant: tenant, mint: mint, maxt: maxt, held: held}}, nil
	})
}

type queryKey struct{}

// withQuery returns a context whose queriers read as a part of q. Closing them does not close q.
func withQuery(ctx context.Context, q *Query) context.Context {
	return context.WithValue(ctx, queryKey{}, q)
}

// querierBase is the common part of queriers of samples and of chunks.
type querierBase struct {
	gateway    *Gateway
	tenant     func(context.Context) (string, error)
	mint, maxt int64
	held       func(ulid.ULID) bool // blocks that are read elsewhere; nil: none

	mu     sync.Mutex
	query  *Query        // nil until it is needed
	own    bool          // Close closes query
	chosen []*lazySelect // selects that have read nothing yet

	reading  sync.Mutex // locked while reading; guards the fields below
	selected []*selected
	like     *selected // the last select that was read
}

// admitQuery returns the query that the querier belongs to, and admits one if there is none.
func (s *querierBase) admitQuery(ctx context.Context) (*Query, error) {
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
func (s *querierBase) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return s.texts(ctx, func(q *Query) ([]string, blocksync.Missing, error) {
		return q.LabelNames(ctx, s.labelsRequest(hints, ms))
	})
}

// LabelValues implements storage.LabelQuerier.
func (s *querierBase) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return s.texts(ctx, func(q *Query) ([]string, blocksync.Missing, error) {
		return q.LabelValues(ctx, name, s.labelsRequest(hints, ms))
	})
}

// texts reads names or values as a part of the querier's query. A querier without one admits a light query
// for them, and one of all bytes if they need more.
func (s *querierBase) texts(ctx context.Context, read func(*Query) ([]string, blocksync.Missing, error)) ([]string, annotations.Annotations, error) {
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
	q, err := s.admitQuery(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, missing, err := read(q)
	return found, missing.Annotations(), err
}

func (s *querierBase) labelsRequest(hints *storage.LabelHints, ms []*labels.Matcher) LabelsRequest {
	r := LabelsRequest{MinTime: s.mint, MaxTime: s.maxt, Matchers: ms, Held: s.held}
	if hints != nil {
		r.Limit = hints.Limit
	}
	return r
}

// Close implements storage.LabelQuerier. It releases the memory of all selects.
func (s *querierBase) Close() error {
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

// A querier implements storage.Querier.
type querier struct{ querierBase }

var _ storage.Querier = (*querier)(nil)

// Select implements storage.Querier. Gateway.Queryable documents its costs.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return &sampleSet{q.newLazySelect(ctx, hints, ms, false)}
}

// A sampleSet iterates over the series of a select.
type sampleSet struct{ *lazySelect }

var _ storage.SeriesSet = (*sampleSet)(nil)

func (s *sampleSet) At() storage.Series { return &s.of.series[s.i] }

// Labels implements storage.Series.
func (s *oneSeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series. It reuses an iterator of this package; then a series costs no
// allocation.
func (s *oneSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	one, _ := it.(*sampleIterator)
	walk, _ := it.(*walkIterator)
	many, _ := it.(*blocksIterator)
	mixed, _ := it.(*mixedIterator)
	switch {
	case one != nil:
		one.release()
	case walk != nil:
		walk.it.release()
	case many != nil:
		many.release()
	}
	switch {
	case len(s.places) == 0: // labels only
		return chunkenc.NewNopIterator()
	case s.of.mixed:
		if mixed == nil {
			mixed = &mixedIterator{}
		}
		mixed.reset(s)
		return mixed
	case s.overlaps():
		if many == nil {
			many = &blocksIterator{}
		}
		many.reset(s)
		return many
	case len(s.places) == 1:
		if one == nil {
			one = &sampleIterator{}
		}
		one.reset(s, s.places[0], nil)
		return one
	}
	if walk == nil {
		walk = &walkIterator{}
	}
	walk.reset(s)
	return walk
}
