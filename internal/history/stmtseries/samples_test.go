package stmtseries

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A point is a sample; with an error it is none.
type point struct {
	t   int64
	v   float64
	h   *histogram.Histogram
	err error
}

// The methods that no test calls.
type (
	iterator interface{ chunkenc.Iterator }
	querier  interface{ storage.Querier }
)

// A fakeSeries is a series of points, and their iterator.
type fakeSeries struct {
	iterator
	labels labels.Labels
	points []point
	at     int
}

func (s *fakeSeries) Labels() labels.Labels { return s.labels }

func (s *fakeSeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	s.at = -1
	return s
}

func (s *fakeSeries) Next() chunkenc.ValueType {
	if s.at++; s.at >= len(s.points) || s.points[s.at].err != nil {
		return chunkenc.ValNone
	}
	if s.points[s.at].h != nil {
		return chunkenc.ValHistogram
	}
	return chunkenc.ValFloat
}

func (s *fakeSeries) At() (int64, float64) { return s.points[s.at].t, s.points[s.at].v }

func (s *fakeSeries) AtHistogram(into *histogram.Histogram) (int64, *histogram.Histogram) {
	s.points[s.at].h.CopyTo(into)
	return s.points[s.at].t, into
}

func (s *fakeSeries) Err() error {
	if s.at < len(s.points) {
		return s.points[s.at].err
	}
	return nil
}

// A fakeDB has series, and errors.
type fakeDB struct {
	querier
	series            []*fakeSeries
	opening, set      error
	from, to          int64
	closed, selecting int
}

func (d *fakeDB) Querier(from, to int64) (storage.Querier, error) {
	if d.opening != nil {
		return nil, d.opening
	}
	d.from, d.to = from, to
	return d, nil
}

func (d *fakeDB) Close() error {
	d.closed++
	return nil
}

func (d *fakeDB) add(number int, k *stmtstats.Key, points ...point) {
	l := NewLabeller(map[string]string{"instance": "gw-1"})
	l.SetSeries(stmtstats.Tracked, k, number)
	d.series = append(d.series, &fakeSeries{labels: l.Labels(), points: points})
}

// A fakeSet has the selected series.
type fakeSet struct {
	storage.SeriesSet
	series []*fakeSeries
	err    error
}

func (s *fakeSet) Next() bool {
	if len(s.series) == 0 {
		return false
	}
	s.series = s.series[1:]
	return len(s.series) > 0
}

func (s *fakeSet) At() storage.Series { return s.series[0] }
func (s *fakeSet) Err() error         { return s.err }

func (d *fakeDB) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	d.selecting++
	set := &fakeSet{series: []*fakeSeries{nil}, err: d.set}
	for _, s := range d.series {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			set.series = append(set.series, s)
		}
	}
	return set
}

func key(n byte) *stmtstats.Key {
	return &stmtstats.Key{Digest: [16]byte{n, 0xab}, Schema: "shop", User: "app", Backend: "db1"}
}

var stale = math.Float64frombits(value.StaleNaN)

// native returns a histogram of n durations of 1 ms.
func native(n int) *histogram.Histogram {
	var h stmtstats.Histogram
	for range n {
		h.Record(time.Millisecond)
	}
	return h.Native()
}

// longer is native with a sum that has statements in flight.
func longer(n int) *histogram.Histogram {
	h := native(n)
	h.Sum += 0.5
	return h
}

func foreignNative() *histogram.Histogram {
	h := native(3)
	h.Schema--
	return h
}

func staleNative() *histogram.Histogram { return &histogram.Histogram{Sum: stale} }

// TestGrowth adds up counters that start, restart, end and return, before, at and after the start.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name        string
		points      []point
		grown, lost uint64
		newest      int64
	}{
		{"none", nil, 0, 0, 0},
		{"before the start", []point{{t: 90, v: 5}, {t: 100, v: 7}}, 0, 0, 0},
		{"across the start", []point{{t: 90, v: 5}, {t: 100, v: 7}, {t: 101, v: 10}, {t: 110, v: 12}}, 5, 0, 110},
		{"a new series", []point{{t: 105, v: 0}, {t: 110, v: 4}}, 4, 0, 110},
		{"a zero sample last", []point{{t: 101, v: 3}, {t: 110, v: 0}}, 3, 3, 101},
		{"it stays", []point{{t: 90, v: 7}, {t: 110, v: 7}, {t: 120, v: 7}}, 0, 0, 120},
		{"a restart", []point{{t: 90, v: 7}, {t: 110, v: 2}}, 2, 7, 110},
		{"it ends", []point{{t: 90, v: 7}, {t: 110, v: 9}, {t: 120, v: stale}}, 2, 9, 110},
		{"it ends at the start", []point{{t: 90, v: 7}, {t: 100, v: stale}, {t: 110, v: 3}}, 3, 0, 110},
		{"it ends and returns", []point{{t: 110, v: 9}, {t: 120, v: stale}, {t: 130, v: 4}}, 13, 9, 130},
	} {
		db := &fakeDB{}
		db.add(int(Queries), key(1), c.points...)
		g := Growth{Start: 100}
		r := Range{DB: db, From: 1, To: 2}
		if err := r.Read(t.Context(), []Metric{Queries}, func(s *Samples) error {
			for s.Next() {
				g.Add(s)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if g.Grown != c.grown || g.Lost != c.lost || g.Newest != c.newest {
			t.Errorf("%s: grown %d, lost %d, newest %d; want %d, %d, %d", c.name, g.Grown, g.Lost, g.Newest, c.grown, c.lost, c.newest)
		}
		if db.from != 1 || db.to != 2 || db.closed != 1 {
			t.Errorf("%s: a querier from %d to %d, closed %d times", c.name, db.from, db.to, db.closed)
		}
	}
}

// TestGrowthSkip counts from the value that was skipped.
func TestGrowthSkip(t *testing.T) {
	g := Growth{Start: 100}
	g.Skip(&Samples{T: 110, V: 4})
	if g.Add(&Samples{T: 120, V: 10}); g.Grown != 6 || g.Lost != 0 {
		t.Errorf("grown %d, lost %d; want 6, 0", g.Grown, g.Lost)
	}
}

// TestSpreadGrowth is TestGrowth of histograms, and returns the error of one that cannot be converted wherever it is needed.
func TestSpreadGrowth(t *testing.T) {
	for _, c := range []struct {
		name        string
		points      []point
		grown, lost uint64
		first, last int64
		err         bool
	}{
		{name: "none"},
		{name: "before the start", points: []point{{t: 90, h: native(5)}, {t: 100, h: native(7)}}},
		{name: "across the start", points: []point{{t: 90, h: native(5)}, {t: 100, h: native(7)}, {t: 110, h: native(8)}, {t: 120, h: native(12)}}, grown: 5, last: 120},
		{name: "a new series", points: []point{{t: 105, h: native(0)}, {t: 110, h: native(4)}}, grown: 4, first: 106, last: 110},
		{name: "it continues after a pause", points: []point{{t: 110, h: native(4)}}, grown: 4, last: 110},
		{name: "it stays", points: []point{{t: 90, h: native(7)}, {t: 110, h: native(7)}, {t: 120, h: native(7)}}},
		{name: "a longer sum alone", points: []point{{t: 90, h: native(7)}, {t: 110, h: longer(7)}, {t: 120, h: longer(7)}}, last: 110},
		{name: "a restart", points: []point{{t: 90, h: native(7)}, {t: 110, h: native(9)}, {t: 120, h: native(2)}}, grown: 4, lost: 9, last: 120},
		{name: "it ends", points: []point{{t: 90, h: native(7)}, {t: 110, h: native(9)}, {t: 120, h: staleNative()}}, grown: 2, lost: 9, last: 110},
		{name: "it ends at the start", points: []point{{t: 90, h: native(7)}, {t: 100, h: staleNative()}, {t: 110, h: native(0)}, {t: 120, h: native(3)}}, grown: 3, first: 111, last: 120},
		{name: "it ends and returns", points: []point{{t: 110, h: native(9)}, {t: 120, h: staleNative()}, {t: 130, h: native(4)}}, grown: 13, lost: 9, last: 130},
		{name: "a foreign base", points: []point{{t: 90, h: foreignNative()}, {t: 110, h: native(9)}}, err: true},
		{name: "a foreign last one", points: []point{{t: 90, h: native(1)}, {t: 110, h: foreignNative()}}, err: true},
		{name: "a foreign one that ends", points: []point{{t: 110, h: foreignNative()}, {t: 120, h: staleNative()}}, err: true},
		{name: "a foreign one before the start", points: []point{{t: 90, h: foreignNative()}, {t: 100, h: native(2)}, {t: 110, h: native(3)}}, grown: 1, last: 110},
	} {
		db := &fakeDB{}
		db.add(int(Duration), key(1), c.points...)
		g := new(SpreadGrowth)
		g.First, g.Last = 1, 1
		g.Grown.Record(time.Second)
		r := Range{DB: db}
		err := r.Read(t.Context(), []Metric{Duration}, func(s *Samples) error {
			g.Begin()
			for s.Next() {
				if err := g.Add(s, 100); err != nil {
					return err
				}
			}
			return g.Settle()
		})
		if (err != nil) != c.err {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && (g.Grown.Count() != c.grown || g.Lost.Count() != c.lost || g.First != c.first || g.Last != c.last) {
			t.Errorf("%s: grown %d, lost %d, from %d to %d; want %d, %d, %d, %d", c.name, g.Grown.Count(), g.Lost.Count(), g.First, g.Last, c.grown, c.lost, c.first, c.last)
		}
		if ms := uint64(time.Millisecond); err == nil && c.name != "a longer sum alone" && g.Grown.Nanos/ms != c.grown {
			t.Errorf("%s: a sum of %d ns, want %d ms", c.name, g.Grown.Nanos, c.grown)
		}
	}
	var g SpreadGrowth
	if err := g.Skip(&Samples{H: foreignNative()}); err == nil {
		t.Error("a foreign histogram is a base")
	}
	g.Begin()
	if err := errors.Join(g.Skip(&Samples{T: 110, H: native(4)}), g.Add(&Samples{T: 120, H: native(6)}, 100), g.Settle()); err != nil || g.Grown.Count() != 2 {
		t.Errorf("%d after a base of 4, want 2 (%v)", g.Grown.Count(), err)
	}
}

// TestReadFaults returns the errors of each part of a read, and reads no more.
func TestReadFaults(t *testing.T) {
	broken := errors.New("broken")
	two := func(db *fakeDB) {
		db.add(int(Queries), key(1), point{t: 1, v: 1}, point{t: 2, v: 2})
		db.add(int(Queries), key(2), point{t: 1, v: 1})
	}
	for _, c := range []struct {
		name    string
		prepare func(*fakeDB, *Range)
		visit   error
		want    error
		samples int64
	}{
		{name: "none", samples: 3},
		{name: "the querier", prepare: func(db *fakeDB, _ *Range) { db.opening = broken }, want: broken},
		{name: "the set", prepare: func(db *fakeDB, _ *Range) { db.set = broken }, want: broken, samples: 3},
		{name: "the caller", visit: broken, want: broken, samples: 2},
		{name: "an iterator", prepare: func(db *fakeDB, _ *Range) { db.series[0].points[1].err = broken }, want: broken, samples: 1},
		{name: "a histogram", prepare: func(db *fakeDB, _ *Range) { db.series[0].points[1].h = native(1) }, want: errForeign, samples: 1},
		{name: "as many as allowed", prepare: func(_ *fakeDB, r *Range) { r.Limit = 3 }, samples: 3},
		{name: "too many", prepare: func(_ *fakeDB, r *Range) { r.Limit = 2 }, want: ErrTooMany, samples: 3},
	} {
		db := &fakeDB{}
		two(db)
		var counts Counts
		r := Range{DB: db, Counts: &counts}
		if c.prepare != nil {
			c.prepare(db, &r)
		}
		err := r.Read(t.Context(), []Metric{Queries, Errors}, func(s *Samples) error {
			for s.Next() {
			}
			return c.visit
		})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if n := counts.Samples.Load(); n != c.samples {
			t.Errorf("%s: %d samples are counted, want %d", c.name, n, c.samples)
		}
		if err == nil && (db.selecting != 2 || counts.Series.Load() != 2) || err != nil && db.selecting > 1 {
			t.Errorf("%s: %d selects, %d series", c.name, db.selecting, counts.Series.Load())
		}
	}
	db := &fakeDB{}
	db.add(int(Duration), key(1), point{t: 1, v: 1})
	r := Range{DB: db}
	if err := r.Read(t.Context(), []Metric{Duration}, func(s *Samples) error { s.Next(); return nil }); !errors.Is(err, errForeign) || !strings.Contains(err.Error(), Duration.String()) {
		t.Errorf("a float of durations: %v", err)
	}
}

// TestReadDigests reads the series of digests alone, and their texts.
func TestReadDigests(t *testing.T) {
	db := &fakeDB{}
	for n := range byte(4) {
		db.add(int(Queries), key(n), point{t: 1, v: 1})
		l := NewLabeller(nil)
		l.SetInfo(key(n).Digest, fmt.Sprintf("select %d", n))
		db.series = append(db.series, &fakeSeries{labels: l.Labels(), points: []point{{t: 1, v: 1}}})
	}
	r := Range{DB: db, Digests: [][16]byte{key(1).Digest, key(3).Digest}}
	var got []string
	if err := r.Read(t.Context(), []Metric{Queries}, func(s *Samples) error {
		k, kind, class, err := s.ID()
		got = append(got, fmt.Sprint(k.Digest[0], k.Schema, k.User, k.Backend, kind, class))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprint(1, "shop", "app", "db1", stmtstats.Tracked, stmtstats.ErrorClass(0)), fmt.Sprint(3, "shop", "app", "db1", stmtstats.Tracked, stmtstats.ErrorClass(0))}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	texts, err := r.Texts(t.Context())
	if err != nil || len(texts) != 2 || texts[key(3).Digest] != "select 3" {
		t.Errorf("the texts are %q (%v)", texts, err)
	}
	db.series = append(db.series, &fakeSeries{labels: labels.FromStrings(promlabel.MetricNameLabel, Info.String(), LabelDigest, "x", LabelText, "y")})
	r.Digests = nil
	if _, err := r.Texts(t.Context()); err == nil || !strings.Contains(err.Error(), `digest "x"`) {
		t.Errorf("a digest that is none: %v", err)
	}
}

// TestSeriesOfKeys writes labels and reads them back, of each kind and metric.
func TestSeriesOfKeys(t *testing.T) {
	l := NewLabeller(map[string]string{"instance": "gw-1", "az": "b"})
	bytes := &stmtstats.Key{Digest: [16]byte{9}, Schema: "a\xffb"}
	for _, k := range []*stmtstats.Key{key(1), key(1), key(2), bytes, {}} {
		for _, kind := range []stmtstats.Kind{stmtstats.Tracked, stmtstats.Other, stmtstats.Evicted} {
			for number := range PerKey {
				l.SetSeries(kind, k, number)
				ls := l.Labels()
				s := Samples{series: &fakeSeries{labels: ls}, Metric: Of(number)}
				got, gotKind, class, err := s.ID()
				want := *k
				want.Schema = strings.ToValidUTF8(k.Schema, "\uFFFD")
				if kind != stmtstats.Tracked {
					want.Digest = [16]byte{}
				}
				wantClass := stmtstats.ErrorClass(max(0, number-int(Errors)))
				if got != want || gotKind != kind || class != wantClass || err != nil {
					t.Errorf("%v: %v, %v, %v (%v)", ls, got, gotKind, class, err)
				}
				if (k.Schema == "") == ls.Has(LabelSchema) || ls.Has(LabelClass) != (number >= int(Errors)) || ls.Get("az") != "b" || ls.Get(promlabel.MetricNameLabel) != Of(number).String() {
					t.Errorf("number %d of %v: %v", number, *k, ls)
				}
				if dup, has := ls.HasDuplicateLabelNames(); has {
					t.Errorf("%v has %s twice", ls, dup)
				}
				var over labels.Labels
				if l.Overwrite(&over); !labels.Equal(over, ls) {
					t.Errorf("%v is overwritten with %v", ls, over)
				}
				for _, name := range Of(number).Labels() {
					if !IsReserved(name) {
						t.Errorf("%s is not reserved", name)
					}
				}
			}
		}
	}
	l.SetTag("tare_tag_total", "route", "/")
	if got, want := l.Labels().String(), `{__name__="tare_tag_total", az="b", instance="gw-1", tag="route", value="/"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, want := range map[string]bool{"__x": true, "_x": false, "tag": false, "text": true, "instance": false, "": false} {
		if IsReserved(name) != want {
			t.Errorf("%q is reserved: %t", name, !want)
		}
	}
}

// TestIDOfForeignSeries names the series whose digest is none.
func TestIDOfForeignSeries(t *testing.T) {
	s := Samples{series: &fakeSeries{labels: labels.FromStrings(LabelDigest, "x", LabelUser, "app")}}
	if _, _, _, err := s.ID(); err == nil || !strings.Contains(err.Error(), `series {digest="x", user="app"}: digest "x"`) {
		t.Errorf("%v, want an error that names the series", err)
	}
}

// TestCounters has one counter for each series besides the durations.
func TestCounters(t *testing.T) {
	seen := make(map[stmtstats.Counter]bool)
	for _, m := range Counters {
		classes := 1
		if m == Errors {
			classes = stmtstats.ErrorClasses
		}
		for class := range stmtstats.ErrorClass(classes) {
			seen[m.Counter(class)] = true
		}
		if m.Help() == "" || len(m.Labels()) < 4 {
			t.Errorf("%s: %q, %q", m, m.Help(), m.Labels())
		}
	}
	if want := len(Counters) - 1 + stmtstats.ErrorClasses; len(seen) != want {
		t.Errorf("%d counters, want %d", len(seen), want)
	}
}

// TestLabelText cuts long texts at the beginning of a character.
func TestLabelText(t *testing.T) {
	l := NewLabeller(nil)
	for text, want := range map[string]int{
		"":                                  0,
		strings.Repeat("x", MaxLabelText):   MaxLabelText,
		strings.Repeat("x", MaxLabelText+1): MaxLabelText,
		strings.Repeat("x", MaxLabelText-1) + "é":  MaxLabelText - 1,
		strings.Repeat("x", MaxLabelText-2) + "é!": MaxLabelText,
		strings.Repeat("\x80", MaxLabelText+1):     0,
	} {
		l.SetInfo([16]byte{1}, text)
		if got := l.Labels().Get(LabelText); len(got) != want || !strings.HasPrefix(text, got) {
			t.Errorf("a text of %d bytes: %d bytes, want %d", len(text), len(got), want)
		}
	}
}

func TestParseDigest(t *testing.T) {
	good := strings.Repeat("0a", 16)
	for text, ok := range map[string]bool{good: true, strings.ToUpper(good): true, good[1:]: false, good + "0": false, good + "0a": false, "g" + good[1:]: false, good[:31] + "g": false, "": false} {
		d, err := ParseDigest(text)
		if (err == nil) != ok || ok && d[15] != 10 {
			t.Errorf("%q: %x, %v", text, d, err)
		}
	}
}
