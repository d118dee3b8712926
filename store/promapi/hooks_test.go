package promapi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/store/promapi"
)

// limitError is an error type of a storage.
type limitError struct{ what string }

func (e *limitError) Error() string { return "over the limit of " + e.what }

// A script is a storage with the results of a test.
type script struct {
	set storage.SeriesSet
	err error
	ctx func(context.Context)
}

func (s script) Querier(int64, int64) (storage.Querier, error) { return scriptQuerier{s}, nil }

type scriptQuerier struct{ script }

func (q scriptQuerier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	if q.ctx != nil {
		q.ctx(ctx)
	}
	if q.err != nil {
		return storage.ErrSeriesSet(q.err)
	}
	return q.set
}

func (q scriptQuerier) LabelValues(ctx context.Context, _ string, _ *storage.LabelHints, _ ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.LabelNames(ctx, nil)
}

func (q scriptQuerier) LabelNames(ctx context.Context, _ *storage.LabelHints, _ ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if q.ctx != nil {
		q.ctx(ctx)
	}
	return []string{"b", "a"}, nil, q.err
}

func (scriptQuerier) Close() error { return nil }

func mustNew(t testing.TB, o promapi.Options) *promapi.API {
	t.Helper()
	api, err := promapi.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func get(api http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://store/api/v1/"+target, nil))
	return w
}

// readers returns requests of every endpoint that reads the storage.
func readers() []string {
	return []string{
		"query?query=up&time=5", "query_range?query=up&start=0&end=60&step=15", "series?match%5B%5D=up",
		"labels", "labels?match%5B%5D=up&match%5B%5D=down", "label/job/values",
	}
}

func TestErrorsOfTheStorage(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string // status, type, text
	}{
		{"plain", errors.New("read index: gone"), "422 execution read index: gone"},
		{"typed", &promapi.Error{Type: promapi.Unavailable, Err: errors.New("no blocks yet")}, "503 unavailable no blocks yet"},
		{"status", &promapi.Error{Type: promapi.BadData, Status: http.StatusUnauthorized, Err: errors.New("no tenant")}, "401 bad_data no tenant"},
		{"classified", &limitError{"chunks"}, "422 execution over the limit of chunks"},
		{"classified as another", &limitError{"time"}, "503 timeout over the limit of time"},
		{"canceled", context.Canceled, "499 canceled context canceled"},
		{"deadline", context.DeadlineExceeded, "503 timeout context deadline exceeded"},
	} {
		api := mustNew(t, promapi.Options{
			Queryable: script{err: c.err},
			Classify: func(err error) promapi.ErrorType {
				if e, ok := errors.AsType[*limitError](err); ok {
					if e.what == "time" {
						return promapi.Timeout
					}
					return promapi.Execution
				}
				return ""
			},
		})
		for _, target := range readers() {
			t.Run(c.name+"/"+target, func(t *testing.T) {
				w := get(api, target)
				var got struct{ ErrorType, Error string }
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatalf("%s: %v", w.Body, err)
				}
				// The engine names the operation first, and so does *Error in a chain.
				text := got.Error
				for _, prefix := range []string{"expanding series: ", "unavailable: ", "bad_data: "} {
					text = strings.TrimPrefix(text, prefix)
				}
				if s := strings.Join([]string{http.StatusText(w.Code), got.ErrorType, text}, " "); !strings.HasSuffix(c.want, got.ErrorType+" "+text) || !strings.HasPrefix(c.want, itoa(w.Code)) {
					t.Errorf("got %d %s, want %s", w.Code, s, c.want)
				}
			})
		}
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

type tenantKey struct{}

func TestHooks(t *testing.T) {
	var seen []*promapi.Observation
	var tenants []string
	released := 0
	list := storage.NewListSeries(labels.FromStrings("__name__", "up"), []chunks.Sample{sample{t: 1000, f: 3}})
	api := mustNew(t, promapi.Options{
		Queryable: script{
			set: warned{newSet(list), "block 01B is missing"},
			ctx: func(ctx context.Context) { tenants = append(tenants, ctx.Value(tenantKey{}).(string)) },
		},
		Admit: func(ctx context.Context, r *http.Request) (context.Context, func(), error) {
			tenant := r.Header.Get("X-Scope-OrgID")
			if tenant == "" {
				return nil, nil, &promapi.Error{Type: promapi.BadData, Status: http.StatusUnauthorized, Err: errors.New("no org id")}
			}
			if tenant == "busy" {
				return nil, nil, errors.New("no bytes are free")
			}
			return context.WithValue(ctx, tenantKey{}, tenant), func() { released++ }, nil
		},
		Explain: func(ctx context.Context, dst []byte) []byte {
			return append(append(append(dst, `{"tenant":"`...), ctx.Value(tenantKey{}).(string)...), `"}`...)
		},
		Observe: func(_ context.Context, _ *http.Request, o *promapi.Observation) { seen = append(seen, o) },
	})
	ask := func(tenant, target string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://store/api/v1/"+target, nil)
		r.Header.Set("X-Scope-OrgID", tenant)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}

	w := ask("blue", "query?query=up&time=1&explain=1")
	if want := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1,"3"]}]},"warnings":["block 01B is missing"],"explain":{"tenant":"blue"}}`; w.Body.String() != want {
		t.Errorf("got  %s\nwant %s", w.Body, want)
	}
	if w := ask("", "query?query=up&time=1"); w.Code != http.StatusUnauthorized {
		t.Errorf("without a tenant: status %d: %s", w.Code, w.Body)
	}
	if w := ask("busy", "labels"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("refused by Admit: status %d: %s", w.Code, w.Body)
	}
	if w := ask("", "alerts"); w.Code != http.StatusOK {
		t.Errorf("what reads no storage was refused: %d", w.Code)
	}
	ask("red", "label/job/values?end=60")
	if want := []string{"blue", "red"}; !cmp.Equal(tenants, want) || released != 2 {
		t.Errorf("the storage saw tenants %v, released %d times; want %v, twice", tenants, released, want)
	}
	if s := api.Stats(); s != (promapi.GateStats{}) {
		t.Errorf("the gate is left with %+v", s)
	}

	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	want := []*promapi.Observation{
		{Endpoint: "query", Query: "up", Start: at(1), End: at(1), Series: 1, Samples: 1, Read: 1, Peak: 1, Status: 200, Warnings: []string{"block 01B is missing"}, Bytes: int64(w.Body.Len())},
		{Endpoint: "query", Query: "up", Start: at(1), End: at(1), Status: 401},
		{Endpoint: "labels", Status: 503},
		{Endpoint: "alerts", Status: 200},
		{Endpoint: "label_values", Query: "job", End: at(60), Series: 2, Status: 200},
	}
	ignore := cmpopts.IgnoreFields(promapi.Observation{}, "Duration", "Queued", "Err")
	for i, o := range seen {
		if (o.Err != nil) != (o.Status >= 400) {
			t.Errorf("%s: status %d with error %v", o.Endpoint, o.Status, o.Err)
		}
		if i != 0 {
			o.Bytes = 0
		}
		if o.Endpoint == "labels" || o.Endpoint == "label_values" {
			o.Start = time.Time{} // the least time
		}
		if o.Endpoint == "labels" {
			o.End = time.Time{}
		}
	}
	if diff := cmp.Diff(want, seen, ignore); diff != "" {
		t.Errorf("observations (-want +got):\n%s", diff)
	}
}

// sample is a chunks.Sample of a float.
type sample struct {
	chunks.Sample
	t int64
	f float64
}

func (s sample) T() int64               { return s.t }
func (s sample) ST() int64              { return 0 }
func (s sample) F() float64             { return s.f }
func (sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// set is a SeriesSet of given series.
type set struct {
	list []storage.Series
	at   int
	err  error
}

func newSet(list ...storage.Series) *set { return &set{list: list, at: -1} }
func (s *set) Next() bool                { s.at++; return s.at < len(s.list) }
func (s *set) At() storage.Series        { return s.list[s.at] }

// Err returns the error after the last series.
func (s *set) Err() error {
	if s.at < len(s.list) {
		return nil
	}
	return s.err
}

func (*set) Warnings() annotations.Annotations { return nil }

// warned is a SeriesSet with a warning.
type warned struct {
	storage.SeriesSet
	text string
}

func (s warned) Warnings() annotations.Annotations {
	var notes annotations.Annotations
	notes.Add(errors.New(s.text))
	return notes
}

// TestBounds sends a request for each limit of requests and responses.
func TestBounds(t *testing.T) {
	many := make([]storage.Series, 1000)
	for i := range many {
		many[i] = storage.NewListSeries(labels.FromStrings("i", itoa(i)), []chunks.Sample{sample{t: 1, f: 1}})
	}
	o := promapi.Options{Queryable: script{set: newSet(many...)}, MaxResponse: 5000, MaxBody: 100, MaxSamples: 500}
	if w := get(mustNew(t, o), "series?match%5B%5D=up"); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "exceeds 5000 bytes") {
		t.Errorf("an answer over MaxAnswer: %d %s", w.Code, w.Body)
	}
	o.Queryable = script{set: newSet(many...)}
	if w := get(mustNew(t, o), "query?query=up&time=0.001"); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "too many samples") {
		t.Errorf("a query over MaxSamples: %d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest(http.MethodPost, "http://store/api/v1/query", strings.NewReader(url.Values{"query": {strings.Repeat("x", 200)}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	mustNew(t, o).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), `"bad_data"`) {
		t.Errorf("a body over MaxBody: %d %s", w.Code, w.Body)
	}
	notReady := promapi.Options{Queryable: script{}, Ready: func() error { return errors.New("blocks are being listed") }}
	if w := get(mustNew(t, notReady), "alerts"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "blocks are being listed") {
		t.Errorf("before it is ready: %d %s", w.Code, w.Body)
	}
}

// A testBody fails the test if more of it is read than its first bytes.
type testBody struct {
	t     *testing.T
	first []byte
}

func (b *testBody) Read(p []byte) (int, error) {
	n := copy(p, b.first)
	if b.first = b.first[n:]; n == 0 {
		b.t.Error("the rest of the body is read")
		return 0, io.EOF
	}
	return n, nil
}

// TestBodyLengths sends bodies that are too long by their headers or first bytes: they are refused unread. The longest
// expression is accepted in the longest form that it has.
func TestBodyLengths(t *testing.T) {
	a := mustNew(t, promapi.Options{Queryable: script{}})
	post := func(path, kind string, body io.Reader, length int64) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://store/api/v1/"+path, body)
		r.ContentLength = length
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	const form, packed = "application/x-www-form-urlencoded", "application/x-protobuf"
	for _, c := range []struct {
		path, kind string
		first      []byte
		length     int64
		code       int
	}{
		{"query", form, nil, 4<<20 + 1, http.StatusRequestEntityTooLarge},
		{"read", packed, nil, 10<<20 + 1, http.StatusRequestEntityTooLarge},
		{"read", packed, binary.AppendUvarint(make([]byte, 0, 10), 10<<20+1)[:10], 1 << 20, http.StatusBadRequest},
		{"read", packed, bytes.Repeat([]byte{0xff}, 10), 1 << 20, http.StatusBadRequest},
	} {
		if w := post(c.path, c.kind, &testBody{t, c.first}, c.length); w.Code != c.code {
			t.Errorf("%s of %d bytes that begins with %x: %d %s", c.path, c.length, c.first, w.Code, w.Body)
		}
	}
	longest := "query=" + strings.Repeat("%31", 1<<20) + "&stats=" + strings.Repeat("x", 1<<20-1024)
	if w := post("query", form, strings.NewReader(longest), int64(len(longest))); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "parse error") {
		t.Errorf("a form of %d bytes: %d %.200s", len(longest), w.Code, w.Body)
	}
	if w := post("query", form, io.LimitReader(strings.NewReader("query="+strings.Repeat("1", 5<<20)), 5<<20), -1); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a form of 5 MiB without a length: %d %.200s", w.Code, w.Body)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    promapi.Options
		want string
	}{
		{promapi.Options{}, "an API needs a Queryable"},
		{promapi.Options{Queryable: script{}, MaxQueued: -1}, "MaxQueued is -1, want a positive number, or 0 for the default"},
		{promapi.Options{Queryable: script{}, Prefix: "api"}, "prefix is \"api\", want a path like /api/v1"},
	} {
		if _, err := promapi.New(c.o); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	api := mustNew(t, promapi.Options{Queryable: script{}, Prefix: "/prom/api/v1"})
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://store/prom/api/v1/labels", nil))
	if w.Body.String() != `{"status":"success","data":["a","b"]}` {
		t.Errorf("under another prefix: %d %s", w.Code, w.Body)
	}
}

type widerKey struct{}

// TestPrepare expects the step and the form in Prepare, its context in the storage, and its lookback delta for
// queries that state none.
func TestPrepare(t *testing.T) {
	var steps []time.Duration
	var contexts []string
	list := storage.NewListSeries(labels.FromStrings("__name__", "up"), []chunks.Sample{sample{t: 1000, f: 3}})
	api := mustNew(t, promapi.Options{
		Queryable: storage.QueryableFunc(func(int64, int64) (storage.Querier, error) {
			return scriptQuerier{script{set: newSet(list), ctx: func(ctx context.Context) {
				text, _ := ctx.Value(widerKey{}).(string)
				contexts = append(contexts, text)
			}}}, nil
		}),
		Prepare: func(ctx context.Context, form url.Values, step time.Duration) (context.Context, time.Duration, error) {
			steps = append(steps, step)
			if form.Get("wider") == "bad" {
				return ctx, 0, errors.New("wider: bad is no duration")
			}
			d, _ := time.ParseDuration(form.Get("wider"))
			return context.WithValue(ctx, widerKey{}, form.Get("wider")), d, nil
		},
	})
	ask := func(target string) string {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://store/api/v1/"+target, nil))
		return w.Body.String()
	}
	for _, c := range []struct {
		target, has string
		found       bool
	}{
		{"query?query=up&time=1000", `"3"`, false},
		{"query?query=up&time=1000&wider=1h", `"3"`, true},
		{"query?query=up&time=1000&wider=1h&lookback_delta=5m", `"3"`, false},
		{"query_range?query=up&start=1000&end=1060&step=60&wider=1h", `"3"`, true},
		{"query?query=up&time=1000&wider=bad", `"errorType":"bad_data","error":"wider: bad is no duration"`, true},
	} {
		if got := ask(c.target); strings.Contains(got, c.has) != c.found {
			t.Errorf("%s: %s", c.target, got)
		}
	}
	if want := []time.Duration{0, 0, 0, time.Minute, 0}; !cmp.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	if want := []string{"", "1h", "1h", "1h"}; !cmp.Equal(contexts, want) {
		t.Errorf("contexts %v, want %v", contexts, want)
	}
}
