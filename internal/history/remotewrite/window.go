package remotewrite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// A zero sample before a series' first one is at most maxBefore older, and nearly always at most before: see package history.
// Reading starts that much earlier, as chunks of so long have to be decoded.
const (
	before    = 3 * time.Minute
	maxBefore = time.Hour
)

// A window is a range of time of one database, in Unix milliseconds: from is not in it, to is.
//
// A sample of 0 before the first sample of a series is in the window that has its own time if its commit was complete
// when that window was read: if the first sample is not after the window's until. Otherwise it is in the window of the first sample.
type window struct {
	from, to    int64
	until       int64  // all samples up to it were written when the window was read for the first time; at least to
	earlier     []span // in which other windows lie that had an until after their end
	part, parts uint64 // only the series whose hash is in the part
}

// mostParts bounds the parts of a window. One of so many has hardly more than one series, which is sent whatever its size.
const mostParts = 1 << 16

// limit returns the bytes that a part may have: bytes, or no bound if a smaller part would not help.
func (w window) limit(bytes int) int {
	if w.parts >= mostParts {
		return math.MaxInt
	}
	return bytes
}

// A span is a range of adjacent windows with one until: from is not in it, to is.
type span struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Until int64 `json:"until"`
}

// sentAlone reports whether an earlier window had the sample of 0 at a time, before a first sample at another one.
func (w window) sentAlone(zero, first int64) bool {
	for _, s := range w.earlier {
		if s.From < zero && zero <= s.To {
			return first <= s.Until
		}
	}
	return false
}

var (
	errWindowBytes = errors.New("the window has too many bytes")
	errBefore      = errors.New("a series may start before what is read") // internal: never returned by read
)

// read returns the requests of a window: errWindowBytes if they have more than limit bytes.
func (w window) read(ctx context.Context, db storage.Queryable, e *encoder, limit int) ([]request, error) {
	out, err := w.readSince(ctx, db, e, limit, w.from-before.Milliseconds())
	if errors.Is(err, errBefore) {
		out, err = w.readSince(ctx, db, e, limit, w.from-maxBefore.Milliseconds())
	}
	return out, err
}

func (w window) readSince(ctx context.Context, db storage.Queryable, e *encoder, limit int, since int64) (out []request, err error) {
	e.requests, e.bytes = nil, 0
	e.restart()
	q, err := db.Querier(since, math.MaxInt64) // beyond the window for the sample after a 0
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	// Sorted, so that a process that reads a window again makes the same requests of it: a receiver of 1.0 takes or refuses a request
	// as a whole.
	set := q.Select(ctx, e.version == V1, &storage.SelectHints{Start: since, End: math.MaxInt64}, labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, ""))
	s := seriesReader{window: w, encoder: e, sure: w.from-since >= maxBefore.Milliseconds()}
	for set.Next() {
		series := set.At()
		ls := series.Labels()
		if w.parts > 1 && ls.Hash()%w.parts != w.part {
			continue
		}
		if err := s.read(series, ls); err != nil {
			return nil, err
		}
		if e.bytes+len(e.rows) > limit {
			return nil, errWindowBytes
		}
	}
	if err := set.Err(); err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	e.finish()
	return e.requests, nil
}

// A seriesReader encodes the samples of a window, series by series.
type seriesReader struct {
	window
	*encoder
	sure bool // no sample of 0 that precedes one of the window is older than what is read

	it        chunkenc.Iterator
	whole     *histogram.Histogram
	fractions *histogram.FloatHistogram
}

// read encodes one series.
func (s *seriesReader) read(series storage.Series, ls labels.Labels) error {
	s.begin()
	s.it = series.Iterator(s.it)
	preceded := false          // by a sample at or before from
	before, last := none, none // samples of 0: the last one at or before from, and the last sample of the window
	for kind := s.it.Next(); kind != chunkenc.ValNone; kind = s.it.Next() {
		t := s.it.AtT()
		if t <= s.from {
			preceded, before = true, s.zero(kind)
			continue
		}
		if t > s.to {
			if t > s.until {
				last = none // it is in the window of this sample
			}
			break
		}
		if !preceded {
			if !s.sure && !s.isZero(kind) && ls.Get(model.MetricNameLabel) != noZeroMetric {
				return errBefore
			}
			preceded = true
		}
		if before.at != none.at && !s.sentAlone(before.at, t) {
			s.zeroSample(before)
		}
		before = none
		s.zeroSample(last)
		if last = s.zero(kind); last.at == none.at {
			s.sample(kind)
		}
		if s.full() {
			s.end(ls)
			s.begin()
		}
	}
	if err := s.it.Err(); err != nil {
		return fmt.Errorf("read samples of %s: %w", ls, err)
	}
	s.zeroSample(last)
	s.end(ls)
	return nil
}

// noZeroMetric is the one metric whose series do not start with a sample of 0.
const noZeroMetric = "tare_digest_info"

// A zeroSample is a sample of 0.
type zeroSample struct {
	at        int64
	histogram *histogram.Histogram // nil: a float
}

// none stands for no sample.
var none = zeroSample{at: math.MinInt64}

// zero returns the current sample if it is 0, else none.
func (s *seriesReader) zero(kind chunkenc.ValueType) zeroSample {
	if !s.isZero(kind) {
		return none
	}
	if kind == chunkenc.ValFloat {
		return zeroSample{at: s.it.AtT()}
	}
	t, h := s.it.AtHistogram(nil)
	return zeroSample{t, h}
}

// isZero reports whether the current sample is 0.
func (s *seriesReader) isZero(kind chunkenc.ValueType) bool {
	switch kind {
	case chunkenc.ValFloat:
		_, v := s.it.At()
		return v == 0
	case chunkenc.ValHistogram:
		_, s.whole = s.it.AtHistogram(s.whole)
		return s.whole.Count == 0 && s.whole.Sum == 0 // that of a staleness marker is NaN
	}
	return false
}

// zeroSample encodes a sample of 0.
func (s *seriesReader) zeroSample(z zeroSample) {
	switch {
	case z.at == none.at:
	case z.histogram != nil:
		s.histogram(z.at, z.histogram)
	default:
		s.float(z.at, 0)
	}
}

// sample encodes the current sample.
func (s *seriesReader) sample(kind chunkenc.ValueType) {
	switch kind {
	case chunkenc.ValFloat:
		s.float(s.it.At())
	case chunkenc.ValHistogram:
		var t int64
		t, s.whole = s.it.AtHistogram(s.whole)
		s.histogram(t, s.whole)
	case chunkenc.ValFloatHistogram:
		var t int64
		t, s.fractions = s.it.AtFloatHistogram(s.fractions)
		s.floatHistogram(t, s.fractions)
	}
}
