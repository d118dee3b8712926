package storegateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// An aggregation determines the samples that a select reads from downsampled blocks.
type aggregation uint8

const (
	averages aggregation = iota // sums divided by counts
	counts
	sums
	minima
	maxima
	counters // without resets: see counterState
)

// aggregationOf returns the aggregation for a selector that is an argument of a PromQL function or aggregation,
// as Thanos queriers choose it.
func aggregationOf(function string) aggregation {
	switch {
	case function == "min" || strings.HasPrefix(function, "min_"):
		return minima
	case function == "max" || strings.HasPrefix(function, "max_"):
		return maxima
	case function == "count" || strings.HasPrefix(function, "count_"):
		return counts
	case strings.HasPrefix(function, "sum_"): // sum adds the samples of several series
		return sums
	case slices.Contains([]string{"rate", "increase", "irate", "resets"}, function):
		return counters
	}
	return averages
}

// aggregate returns the chunk that has the samples of an aggregation; averages have two.
func (a aggregation) aggregate() tsblock.Aggregate {
	switch a {
	case counts:
		return tsblock.AggregateCount
	case minima:
		return tsblock.AggregateMin
	case maxima:
		return tsblock.AggregateMax
	case counters:
		return tsblock.AggregateCounter
	}
	return tsblock.AggregateSum
}

// limitResolution returns the coarsest resolution for a select. Functions that require two samples read no coarser
// blocks than half of their range, as in Thanos.
func limitResolution(r blocksync.Resolution, hints *storage.SelectHints) blocksync.Resolution {
	switch hints.Func {
	case "rate", "irate", "increase", "delta", "idelta", "deriv", "predict_linear", "holt_winters", "double_exponential_smoothing":
		if hints.Range > 0 {
			return min(r, blocksync.Resolution(hints.Range/2))
		}
	}
	return r
}

type maxResolutionKey struct{}

// withMaxResolution returns a context whose queriers read blocks of at most the resolution.
func withMaxResolution(ctx context.Context, r blocksync.Resolution) context.Context {
	return context.WithValue(ctx, maxResolutionKey{}, r)
}

func maxResolutionOf(ctx context.Context) blocksync.Resolution {
	r, _ := ctx.Value(maxResolutionKey{}).(blocksync.Resolution)
	return r
}

// prepareResolution parses the parameter max_source_resolution: a duration, or "auto" for a fifth of the step. It
// returns the context of the query and its lookback delta, which is an hour if samples an hour apart may be read.
func prepareResolution(ctx context.Context, text string, step, lookback time.Duration) (context.Context, time.Duration, error) {
	var longest time.Duration
	switch text {
	case "":
	case "auto":
		longest = step / 5
	default:
		d, err := model.ParseDuration(text)
		if err != nil {
			return ctx, 0, fmt.Errorf("invalid parameter \"max_source_resolution\": %q: want auto, or a duration like 0s, 5m or 1h", text)
		}
		longest = time.Duration(d)
	}
	r := blocksync.Resolution(longest.Milliseconds())
	if r < blocksync.FiveMinutes {
		return ctx, 0, nil
	}
	return withMaxResolution(ctx, r), lookbackOf(r, lookback), nil
}

// lookbackOf returns the lookback delta of a query that may read blocks of a resolution, as Thanos queriers choose
// it: long enough for their samples.
func lookbackOf(r blocksync.Resolution, configured time.Duration) time.Duration {
	if r > max(blocksync.FiveMinutes, blocksync.Resolution(configured.Milliseconds())) {
		return max(configured, time.Hour)
	}
	return max(configured, 5*time.Minute)
}

// mixed reports whether some blocks of the set are downsampled.
func (set *SeriesSet) mixed() bool {
	return slices.ContainsFunc(set.streams, func(s *stream) bool { return s.handle.Resolution() != blocksync.Raw })
}

// resolutions returns infos that name the resolutions of downsampled blocks with their times.
func (set *SeriesSet) resolutions() annotations.Annotations {
	var notes annotations.Annotations
	for _, r := range []blocksync.Resolution{blocksync.FiveMinutes, blocksync.OneHour} {
		first, last, n := int64(math.MaxInt64), int64(math.MinInt64), 0
		for _, s := range set.streams {
			if s.handle.Resolution() == r {
				mint, maxt := s.handle.Times()
				first, last, n = min(first, mint), max(last, maxt), n+1
			}
		}
		if n > 0 {
			notes.Add(fmt.Errorf("%w: samples are downsampled to %s, in %d blocks from %s to %s",
				annotations.PromQLInfo, r, n, timeText(first), timeText(last)))
		}
	}
	return notes
}

func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// part returns the times to which the samples of the entry's block are restricted.
func (e *entry) part() (mint, maxt int64) { return partOf(e.held) }

// restricted reports whether there is a restriction.
func (e *entry) restricted() bool {
	_, _, restricted := e.held.stream.handle.Part()
	return restricted
}

func partOf(h *sharedBatch) (mint, maxt int64) {
	if mint, maxt, restricted := h.stream.handle.Part(); restricted {
		return mint, maxt
	}
	return math.MinInt64, math.MaxInt64
}

// keptAggregates re-encodes the aggregates of a chunk between two times. Counters stay whole: a part of them would
// lack the last raw value, and readers skip times that they have samples of.
func keptAggregates(data []byte, mint, maxt int64) ([]ChunkView, error) {
	all, err := tsblock.SplitAggregates(data)
	if err != nil {
		return nil, err
	}
	view := ChunkView{MinTime: math.MaxInt64, MaxTime: math.MinInt64, Encoding: tsblock.EncodingAggregates}
	for kind := range all {
		if a := &all[kind]; tsblock.Aggregate(kind) != tsblock.AggregateCounter && len(a.Data) > 0 {
			kept, err := keptChunks(a.Encoding, a.Data, tsblock.Chunk{MinTime: math.MinInt64, MaxTime: math.MaxInt64}, mint, maxt, nil)
			if err != nil {
				return nil, err
			}
			if len(kept) == 0 {
				return nil, nil
			}
			if len(kept) > 1 {
				return nil, errors.New("its aggregates cannot be divided")
			}
			a.Data = kept[0].Data
			view.MinTime, view.MaxTime = min(view.MinTime, kept[0].MinTime), max(view.MaxTime, kept[0].MaxTime)
		}
	}
	view.Data = all.AppendTo(nil)
	return []ChunkView{view}, nil
}

// A counterState removes the resets of a counter, raw and downsampled, so that its samples only rise.
//
// The counter chunk of a downsampled block starts with the first raw sample, and each value counts from there
// without resets. Its last sample repeats the time of the one before with the last raw value, which shows whether
// the counter was reset before the next chunk.
type counterState struct {
	started bool
	t       int64
	raw     float64 // the last value in its chunk's terms
	total   float64
}

// add returns the counter's value at t, and false for samples that have none.
func (c *counterState) add(t int64, v float64) (float64, bool) {
	switch {
	case math.IsNaN(v): // also staleness markers
		return 0, false
	case !c.started:
		*c = counterState{true, t, v, v}
		return v, true
	case t > c.t:
		rise := v
		if v >= c.raw {
			rise = v - c.raw
		}
		c.t, c.raw, c.total = t, v, c.total+rise
		return c.total, true
	case t == c.t:
		c.raw = v
	}
	return 0, false
}
