package promapi

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
)

// faulty is a storage that fails for metrics named after faults.
type faulty struct{ *teststorage.TestStorage }

func (f faulty) ExemplarQuerier(ctx context.Context) (storage.ExemplarQuerier, error) {
	return f.TestStorage.ExemplarQuerier(ctx)
}

func (f faulty) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := f.TestStorage.Querier(mint, maxt)
	return faultyQuerier{q}, err
}

type faultyQuerier struct{ storage.Querier }

var errDisk = errors.New(`read <chunk> of "block": no such disk`)

func wanted(ms []*labels.Matcher) string {
	for _, m := range ms {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// fault returns the fault that a metric's name requests.
func fault(ms []*labels.Matcher) (annotations.Annotations, error) {
	switch wanted(ms) {
	case "fails":
		return nil, errDisk
	case "canceled":
		return nil, context.Canceled
	case "broken":
		return nil, promql.ErrStorage{Err: errDisk}
	case "warns":
		var notes annotations.Annotations
		notes.Add(errors.New("block <1> & \"2\" are missing"))
		return notes, nil
	}
	return nil, nil
}

func (q faultyQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	notes, err := fault(ms)
	switch {
	case err != nil:
		return storage.ErrSeriesSet(err)
	case notes != nil:
		all := labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "temperature")
		return warningSet{q.Querier.Select(ctx, sorted, hints, all), notes}
	case wanted(ms) == "fails_late":
		all := labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "temperature")
		return lateSet{q.Querier.Select(ctx, sorted, hints, all)}
	}
	return q.Querier.Select(ctx, sorted, hints, ms...)
}

func (q faultyQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	notes, err := fault(ms)
	if err != nil {
		return nil, nil, err
	}
	list, more, err := q.Querier.LabelNames(ctx, hints, ms...)
	notes.Merge(more)
	return list, notes, err
}

func (q faultyQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	notes, err := fault(ms)
	if err != nil {
		return nil, nil, err
	}
	list, more, err := q.Querier.LabelValues(ctx, name, hints, ms...)
	notes.Merge(more)
	return list, notes, err
}

// A warningSet has warnings.
type warningSet struct {
	storage.SeriesSet
	notes annotations.Annotations
}

func (s warningSet) Warnings() annotations.Annotations { return s.notes }

// A lateSet returns its series and fails when their samples are read.
type lateSet struct{ storage.SeriesSet }

func (s lateSet) At() storage.Series { return lateSeries{s.SeriesSet.At()} }

type lateSeries struct{ storage.Series }

func (s lateSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	return lateIterator{s.Series.Iterator(it)}
}

type lateIterator struct{ chunkenc.Iterator }

// millis has a name because vet mistakes any Seek(int64) for io.Seeker's.
type millis = int64

func (lateIterator) Next() chunkenc.ValueType       { return chunkenc.ValNone }
func (lateIterator) Seek(millis) chunkenc.ValueType { return chunkenc.ValNone }
func (lateIterator) Err() error                     { return errDisk }
