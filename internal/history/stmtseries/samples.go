package stmtseries

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// Lookback is PromQL's default lookback: the time after its newest sample in which a series is found.
const Lookback = 5 * time.Minute

// A Range selects the samples of a time range, ends included.
type Range struct {
	DB       storage.Queryable
	From, To int64      // Unix milliseconds
	Digests  [][16]byte // nil: all, Other and Evicted too
	Limit    int        // maximum number of samples; beyond it reading fails with ErrTooMany. 0: no limit

	Counts *Counts // adds up what is read; nil: nothing is counted
}

// Counts are numbers of series and samples.
type Counts struct{ Series, Samples atomic.Int64 }

// Errors of reading.
var (
	ErrTooMany = errors.New("too many samples: ask for a shorter time")
	errForeign = errors.New("a sample is of a kind that the history does not write")
)

// Read calls visit for each series of the metrics. It reads no Info.
func (r *Range) Read(ctx context.Context, metrics []Metric, visit func(*Samples) error) error {
	left := r.Limit
	s := Samples{H: new(histogram.Histogram), before: new(histogram.Histogram)}
	if r.Limit > 0 {
		s.left = &left
	}
	if r.Counts != nil {
		defer func() { r.Counts.Samples.Add(s.read) }()
	}
	return r.each(ctx, metrics, func(m Metric, series storage.Series) error {
		s.Metric, s.series, s.it, s.err = m, series, series.Iterator(s.it), nil
		return errors.Join(visit(&s), s.err)
	})
}

// Texts returns the texts of the digests.
func (r *Range) Texts(ctx context.Context) (map[[16]byte]string, error) {
	texts := make(map[[16]byte]string)
	return texts, r.each(ctx, []Metric{Info}, func(_ Metric, series storage.Series) error {
		ls := series.Labels()
		digest, err := ParseDigest(ls.Get(LabelDigest))
		if err == nil {
			texts[digest] = strings.Clone(ls.Get(LabelText))
		}
		return err
	})
}

// each visits the series of the metrics, all as of one point in time.
func (r *Range) each(ctx context.Context, metrics []Metric, visit func(Metric, storage.Series) error) error {
	q, err := r.DB.Querier(r.From, r.To)
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	defer func() { _ = q.Close() }() // it was only read
	var matchers []*labels.Matcher
	if r.Digests != nil {
		names := make([]string, len(r.Digests))
		for i, d := range r.Digests {
			names[i] = hex.EncodeToString(d[:])
		}
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchRegexp, LabelDigest, strings.Join(names, "|")))
	}
	for _, m := range metrics {
		set := q.Select(ctx, false, nil, append(matchers, labels.MustNewMatcher(labels.MatchEqual, promlabel.MetricNameLabel, m.String()))...)
		for err == nil && set.Next() {
			if r.Counts != nil {
				r.Counts.Series.Add(1)
			}
			err = visit(m, set.At())
		}
		if err = errors.Join(err, set.Err()); err != nil {
			return fmt.Errorf("read %s: %w", m, err)
		}
	}
	return nil
}

// Samples are the samples of one series, the oldest first.
type Samples struct {
	Metric Metric

	T     int64 // of the current sample, as all below; Unix milliseconds
	V     float64
	H     *histogram.Histogram // of Duration, instead of V; valid until the sample after the next one
	Stale bool                 // the series ends here

	series storage.Series
	it     chunkenc.Iterator
	before *histogram.Histogram
	read   int64 // samples, of all series so far
	left   *int  // remaining number of samples; nil: no limit
	err    error
}

// Next advances to the next sample and reports whether there is one. After an error there is none.
func (s *Samples) Next() bool {
	kind := s.it.Next()
	switch {
	case kind == chunkenc.ValNone:
		s.err = s.it.Err()
		return false
	case kind == chunkenc.ValFloat && s.Metric != Duration:
		s.T, s.V = s.it.At()
		s.Stale = value.IsStaleNaN(s.V)
	case kind == chunkenc.ValHistogram && s.Metric == Duration:
		s.H, s.before = s.before, s.H
		s.T, s.H = s.it.AtHistogram(s.H)
		s.Stale = value.IsStaleNaN(s.H.Sum)
	default:
		s.err = errForeign
		return false
	}
	s.read++
	if s.left != nil {
		if *s.left--; *s.left < 0 {
			s.err = ErrTooMany
			return false
		}
	}
	return true
}

// ID returns the Key, kind and error class that the series counts.
func (s *Samples) ID() (k stmtstats.Key, kind stmtstats.Kind, class stmtstats.ErrorClass, err error) {
	ls := s.series.Labels()
	ls.Range(func(l labels.Label) {
		switch l.Name {
		case LabelDigest:
			switch l.Value {
			case stmtstats.Other.String():
				kind = stmtstats.Other
			case stmtstats.Evicted.String():
				kind = stmtstats.Evicted
			default:
				if k.Digest, err = ParseDigest(l.Value); err != nil {
					err = fmt.Errorf("series %v: %w", ls, err)
				}
			}
		case LabelSchema:
			k.Schema = strings.Clone(l.Value)
		case LabelUser:
			k.User = strings.Clone(l.Value)
		case LabelBackend:
			k.Backend = strings.Clone(l.Value)
		case LabelClass:
			class, _ = stmtstats.ParseErrorClass(l.Value)
		}
	})
	return k, kind, class, err
}
