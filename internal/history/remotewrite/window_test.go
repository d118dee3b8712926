package remotewrite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/taredb/tare/internal/history/localdb"
)

// decode returns the samples of requests, series by series: "a 0@1000 1@2000".
func decode(t *testing.T, requests []request) (all []string) {
	t.Helper()
	builder := labels.NewScratchBuilder(0)
	for _, r := range requests {
		m := &writev2.Request{}
		if err := m.Unmarshal(r.body); err != nil {
			t.Fatal(err)
		}
		for _, s := range m.Timeseries {
			ls, err := s.ToLabels(&builder, m.Symbols)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			text.WriteString(ls.Get("__name__"))
			for _, v := range s.Samples {
				fmt.Fprintf(&text, " %v@%d", v.Value, v.Timestamp)
			}
			for _, h := range s.Histograms {
				if h.IsFloatHistogram() {
					fmt.Fprintf(&text, " f%v@%d", h.ToFloatHistogram().Count, h.Timestamp)
				} else {
					fmt.Fprintf(&text, " h%v@%d", h.ToIntHistogram().Count, h.Timestamp)
				}
			}
			all = append(all, text.String())
		}
	}
	slices.Sort(all)
	return all
}

// TestWindows reads windows around the samples of 0 that precede the first samples of series.
func TestWindows(t *testing.T) {
	db, err := localdb.OpenHead(t.TempDir(), slog.New(slog.DiscardHandler), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := localdb.CloseDB(db); err != nil {
			t.Error(err)
		}
	}()
	const hour = 3_600_000
	zero := &histogram.Histogram{ZeroThreshold: 0.001}
	floats := func(name string, pairs ...float64) {
		app := db.Appender(t.Context())
		for i := 0; i < len(pairs); i += 2 {
			if _, err := app.Append(0, labels.FromStrings("__name__", name), int64(pairs[i]), pairs[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	histograms := func(name string, at int64, h *histogram.Histogram, f *histogram.FloatHistogram) {
		app := db.Appender(t.Context())
		if _, err := app.AppendHistogram(0, labels.FromStrings("__name__", name), at, h, f); err != nil {
			t.Fatal(err)
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	floats("a", 1000, 0, 2000, 1, 3000, 2)
	floats("b", 2*hour-30*60_000, 0, 2*hour+1000, 7) // an older 0
	floats("none", 2*hour+1000, 8)                   // without a 0
	floats("tare_digest_info", 2*hour+1000, 1)
	histograms("h", 4*hour, zero, nil)
	histograms("h", 4*hour+1000, tsdbutil.GenerateTestHistogram(1), nil)
	histograms("f", 4*hour+1000, nil, tsdbutil.GenerateTestFloatHistogram(1))
	floats("twice", 4*hour, 0, 4*hour+500, 0, 4*hour+1000, 1)
	h1, f1 := tsdbutil.GenerateTestHistogram(1).Count, tsdbutil.GenerateTestFloatHistogram(1).Count
	for _, c := range []struct {
		name            string
		from, to, until int64
		earlier         []span
		want            string
	}{
		{"all", 0, 3000, 3000, nil, "a 0@1000 1@2000 2@3000"},
		{"its end is within", 0, 2000, 3000, nil, "a 0@1000 1@2000"},
		{"its start is not", 2000, 3000, 3000, nil, "a 2@3000"},
		{"nothing", 3000, 9000, 9000, nil, ""},
		{"a 0 that was not sent", 1000, 3000, 3000, nil, "a 0@1000 1@2000 2@3000"},
		{"a 0 that was sent alone", 1000, 3000, 3000, []span{{0, 1000, 2000}}, "a 1@2000 2@3000"},
		{"a 0 whose first sample was not complete", 1000, 3000, 3000, []span{{0, 1000, 1999}}, "a 0@1000 1@2000 2@3000"},
		{"a span that starts at the 0", 1000, 3000, 3000, []span{{1000, 2000, 2000}}, "a 0@1000 1@2000 2@3000"},
		{"a span before the 0", 1000, 3000, 3000, []span{{0, 999, 2000}}, "a 0@1000 1@2000 2@3000"},
		{"the second span", 1000, 3000, 3000, []span{{0, 500, 1500}, {500, 1000, 2000}}, "a 1@2000 2@3000"},
		{"a 0 alone", 0, 1000, 2000, nil, "a 0@1000"},
		{"a 0 whose first sample is not complete", 0, 1000, 1999, nil, ""},
		{"an old 0, no 0, and a metric without", 2 * hour, 2*hour + 1000, 2*hour + 1000, nil, "b 0@5400000 7@7201000|none 8@7201000|tare_digest_info 1@7201000"},
		{"an old 0 that was sent", 2 * hour, 2*hour + 1000, 2*hour + 1000, []span{{hour, 2 * hour, 2*hour + 1000}}, "b 7@7201000|none 8@7201000|tare_digest_info 1@7201000"},
		{
			"histograms, and two samples of 0", 4*hour - 1, 4*hour + 1000, 4*hour + 1000, nil,
			fmt.Sprintf("f f%v@14401000|h h0@14400000 h%v@14401000|twice 0@14400000 0@14400500 1@14401000", f1, h1),
		},
		{
			"a histogram of 0 that was not sent", 4 * hour, 4*hour + 1000, 4*hour + 1000, nil,
			fmt.Sprintf("f f%v@14401000|h h0@14400000 h%v@14401000|twice 0@14400000 0@14400500 1@14401000", f1, h1),
		},
		{"samples of 0 alone", 4*hour - 1, 4*hour + 500, 4*hour + 1000, nil, "h h0@14400000|twice 0@14400000 0@14400500"},
	} {
		w := window{from: c.from, to: c.to, until: c.until, earlier: c.earlier, parts: 1}
		e := newEncoder(V2, nil)
		for range 2 { // an encoder is used for several windows
			requests, err := w.read(t.Context(), db, e, math.MaxInt)
			if got := strings.Join(decode(t, requests), "|"); err != nil || got != c.want {
				t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
			}
		}
		var parts []string
		for w.part, w.parts = 0, 3; w.part < 3; w.part++ {
			requests, err := w.read(t.Context(), db, e, math.MaxInt)
			if parts = append(parts, decode(t, requests)...); err != nil {
				t.Error(err)
			}
		}
		slices.Sort(parts)
		if got := strings.Join(parts, "|"); got != c.want {
			t.Errorf("%s, in parts: %q, want %q", c.name, got, c.want)
		}
	}
	w := window{from: 2 * hour, to: 2*hour + 1000, until: 2*hour + 1000, parts: 1}
	requests, err := w.read(t.Context(), db, newEncoder(V1, nil), math.MaxInt)
	if err != nil || len(requests) != 1 || requests[0].samples != 4 || requests[0].histograms != 0 || requests[0].oldest != 5_400_000 || requests[0].newest != w.to {
		t.Fatalf("%+v, %v", requests, err)
	}
	bytes := len(requests[0].body)
	for limit, want := range map[int]error{bytes: nil, bytes - 1: errWindowBytes, 0: errWindowBytes} {
		if _, err := w.read(t.Context(), db, newEncoder(V1, nil), limit); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("limit of %d of %d bytes: %v, want %v", limit, bytes, err, want)
		}
	}
	for parts, want := range map[uint64]int{1: 10, mostParts - 1: 10, mostParts: math.MaxInt} {
		if got := (window{parts: parts}).limit(10); got != want {
			t.Errorf("the limit of one of %d parts is %d", parts, got)
		}
	}
}

// A failing is a database whose reads fail.
type failing struct {
	storage.LabelQuerier
	open, set, sample, closing error
}

func (f failing) Querier(int64, int64) (storage.Querier, error) { return f, f.open }

func (f failing) Select(ctx context.Context, sorted bool, h *storage.SelectHints, m ...*labels.Matcher) storage.SeriesSet {
	if f.set != nil {
		return storage.ErrSeriesSet(f.set)
	}
	return &oneSeries{storage.TestSeriesSet(&storage.SeriesEntry{
		Lset:             labels.FromStrings("__name__", "a"),
		SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return &failingSamples{err: f.sample} },
	}), false}
}

func (f failing) Close() error { return f.closing }

// A oneSeries is a set of one series.
type oneSeries struct {
	storage.SeriesSet
	read bool
}

func (s *oneSeries) Next() bool {
	more := !s.read
	s.read = true
	return more
}

// failingSamples end with an error.
type failingSamples struct {
	chunkenc.Iterator
	err error
}

func (*failingSamples) Next() chunkenc.ValueType { return chunkenc.ValNone }
func (s *failingSamples) Err() error             { return s.err }

// TestWindowErrors has each read of a database fail.
func TestWindowErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, db := range map[string]failing{
		"opening": {open: broken}, "series": {set: broken}, "samples": {sample: broken}, "closing": {closing: broken},
	} {
		if _, err := (window{to: 1, until: 1, parts: 1}).read(t.Context(), db, newEncoder(V2, nil), math.MaxInt); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, err := (window{to: 1, until: 1, parts: 1}).read(t.Context(), failing{}, newEncoder(V2, nil), math.MaxInt); err != nil || len(out) != 0 {
		t.Errorf("without an error: %v, %v", out, err)
	}
}

// TestSpans has the spans of windows that were sent: those of a window read before its end was complete, of the last hour.
func TestSpans(t *testing.T) {
	const hour = 3_600_000
	for _, c := range []struct {
		name    string
		windows []window
		want    []span
	}{
		{"complete", []window{{from: 0, to: 10, until: 10}}, nil},
		{"one", []window{{from: 0, to: 10, until: 11}}, []span{{0, 10, 11}}},
		{"adjacent", []window{{from: 0, to: 10, until: 30}, {from: 10, to: 20, until: 30}, {from: 20, to: 30, until: 30}}, []span{{0, 20, 30}}},
		{"another until", []window{{from: 0, to: 10, until: 30}, {from: 10, to: 20, until: 31}}, []span{{0, 10, 30}, {10, 20, 31}}},
		{"a gap", []window{{from: 0, to: 10, until: 30}, {from: 11, to: 20, until: 30}}, []span{{0, 10, 30}, {11, 20, 30}}},
		{"an hour old", []window{{from: 0, to: 10, until: 30}, {from: hour, to: hour + 10, until: hour + 10}}, []span{{0, 10, 30}}},
		{"older", []window{{from: 0, to: 10, until: 30}, {from: hour, to: hour + 11, until: hour + 11}}, nil},
	} {
		p := &progress{Sending: 5, Until: 5, Known: 15}
		for _, w := range c.windows {
			p.sent(w)
		}
		last := c.windows[len(c.windows)-1].to
		if !slices.Equal(p.Spans, c.want) || p.Sent != last || p.Sending != 0 || p.Until != 0 || p.Known != max(15, last) {
			t.Errorf("%s: %+v, want %+v", c.name, p, c.want)
		}
	}
}

// TestRequestBounds cuts requests at 2,000 samples and at 1 MiB, and series between two requests only.
func TestRequestBounds(t *testing.T) {
	for _, c := range []struct {
		name         string
		series, each int
		label        int // bytes
		want         []int
	}{
		{"one full request", 2, 1000, 1, []int{2000}},
		{"one sample more", 3, 667, 1, []int{1334, 667}},
		{"a large series", 1, 2500, 1, []int{2500}},
		{"a large series between small ones", 3, 2000, 1, []int{2000, 2000, 2000}},
		{"large labels", 3, 1, 600 << 10, []int{2, 1}}, // their labels count once they are in it
	} {
		e := newEncoder(V1, nil)
		for n := range c.series {
			e.begin()
			for i := range c.each {
				if full := e.full(); full != (i >= requestSamples) {
					t.Errorf("%s: full after %d samples: %t", c.name, i, full)
				}
				e.float(int64(i+1), 1)
			}
			e.end(labels.FromStrings("__name__", strings.Repeat("x", c.label), "n", fmt.Sprint(n)))
		}
		e.begin()
		e.end(labels.FromStrings("__name__", "empty"))
		e.finish()
		var got []int
		bytes := 0
		for _, r := range e.requests {
			got = append(got, r.samples)
			bytes += len(r.body)
			if r.oldest != 1 || r.newest != int64(c.each) {
				t.Errorf("%s: %d to %d", c.name, r.oldest, r.newest)
			}
		}
		if !slices.Equal(got, c.want) || e.bytes != bytes {
			t.Errorf("%s: %d samples in requests of %d bytes, want %d", c.name, got, e.bytes, c.want)
		}
	}
	e := newEncoder(V2, nil)
	e.begin()
	e.series = make([]byte, requestBytes-1)
	if e.full() {
		t.Error("full below 1 MiB")
	}
	if e.series = append(e.series, 0); !e.full() {
		t.Error("not full with 1 MiB")
	}
}
