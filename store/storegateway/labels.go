package storegateway

import (
	"context"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// A LabelsRequest selects the series whose label names or values are requested: those in blocks that overlap
// the time range, regardless of the times of their samples.
type LabelsRequest struct {
	MinTime, MaxTime int64 // milliseconds, both inclusive
	Matchers         []*labels.Matcher
	Blocks           []*labels.Matcher // on blocksync.BlockIDLabel; none: all blocks
	Without          []string          // names to omit from the result
	Limit            int               // maximum number of names or values; 0: none

	// Held reports blocks that the caller reads elsewhere: they do not count as missing. nil: none.
	Held func(ulid.ULID) bool
}

// textHeader is the size of a string header.
const textHeader = 16

// LabelNames returns the sorted names of labels, and the blocks that are missing from the result. The names
// count against the query's quota until it is closed.
func (q *Query) LabelNames(ctx context.Context, r LabelsRequest) ([]string, blocksync.Missing, error) {
	return q.texts(ctx, r, func(ctx context.Context, h *blocksync.Handle, reader *tsblock.Reader, _ []string, ms []*labels.Matcher) ([]string, error) {
		// Names that are omitted must not use up the limit.
		names, err := reader.LabelNames(ctx, limitOf(r.Limit, len(r.Without)), ms...)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		h.External().Range(func(l labels.Label) { names = append(names, l.Name) })
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.Without, name) }), nil
	})
}

// LabelValues returns the sorted values of the label, and the blocks that are missing from the result. The
// values count against the query's quota until it is closed.
func (q *Query) LabelValues(ctx context.Context, name string, r LabelsRequest) ([]string, blocksync.Missing, error) {
	if slices.Contains(r.Without, name) {
		return nil, blocksync.Missing{}, nil
	}
	return q.texts(ctx, r, func(ctx context.Context, h *blocksync.Handle, reader *tsblock.Reader, known []string, ms []*labels.Matcher) ([]string, error) {
		if !h.External().Has(name) {
			return reader.MoreLabelValues(ctx, name, known, r.Limit, ms...)
		}
		// All series of the block have this value; their names show whether there are any series.
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

// texts calls of for each block and merges the results. of may omit texts that are known, from other blocks.
func (q *Query) texts(ctx context.Context, r LabelsRequest,
	of func(ctx context.Context, h *blocksync.Handle, reader *tsblock.Reader, known []string, ms []*labels.Matcher) ([]string, error),
) ([]string, blocksync.Missing, error) {
	ctx, cancel := q.context(ctx)
	defer cancel()
	mint, maxt := q.gateway.Clip(r.MinTime, r.MaxTime)
	handles, tenant := q.gateway.Open(q.tenant, mint, maxt, blocksync.AnyResolution, r.Blocks...)
	handles, matchers := matchExternal(handles, r.Matchers)
	defer blocksync.ReleaseAll(handles)
	missing := q.missingOf(tenant, r.MinTime, r.MaxTime, blocksync.AnyResolution, r.Matchers, r.Blocks, r.Held)
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
	err = parallel.ForEach(ctx, q.gateway.OpenBlocks(), turns, func(ctx context.Context, i int) error {
		reader := handles[i].Reader(q.quota)
		mu.Lock()
		known := all // it is replaced, not changed
		mu.Unlock()
		found, err := of(ctx, handles[i], reader, known, matchers[i])
		mu.Lock()
		defer mu.Unlock()
		// The reader charges found until it is closed; the query is charged for the texts that are new.
		merged := limitedUnion(all, found, r.Limit)
		if err == nil {
			err = q.keepTexts(all, merged)
		}
		if err == nil {
			all = merged
		}
		mint, maxt := handles[i].Times()
		stats = append(stats, BlockStats{ID: handles[i].ID(), MinTime: mint, MaxTime: maxt, Resolution: handles[i].Resolution(), Read: reader.Stats()})
		reader.Close()
		return err
	})
	q.unregister(nil, 0, 0, stats...)
	if err != nil {
		return nil, blocksync.Missing{}, err
	}
	return all, missing, nil
}

// limitedUnion returns the sorted union of a, which is sorted, and b, cut to limit. It returns a if that has all of b.
func limitedUnion(a, b []string, limit int) []string {
	if !slices.IsSorted(b) {
		b = slices.Sorted(slices.Values(b))
	}
	if containsAll(a, b) {
		return a
	}
	u := make([]string, 0, len(a)+len(b))
	for len(a)+len(b) > 0 && (limit <= 0 || len(u) < limit) {
		var next string
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			next, a = a[0], a[1:]
		} else {
			next, b = b[0], b[1:]
		}
		if n := len(u); n == 0 || u[n-1] != next {
			u = append(u, next)
		}
	}
	return u
}

// containsAll reports whether a has all texts of b. Both are sorted.
func containsAll(a, b []string) bool {
	for _, text := range b {
		for len(a) > 0 && a[0] < text {
			a = a[1:]
		}
		if len(a) == 0 || a[0] != text {
			return false
		}
	}
	return true
}

// keepTexts charges the query for merged in place of all.
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
