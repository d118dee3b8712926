package history

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/stmtstats"
)

// A metric is one that an Archive writes for each Key. count returns the field of a counter, and is nil for
// durations.
type metric struct {
	name  string
	count func(c *rollup.Counts, class stmtstats.ErrorClass) *uint64
}

var (
	errorsMetric    = &metric{nameErrors, func(c *rollup.Counts, class stmtstats.ErrorClass) *uint64 { return &c.Errors[class] }}
	durationsMetric = &metric{name: nameDuration}

	// counterMetrics are the counters of a Key; the sum of the durations is that of the histograms.
	counterMetrics = []*metric{
		{nameQueries, func(c *rollup.Counts, _ stmtstats.ErrorClass) *uint64 { return &c.Calls }},
		{nameRowsSent, func(c *rollup.Counts, _ stmtstats.ErrorClass) *uint64 { return &c.RowsSent }},
		{nameRowsAffected, func(c *rollup.Counts, _ stmtstats.ErrorClass) *uint64 { return &c.RowsAffected }},
		{nameBytesSent, func(c *rollup.Counts, _ stmtstats.ErrorClass) *uint64 { return &c.BytesSent }},
		errorsMetric,
	}
	allMetrics = append(counterMetrics[:len(counterMetrics):len(counterMetrics)], durationsMetric)
)

// A sampleRange selects the samples of a time range, ends included.
type sampleRange struct {
	db       storage.Queryable
	from, to int64      // Unix milliseconds
	digests  [][16]byte // nil: all, Other and Evicted too
	limit    int        // samples; beyond it reading fails with errTooManySamples. 0: no limit
}

var (
	errTooManySamples = errors.New("too many samples: ask for a shorter time")
	errForeignSample  = errors.New("a sample is of a kind that the history does not write")
)

// read calls visit for each series of the metrics.
func (r *sampleRange) read(ctx context.Context, metrics []*metric, visit func(*sampleSeries) error) error {
	left := r.limit
	s := sampleSeries{h: new(histogram.Histogram), before: new(histogram.Histogram)}
	if r.limit > 0 {
		s.left = &left
	}
	return r.selectSeries(ctx, func(selectMetric func(string) storage.SeriesSet) error {
		for _, m := range metrics {
			s.metric = m
			set := selectMetric(m.name)
			for set.Next() {
				s.begin(set.At())
				if err := errors.Join(visit(&s), s.err); err != nil {
					return fmt.Errorf("read %s: %w", m.name, err)
				}
			}
			if err := set.Err(); err != nil {
				return fmt.Errorf("read %s: %w", m.name, err)
			}
		}
		return nil
	})
}

// texts returns the texts of the digests.
func (r *sampleRange) texts(ctx context.Context) (map[[16]byte]string, error) {
	texts := make(map[[16]byte]string)
	return texts, r.selectSeries(ctx, func(selectMetric func(string) storage.SeriesSet) error {
		set := selectMetric(nameInfo)
		for set.Next() {
			ls := set.At().Labels()
			digest, err := parseDigest(ls.Get(labelDigest))
			if err != nil {
				return err
			}
			texts[digest] = strings.Clone(ls.Get(labelText))
		}
		if err := set.Err(); err != nil {
			return fmt.Errorf("read %s: %w", nameInfo, err)
		}
		return nil
	})
}

// selectSeries opens a querier for use.
func (r *sampleRange) selectSeries(ctx context.Context, use func(selectMetric func(string) storage.SeriesSet) error) error {
	q, err := r.db.Querier(r.from, r.to)
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	var matchers []*labels.Matcher
	if r.digests != nil {
		names := make([]string, len(r.digests))
		for i, d := range r.digests {
			names[i] = hex.EncodeToString(d[:])
		}
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchRegexp, labelDigest, strings.Join(names, "|")))
	}
	return use(func(name string) storage.SeriesSet {
		return q.Select(ctx, false, nil, append(matchers, labels.MustNewMatcher(labels.MatchEqual, promlabel.MetricNameLabel, name))...)
	})
}

// A sampleSeries iterates over the samples of one series, oldest first.
type sampleSeries struct {
	*metric
	series storage.Series
	it     chunkenc.Iterator
	left   *int // samples that may still be read; nil: no limit
	err    error

	t         int64 // Unix milliseconds
	v         float64
	h, before *histogram.Histogram // h stays valid until the sample after the next one
	stale     bool                 // the series ends here
}

func (s *sampleSeries) begin(series storage.Series) {
	s.series, s.it, s.err = series, series.Iterator(s.it), nil
}

// next advances to the next sample and reports whether there is one. After an error there is none.
func (s *sampleSeries) next() bool {
	kind := s.it.Next()
	switch {
	case kind == chunkenc.ValNone:
		s.err = s.it.Err()
		return false
	case kind == chunkenc.ValFloat && s.count != nil:
		s.t, s.v = s.it.At()
		s.stale = value.IsStaleNaN(s.v)
	case kind == chunkenc.ValHistogram && s.count == nil:
		s.h, s.before = s.before, s.h
		s.t, s.h = s.it.AtHistogram(s.h)
		s.stale = value.IsStaleNaN(s.h.Sum)
	default:
		s.err = errForeignSample
		return false
	}
	if s.left != nil {
		if *s.left--; *s.left < 0 {
			s.err = errTooManySamples
			return false
		}
	}
	return true
}

// id returns what the series counts.
func (s *sampleSeries) id() (k stmtstats.Key, kind stmtstats.Kind, class stmtstats.ErrorClass, err error) {
	ls := s.series.Labels()
	ls.Range(func(l labels.Label) {
		switch l.Name {
		case labelDigest:
			switch l.Value {
			case stmtstats.Other.String():
				kind = stmtstats.Other
			case stmtstats.Evicted.String():
				kind = stmtstats.Evicted
			default:
				if k.Digest, err = parseDigest(l.Value); err != nil {
					err = fmt.Errorf("series %v: %w", ls, err)
				}
			}
		case labelSchema:
			k.Schema = strings.Clone(l.Value)
		case labelUser:
			k.User = strings.Clone(l.Value)
		case labelBackend:
			k.Backend = strings.Clone(l.Value)
		case labelClass:
			class, _ = stmtstats.ParseErrorClass(l.Value)
		}
	})
	return k, kind, class, err
}
