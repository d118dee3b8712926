package storegateway

import (
	"context"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway/blocksync"
	"github.com/taredb/tare/tsblock"
)

// A LabelsRequest says of which series names or values of labels are wanted: those in blocks with a
// part in the time range, whatever the times of their samples.
type LabelsRequest struct {
	MinTime, MaxTime int64 // milliseconds, both inclusive
	Matchers         []*labels.Matcher
	Blocks           []*labels.Matcher // of blocksync.BlockIDLabel; none: all blocks
	Without          []string          // names that the answer is to be without
	Limit            int               // of names or values; 0: none

	// Held reports blocks that the caller reads elsewhere: none of them is missing. nil: none.
	Held func(ulid.ULID) bool
}

// textHeader is what a string takes besides its text.
const textHeader = 16

// LabelNames returns the names of labels, sorted, and which blocks they are not of. They count
// against the query's quota until its Close.
func (q *Query) LabelNames(ctx context.Context, r LabelsRequest) ([]string, blocksync.Missing, error) {
	return q.texts(ctx, r, func(ctx context.Context, h *blocksync.Handle, reader *tsblock.Reader, ms []*labels.Matcher) ([]string, error) {
		// Names that are left out must not use up the limit.
		names, err := reader.LabelNames(ctx, limitOf(r.Limit, len(r.Without)), ms...)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		h.External().Range(func(l labels.Label) { names = append(names, l.Name) })
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.Without, name) }), nil
	})
}

// LabelValues returns the values of the label with that name, sorted, and which blocks they are
// not of. They count against the query's quota until its Close.
func (q *Query) LabelValues(ctx context.Context, name string, r LabelsRequest) ([]string, blocksync.Missing, error) {
	if slices.Contains(r.Without, name) {
		return nil, blocksync.Missing{}, nil
	}
	return q.texts(ctx, r, func(ctx context.Context, h *blocksync.Handle, reader *tsblock.Reader, ms []*labels.Matcher) ([]string, error) {
		if !h.External().Has(name) {
			return reader.LabelValues(ctx, name, r.Limit, ms...)
		}
		// All series of the block have the one value; whether there are any, their names tell.
		names, err := reader.LabelNames(ctx, 1, ms...)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		return []string{h.External().Get(name)}, nil
	})
}

func limitOf(limit, more int) int {
	if limit <= 0 {
		return 0
	}
	return limit + more
}

// texts collects what of does with each block.
func (q *Query) texts(ctx context.Context, r LabelsRequest,
	of func(context.Context, *blocksync.Handle, *tsblock.Reader, []*labels.Matcher) ([]string, error),
) ([]string, blocksync.Missing, error) {
	ctx, cancel := q.context(ctx)
	defer cancel()
	handles, tenant := q.gateway.Open(q.tenant, r.MinTime, r.MaxTime, r.Blocks...)
	handles, matchers := matchExternal(handles, r.Matchers)
	defer blocksync.ReleaseAll(handles)
	missing := q.missingOf(tenant, r.MinTime, r.MaxTime, r.Matchers, r.Blocks, r.Held)
	err := q.gateway.check(missing)
	if err == nil {
		err = q.gateway.LoadHeaders(ctx, handles)
	}
	if err != nil {
		return nil, blocksync.Missing{}, err
	}
	var (
		mu    sync.Mutex
		all   []string
		stats []BlockStats
		turns = make([]int, len(handles))
	)
	for i := range turns {
		turns[i] = i
	}
	err = parallel.ForEach(ctx, openBlocks, turns, func(ctx context.Context, i int) error {
		reader := handles[i].Reader(q.quota)
		found, err := of(ctx, handles[i], reader, matchers[i])
		mu.Lock()
		defer mu.Unlock()
		// What a reader holds is its own until it is closed; what is new here is the query's.
		merged := limitedUnion(all, found, r.Limit)
		if err == nil {
			err = q.keepTexts(all, merged)
		}
		if err == nil {
			all = merged
		}
		mint, maxt := handles[i].Times()
		stats = append(stats, BlockStats{ID: handles[i].ID(), MinTime: mint, MaxTime: maxt, Read: reader.Stats()})
		reader.Close()
		return err
	})
	q.end(nil, 0, 0, stats...)
	if err != nil {
		return nil, blocksync.Missing{}, err
	}
	return all, missing, nil
}

// limitedUnion returns the sorted union of a, which is sorted, and b, and no more than limit of it.
func limitedUnion(a, b []string, limit int) []string {
	if len(b) == 0 {
		return a
	}
	u := append(slices.Clone(a), b...)
	slices.Sort(u)
	u = slices.Compact(u)
	if limit > 0 && len(u) > limit {
		u = u[:limit]
	}
	return u
}

// keepTexts has the query hold merged in place of all.
func (q *Query) keepTexts(all, merged []string) error {
	more := textBytes(merged) - textBytes(all)
	if more > 0 {
		if err := q.quota.Reserve(slab.Values, more); err != nil {
			return err
		}
	} else {
		q.quota.Return(slab.Values, -more)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.values += more
	return nil
}

func textBytes(texts []string) int64 {
	n := int64(0)
	for _, t := range texts {
		n += textHeader + int64(len(t))
	}
	return n
}
