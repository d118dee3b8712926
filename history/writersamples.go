package history

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// visit appends the samples of one Key, and reports whether there were any.
func (w *writer) visit(s *stmtstats.Sample) (bool, error) {
	switch s.Kind {
	case stmtstats.Removed:
		w.endTrack(s)
		return false, nil
	case stmtstats.Evicted:
		kept := *s
		w.evicted = &kept // for the commit in which evicted Keys end
		return false, nil
	}
	return w.write(s)
}

// writeEvicted writes the stored sample of Evicted.
func (w *writer) writeEvicted() error {
	if w.evicted == nil {
		return nil
	}
	_, err := w.write(w.evicted)
	w.evicted = nil
	return err
}

func (w *writer) write(s *stmtstats.Sample) (bool, error) {
	e := w.tracks[s.ID]
	if e == nil {
		e = w.newTrack(s)
	}
	if s.Kind == stmtstats.Tracked && s.Text != "" {
		w.setInfo(e, s.Text)
	}
	defer func() { e.visited = w.last }()
	if s.Counts[stmtstats.Calls] == 0 && s.Histogram.Nanos == 0 {
		e.clean = true
		return false, nil
	}
	if s.Counts[stmtstats.Calls] == e.calls && s.Histogram.Nanos == e.nanos && w.last-e.written < RefreshAge.Milliseconds() {
		return false, nil
	}
	if e.written == w.last { // calls since Collect, in the same millisecond: the next round visits them
		return false, nil
	}
	w.batch = append(w.batch, e)
	if err := w.append(e, s); err != nil {
		e.written, e.calls = 0, 0
		return false, fmt.Errorf("append samples of digest %x: %w", e.key.Digest, err)
	}
	e.written, e.calls, e.nanos, e.clean = w.last, s.Counts[stmtstats.Calls], s.Histogram.Nanos, true
	return true, nil
}

// newTrack creates the track of a Key that is visited for the first time.
func (w *writer) newTrack(s *stmtstats.Sample) *track {
	e := &track{kind: s.Kind, key: stmtstats.Key{
		Digest: s.Digest, Schema: strings.Clone(s.Schema), User: strings.Clone(s.User), Backend: strings.Clone(s.Backend),
	}}
	// A process that was killed between a visit and its commit has written nothing either.
	e.born = s.Born || s.First.UnixMilli() > w.prev && s.ID > w.lastID
	w.tracks[s.ID] = e
	if s.Kind != stmtstats.Tracked {
		return e
	}
	// An evicted Key that returns continues its series, whose counters restart from 0.
	old := w.byKey[e.key]
	if old == nil {
		old = w.ended[e.key]
		delete(w.ended, e.key)
	}
	if old != nil {
		old.back = true
		e.refs, e.floor = old.refs, old.written
	}
	w.byKey[e.key] = e
	return e
}

// endTrack removes the track of an evicted Key.
func (w *writer) endTrack(s *stmtstats.Sample) {
	e := w.tracks[s.ID]
	if e == nil {
		return // this process has written nothing of it
	}
	delete(w.tracks, s.ID)
	if !e.back {
		delete(w.byKey, e.key)
		w.ended[e.key] = e
	}
	if in := e.info; in != nil {
		if in.users--; in.users == 0 {
			w.unused = append(w.unused, in)
		}
	}
}

// endGone ends the series of evicted Keys with the next commit, and in the first round the series of an
// earlier process that this one has not written.
func (w *writer) endGone() {
	for _, e := range w.ended {
		for i, ref := range e.refs {
			if ref != 0 {
				w.stale = append(w.stale, staleSeries{ref: ref, histogram: i == int(stmtseries.Duration)})
			}
		}
	}
	clear(w.ended)
	for _, in := range w.unused {
		if in.users > 0 || w.infos[in.digest] != in {
			continue
		}
		delete(w.infos, in.digest)
		if in.ref != 0 {
			w.stale = append(w.stale, staleSeries{ref: in.ref})
		}
	}
	w.unused = w.unused[:0]
	for _, ls := range w.orphans {
		w.stale = append(w.stale, staleSeries{labels: ls, histogram: ls.Get(promlabel.MetricNameLabel) == stmtseries.Duration.String()})
	}
	w.orphans = nil
}

// maxZeroAge is the maximum distance of a zero sample before its series' first one: the head accepts samples
// up to half a block older than its newest.
const maxZeroAge = BlockRange / 4

// startOf returns the time in milliseconds at which a series of e that is about to get its first sample was
// 0; 0 if it may have samples of an earlier process.
func (w *writer) startOf(e *track, s *stmtstats.Sample) int64 {
	switch {
	case e.floor > 0:
		// Its counts before the eviction are in Evicted from now on, and not earlier.
		return w.last - 1
	case e.born:
		start := min(s.First.UnixMilli()-1, w.last-1)
		if s.Counts[stmtstats.Calls] == 0 { // the first call is in flight
			start -= time.Duration(s.Histogram.Nanos).Milliseconds()
		}
		if p, ok := w.previousCalls(e); ok && p.at >= start {
			return start // an earlier process was killed after it had written samples: the head drops this one
		}
		// The head drops a zero sample that is too old, as First may be if the clock was set back or no
		// samples were written for long. Up to prev the series has no samples.
		return min(max(start, w.prev, w.last-maxZeroAge.Milliseconds()), w.last-1)
	case e.clean:
		return e.visited
	}
	return 0
}

// append appends a sample of each of a Key's series that are not 0, and of tare_queries_total: while the first call is in
// flight, it is 0.
func (w *writer) append(e *track, s *stmtstats.Sample) error {
	start := w.startOf(e, s)
	for number := range stmtseries.PerKey {
		m := stmtseries.Of(number)
		if m == stmtseries.Duration {
			if err := w.sample(e, number, start, 0, s.Histogram.Native()); err != nil {
				return err
			}
			continue
		}
		n := s.Counts[number]
		if n == 0 && e.refs[number] == 0 && m != stmtseries.Queries {
			continue
		}
		if err := w.sample(e, number, start, float64(n), nil); err != nil {
			return err
		}
		if m == stmtseries.Queries {
			w.increased(e, start, n)
		}
	}
	if in := e.info; in != nil && w.last-in.written >= RefreshAge.Milliseconds() {
		var err error
		if in.ref, err = w.put(in.ref, func() labels.Labels { return in.labels }, 0, 1, nil); err != nil {
			return err
		}
		in.written = w.last
	}
	return nil
}

// previousCalls returns the last sample of tare_queries_total of an earlier process.
func (w *writer) previousCalls(e *track) (callsAt, bool) {
	if len(w.previous) == 0 {
		return callsAt{}, false
	}
	p, ok := w.previous[w.labelsOf(e, int(stmtseries.Queries)).Hash()]
	return p, ok
}

// increased adds the result of increase() for a newly appended sample of tare_queries_total.
func (w *writer) increased(e *track, start int64, n uint64) {
	before, known := e.value, e.sampled || start > 0
	if !e.sampled {
		if p, ok := w.previousCalls(e); ok && p.at >= start { // otherwise a zero sample is between them
			before, known = p.calls, true
		}
	}
	if n < before {
		before = 0
	}
	if known {
		w.pending.calls += n - before
	}
	e.sampled, e.value = true, n
}

func (w *writer) sample(e *track, number int, start int64, v float64, h *histogram.Histogram) error {
	if e.refs[number] != 0 && !e.born {
		start = 0
	}
	ref, err := w.put(e.refs[number], func() labels.Labels { return w.labelsOf(e, number) }, start, v, h)
	if err == nil {
		e.refs[number] = ref
	}
	return err
}

func (w *writer) labelsOf(e *track, number int) labels.Labels {
	w.labels.SetSeries(e.kind, &e.key, number)
	return w.labels.Labels()
}

// put appends one sample. ls is called only if the head does not know the ref.
func (w *writer) put(ref storage.SeriesRef, ls func() labels.Labels, start int64, v float64, h *histogram.Histogram) (storage.SeriesRef, error) {
	if ref != 0 {
		if ref, err := w.app.Append(ref, labels.EmptyLabels(), start, w.last, v, h, nil, storage.AOptions{}); err == nil {
			w.appended(labels.EmptyLabels(), v, h)
			return ref, nil
		}
	}
	l := ls()
	if w.orphans != nil {
		delete(w.orphans, l.Hash())
	}
	ref, err := w.app.Append(0, l, start, w.last, v, h, nil, storage.AOptions{})
	if err == nil {
		w.appended(l, v, h)
	}
	return ref, err
}

// appended counts a sample.
func (w *writer) appended(l labels.Labels, v float64, h *histogram.Histogram) {
	w.counts.samples.Add(1)
	w.records.sample(l, h)
	if v != 0 || h != nil && (h.Count != 0 || h.Sum != 0) {
		w.pending.samples++
	}
}

// setInfo appends the series with the text of a track's digest.
func (w *writer) setInfo(e *track, text string) {
	if e.info != nil {
		return
	}
	in := w.infos[e.key.Digest]
	if in == nil {
		w.labels.SetInfo(e.key.Digest, text)
		in = &info{digest: e.key.Digest, labels: w.labels.Labels()}
		w.infos[e.key.Digest] = in
	}
	in.users++
	e.info = in
}

// endStale appends staleness markers.
func (w *writer) endStale() error {
	stale := math.Float64frombits(value.StaleNaN)
	var first error
	for _, s := range w.stale {
		v, h := stale, (*histogram.Histogram)(nil)
		if s.histogram {
			v, h = 0, &histogram.Histogram{Sum: stale}
		}
		if _, err := w.app.Append(s.ref, s.labels, 0, w.last, v, h, nil, storage.AOptions{}); err != nil && first == nil {
			w.counts.failures.Add(1)
			first = fmt.Errorf("append the end of a series: %w", err)
		}
	}
	return first
}

// findOrphans finds the series that PromQL would still find. The first round ends those that are not in the
// table: a process that was killed may have evicted their Keys.
func (w *writer) findOrphans() error {
	w.orphans, w.previous = make(map[uint64]labels.Labels), make(map[uint64]callsAt)
	q, err := w.db.Querier(w.last-stmtseries.Lookback.Milliseconds(), w.last)
	if err != nil {
		return fmt.Errorf("look for series of an earlier run: %w", err)
	}
	defer func() { _ = q.Close() }()
	names := tagMetricNames()
	for m := range stmtseries.NumMetrics {
		names = append(names, stmtseries.Metric(m).String())
	}
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchRegexp, promlabel.MetricNameLabel, strings.Join(names, "|")))
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		live, isCalls := false, set.At().Labels().Get(promlabel.MetricNameLabel) == stmtseries.Queries.String()
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			if live = !isStale(it, kind); live && isCalls && kind == chunkenc.ValFloat {
				t, v := it.At()
				w.previous[set.At().Labels().Hash()] = callsAt{t, uint64(v)}
			}
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("look for series of an earlier run: %w", err)
		}
		if live {
			ls := set.At().Labels().Copy()
			w.orphans[ls.Hash()] = ls
		}
	}
	if err := set.Err(); err != nil {
		return fmt.Errorf("look for series of an earlier run: %w", err)
	}
	return nil
}

// isStale reports whether the iterator's current sample is a staleness marker.
func isStale(it chunkenc.Iterator, kind chunkenc.ValueType) bool {
	switch kind {
	case chunkenc.ValFloat:
		_, v := it.At()
		return value.IsStaleNaN(v)
	case chunkenc.ValHistogram:
		_, h := it.AtHistogram(nil)
		return value.IsStaleNaN(h.Sum)
	}
	_, h := it.AtFloatHistogram(nil)
	return value.IsStaleNaN(h.Sum)
}
