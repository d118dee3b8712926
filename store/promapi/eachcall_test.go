package promapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/store/promapi"
)

var errFault = errors.New("the disk is gone")

// faults fail the n-th call of a storage, and count the queriers that are open.
type faults struct {
	n, calls, open int
	closing        bool // the call that failed was a Close
}

func (f *faults) next() error {
	f.calls++
	if f.calls == f.n {
		return errFault
	}
	return nil
}

func (f *faults) close(c io.Closer) error {
	f.open--
	err := f.next()
	f.closing = f.closing || err != nil
	return errors.Join(c.Close(), err)
}

// A faultyStorage is a storage with faults.
type faultyStorage struct {
	storage.Storage
	*faults
}

func (s faultyStorage) Querier(mint, maxt int64) (storage.Querier, error) {
	if err := s.next(); err != nil {
		return nil, err
	}
	q, err := s.Storage.Querier(mint, maxt)
	s.open++
	return faultyQuerier{q, s.faults}, err
}

func (s faultyStorage) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	if err := s.next(); err != nil {
		return nil, err
	}
	q, err := s.Storage.ChunkQuerier(mint, maxt)
	s.open++
	return faultyChunkQuerier{q, s.faults}, err
}

type faultyQuerier struct {
	storage.Querier
	*faults
}

func (q faultyQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return &faultySet{SeriesSet: q.Querier.Select(ctx, sorted, hints, ms...), f: q.faults}
}

func (q faultyQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if err := q.next(); err != nil {
		return nil, nil, err
	}
	return q.Querier.LabelNames(ctx, hints, ms...)
}

func (q faultyQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if err := q.next(); err != nil {
		return nil, nil, err
	}
	return q.Querier.LabelValues(ctx, name, hints, ms...)
}

func (q faultyQuerier) Close() error { return q.faults.close(q.Querier) }

type faultyChunkQuerier struct {
	storage.ChunkQuerier
	*faults
}

func (q faultyChunkQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	return &faultyChunkSet{ChunkSeriesSet: q.ChunkQuerier.Select(ctx, sorted, hints, ms...), f: q.faults}
}

func (q faultyChunkQuerier) Close() error { return q.faults.close(q.ChunkQuerier) }

type faultySet struct {
	storage.SeriesSet
	f   *faults
	err error
}

func (s *faultySet) Next() bool {
	if s.err = s.f.next(); s.err != nil {
		return false
	}
	return s.SeriesSet.Next()
}

func (s *faultySet) Err() error { return errors.Join(s.err, s.SeriesSet.Err()) }

func (s *faultySet) At() storage.Series { return faultySeries{s.SeriesSet.At(), s.f} }

type faultySeries struct {
	storage.Series
	f *faults
}

func (s faultySeries) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return &faultyIterator{Iterator: s.Series.Iterator(nil), f: s.f}
}

type faultyIterator struct {
	chunkenc.Iterator
	f   *faults
	err error
}

func (it *faultyIterator) Next() chunkenc.ValueType {
	if it.err = it.f.next(); it.err != nil {
		return chunkenc.ValNone
	}
	return it.Iterator.Next()
}

func (it *faultyIterator) Err() error { return errors.Join(it.err, it.Iterator.Err()) }

type faultyChunkSet struct {
	storage.ChunkSeriesSet
	f   *faults
	err error
}

func (s *faultyChunkSet) Next() bool {
	if s.err = s.f.next(); s.err != nil {
		return false
	}
	return s.ChunkSeriesSet.Next()
}

func (s *faultyChunkSet) Err() error { return errors.Join(s.err, s.ChunkSeriesSet.Err()) }

func (s *faultyChunkSet) At() storage.ChunkSeries {
	return faultyChunkSeries{s.ChunkSeriesSet.At(), s.f}
}

type faultyChunkSeries struct {
	storage.ChunkSeries
	f *faults
}

func (s faultyChunkSeries) Iterator(chunks.Iterator) chunks.Iterator {
	return &faultyChunkIterator{Iterator: s.ChunkSeries.Iterator(nil), f: s.f}
}

type faultyChunkIterator struct {
	chunks.Iterator
	f   *faults
	err error
}

func (it *faultyChunkIterator) Next() bool {
	if it.err = it.f.next(); it.err != nil {
		return false
	}
	return it.Iterator.Next()
}

func (it *faultyChunkIterator) Err() error { return errors.Join(it.err, it.Iterator.Err()) }

// A request is one of each way to read the storage.
type request struct {
	target string
	body   func(t testing.TB) []byte // of a POST
}

func requests() []request {
	reads := func(accepts ...prompb.ReadRequest_ResponseType) func(t testing.TB) []byte {
		return func(t testing.TB) []byte {
			t.Helper()
			query := func(name string) *prompb.Query {
				return &prompb.Query{EndTimestampMs: 1e9, Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: "__name__", Value: name}}}
			}
			r := prompb.ReadRequest{AcceptedResponseTypes: accepts, Queries: []*prompb.Query{query("up"), query("latency")}}
			b, err := r.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			return snappy.Encode(nil, b)
		}
	}
	var all []request
	for _, target := range []string{
		"query?query=up&time=300", "query?query=up%5B2m%5D&time=300", "query?query=histogram_quantile(0.9,latency)&time=100", "query_range?query=rate(requests_total%5B1m%5D)&start=0&end=600&step=15",
		"query_range?query=latency&start=0&end=120&step=15", "series?match%5B%5D=up&match%5B%5D=latency", "labels", "labels?match%5B%5D=up&match%5B%5D=latency",
		"label/job/values", "label/job/values?match%5B%5D=up&match%5B%5D=requests_total",
	} {
		all = append(all, request{target: target})
	}
	return append(all, request{"read", reads()}, request{"read?streamed", reads(prompb.ReadRequest_STREAMED_XOR_CHUNKS)})
}

// serve serves a request, and reports whether the response was aborted.
func (r request) serve(t testing.TB, api http.Handler, w http.ResponseWriter, encoding string) (aborted bool) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "http://store/api/v1/"+r.target, nil)
	if r.body != nil {
		req = httptest.NewRequest(http.MethodPost, "http://store/api/v1/"+r.target, bytes.NewReader(r.body(t)))
	}
	if encoding != "" {
		req.Header.Set("Accept-Encoding", encoding)
	}
	defer func() {
		if v := recover(); v == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			aborted = true
		} else if v != nil {
			panic(v)
		}
	}()
	api.ServeHTTP(w, req)
	return false
}

// TestEachCallFails has each call of the storage fail, in each way to read it: the response is an error or is aborted, except if closing
// a querier fails, which is logged. All queriers are closed.
func TestEachCallFails(t *testing.T) {
	s := promqltest.LoadedStorage(t, series)
	for _, r := range requests() {
		for _, withChunks := range []bool{true, false} {
			if !withChunks && r.body == nil {
				continue
			}
			t.Run(fmt.Sprint(r.target, withChunks), func(t *testing.T) {
				var logged strings.Builder
				f := new(faults)
				var seen []promapi.Observation
				api := newAPI(t, func(o *promapi.Options) {
					o.Queryable, o.ChunkQueryable = faultyStorage{s, f}, nil
					if withChunks {
						o.ChunkQueryable = faultyStorage{s, f}
					}
					o.Log = slog.New(slog.NewTextHandler(&logged, nil))
					o.Observe = func(_ context.Context, _ *http.Request, got *promapi.Observation) { seen = append(seen, *got) }
				})
				whole := httptest.NewRecorder()
				if r.serve(t, api, whole, "") || whole.Code != http.StatusOK || f.open != 0 || f.calls < 3 || logged.Len() > 0 {
					t.Fatalf("%d %s; %d queriers are open after %d calls; logged %s", whole.Code, whole.Body, f.open, f.calls, logged.String())
				}
				for n := range f.calls {
					*f = faults{n: n + 1}
					seen = seen[:0]
					logged.Reset()
					w := httptest.NewRecorder()
					aborted := r.serve(t, api, w, "")
					switch {
					case f.open != 0:
						t.Errorf("call %d fails: %d queriers are open", n, f.open)
					case f.closing:
						// The engine closes its queriers without a log.
						if w.Body.String() != whole.Body.String() || !strings.Contains(logged.String(), "close a querier") && !strings.HasPrefix(r.target, "query") {
							t.Errorf("closing fails in call %d: %d %s; logged %q", n, w.Code, w.Body, logged.String())
						}
					case !aborted && w.Code == http.StatusOK:
						t.Errorf("call %d fails: %d %s", n, w.Code, w.Body)
					case !aborted && !strings.Contains(w.Body.String(), errFault.Error()):
						t.Errorf("call %d fails: %s", n, w.Body)
					}
					if len(seen) != 1 || (seen[0].Err == nil) != f.closing || !f.closing && !errors.Is(seen[0].Err, errFault) {
						t.Errorf("call %d fails: observed %+v", n, seen)
					}
				}
			})
		}
	}
}

// A lostClient takes a number of writes.
type lostClient struct {
	*httptest.ResponseRecorder
	most, writes int
}

func (w *lostClient) Write(p []byte) (int, error) {
	if w.writes++; w.most >= 0 && w.writes > w.most {
		return 0, io.ErrClosedPipe
	}
	return w.ResponseRecorder.Write(p)
}

// TestEachWriteFails has the client lost at each write of a response, in each encoding, for responses that wait in the budget and those that have no
// room there: the loss is observed, nothing is written after it, and no bytes remain charged. Without a loss the bytes are those of the response.
func TestEachWriteFails(t *testing.T) {
	var long strings.Builder
	long.WriteString("load 15s\n")
	for i := range 400 {
		fmt.Fprintf(&long, "  up{instance=\"%d\", text=\"%s\"} %dx20\n", i, strings.Repeat(fmt.Sprintf("%x-", i*7919), 40), i)
	}
	s := promqltest.LoadedStorage(t, long.String())
	decode := func(encoding string, b []byte) string {
		t.Helper()
		var r io.Reader = bytes.NewReader(b)
		switch encoding {
		case "gzip":
			z, err := gzip.NewReader(r)
			if err != nil {
				t.Fatal(err)
			}
			r = z
		case "zstd":
			z, err := zstd.NewReader(r)
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			r = z
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, budget := range []int64{16 << 20, 0} {
		var seen promapi.Observation
		responses := promapi.NewResponseBudget(budget)
		api := newAPI(t, func(o *promapi.Options) {
			o.Queryable, o.ChunkQueryable, o.Responses = s, s, responses
			o.Observe = func(_ context.Context, _ *http.Request, o *promapi.Observation) { seen = *o }
		})
		for _, r := range append(requests(), request{target: "query?query=up%7Binstance%3D%227%22%7D&time=300"}) {
			if strings.Contains(r.target, "latency") && r.body == nil {
				continue
			}
			plain := httptest.NewRecorder()
			if r.serve(t, api, plain, "") {
				t.Fatalf("%s: aborted", r.target)
			}
			for _, encoding := range []string{"identity", "gzip", "zstd"} {
				name := fmt.Sprintf("budget %d, %s, %s", budget, encoding, r.target)
				w := &lostClient{ResponseRecorder: httptest.NewRecorder(), most: -1}
				if r.serve(t, api, w, encoding) || seen.Lost != nil || responses.Reserved() != 0 {
					t.Fatalf("%s: lost %v, %d bytes are charged", name, seen.Lost, responses.Reserved())
				}
				if got := decode(w.Header().Get("Content-Encoding"), w.Body.Bytes()); got != plain.Body.String() || seen.Bytes != int64(len(got)) {
					t.Errorf("%s: %d bytes, want %d; observed %d", name, len(got), plain.Body.Len(), seen.Bytes)
				}
				if compressed := w.Header().Get("Content-Encoding") == encoding; compressed != (encoding != "identity" && r.body == nil && plain.Body.Len() >= 1<<10) {
					t.Errorf("%s: compressed %t, %d bytes", name, compressed, plain.Body.Len())
				}
				if length := w.Header().Get("Content-Length"); length != "" && length != fmt.Sprint(w.Body.Len()) {
					t.Errorf("%s: length %s of %d", name, length, w.Body.Len())
				}
				for n := range w.writes {
					lost := &lostClient{ResponseRecorder: httptest.NewRecorder(), most: n}
					aborted := r.serve(t, api, lost, encoding)
					if lost.writes != n+1 || responses.Reserved() != 0 {
						t.Errorf("%s: %d writes after %d, %d bytes are charged", name, lost.writes, n, responses.Reserved())
					}
					if !errors.Is(seen.Lost, io.ErrClosedPipe) && (!aborted || !errors.Is(seen.Err, io.ErrClosedPipe)) {
						t.Errorf("%s: lost at write %d: aborted %t, observed %+v", name, n, aborted, seen)
					}
				}
			}
		}
	}
}
