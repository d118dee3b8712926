package promapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestReadRequestTypes refuses each known field of another wire type, and a field that is cut, and skips unknown ones.
func TestReadRequestTypes(t *testing.T) {
	field := func(num protowire.Number, typ protowire.Type, body []byte) []byte {
		b := protowire.AppendTag(nil, num, typ)
		switch typ {
		case protowire.VarintType:
			return protowire.AppendVarint(b, 1)
		case protowire.Fixed64Type:
			return protowire.AppendFixed64(b, 1)
		case protowire.Fixed32Type:
			return protowire.AppendFixed32(b, 1)
		}
		return protowire.AppendBytes(b, body)
	}
	messages := map[string]struct {
		wrap  func([]byte) []byte
		types map[protowire.Number]protowire.Type
	}{
		"request": {func(b []byte) []byte { return b }, map[protowire.Number]protowire.Type{1: protowire.BytesType, 2: protowire.BytesType}},
		"query": {func(b []byte) []byte { return field(1, protowire.BytesType, b) }, map[protowire.Number]protowire.Type{
			1: protowire.VarintType, 2: protowire.VarintType, 3: protowire.BytesType, 4: protowire.BytesType,
		}},
		"matcher": {func(b []byte) []byte { return field(1, protowire.BytesType, field(3, protowire.BytesType, b)) }, map[protowire.Number]protowire.Type{
			1: protowire.VarintType, 2: protowire.BytesType, 3: protowire.BytesType,
		}},
		"hints": {func(b []byte) []byte { return field(1, protowire.BytesType, field(4, protowire.BytesType, b)) }, map[protowire.Number]protowire.Type{
			1: protowire.VarintType, 2: protowire.BytesType, 3: protowire.VarintType, 4: protowire.VarintType, 5: protowire.BytesType, 6: protowire.VarintType, 7: protowire.VarintType,
		}},
	}
	for name, m := range messages {
		for num := protowire.Number(1); num <= 9; num++ {
			for _, typ := range []protowire.Type{protowire.VarintType, protowire.BytesType, protowire.Fixed64Type, protowire.Fixed32Type} {
				want, known := m.types[num]
				ok := !known || typ == want || name == "request" && num == 2 && typ == protowire.VarintType
				body := m.wrap(field(num, typ, nil))
				if _, err := decodeReadRequest(body, new(regexps)); (err == nil) != ok {
					t.Errorf("%s: field %d of type %d: %v", name, num, typ, err)
				}
				cut := field(num, typ, []byte("ab"))
				if _, err := decodeReadRequest(m.wrap(cut[:len(cut)-1]), new(regexps)); err == nil {
					t.Errorf("%s: a field %d of type %d that is cut is taken", name, num, typ)
				}
			}
		}
		if _, err := decodeReadRequest(m.wrap([]byte{0x80}), new(regexps)); err == nil {
			t.Errorf("%s: a tag that is cut is taken", name)
		}
	}
	if _, err := decodeReadRequest(field(2, protowire.BytesType, []byte{1, 0x80}), new(regexps)); err == nil {
		t.Error("accepted types that are cut are taken")
	}
	matcher := func(typ uint64) []byte {
		return messages["matcher"].wrap(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), typ))
	}
	for typ, ok := range map[uint64]bool{0: true, 3: true, 4: false} {
		if _, err := decodeReadRequest(matcher(typ), new(regexps)); (err == nil) != ok {
			t.Errorf("a matcher of type %d: %v", typ, err)
		}
	}
	query := func(matchers int) (b []byte) {
		for range matchers {
			b = append(b, field(3, protowire.BytesType, nil)...)
		}
		return field(1, protowire.BytesType, b)
	}
	repeated := func(n int, b []byte) (all []byte) {
		for range n {
			all = append(all, b...)
		}
		return all
	}
	for name, c := range map[string]struct {
		b  []byte
		ok bool
	}{
		"as many queries":         {repeated(maxReadQueries, query(0)), true},
		"more queries":            {repeated(maxReadQueries+1, query(0)), false},
		"as many matchers":        {query(maxReadMatchers), true},
		"more matchers":           {query(maxReadMatchers + 1), false},
		"as many matchers of two": {append(query(maxReadMatchers-1), query(1)...), true},
		"more matchers of two":    {append(query(maxReadMatchers-1), query(2)...), false},
	} {
		if _, err := decodeReadRequest(c.b, new(regexps)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHistogramMessages encodes histograms as Prometheus does.
func TestHistogramMessages(t *testing.T) {
	spans := []histogram.Span{{Offset: -3, Length: 2}, {Offset: 0, Length: 1}, {Offset: 300, Length: 0}}
	for name, h := range map[string]*histogram.Histogram{
		"empty": {},
		"full": {
			Schema: -2, Count: 1 << 40, Sum: -1.5, ZeroThreshold: 1e-9, ZeroCount: 7, PositiveSpans: spans, NegativeSpans: spans[1:], PositiveBuckets: []int64{1, -2, 300},
			NegativeBuckets: []int64{-64}, CounterResetHint: histogram.NotCounterReset,
		},
		"custom buckets": {Schema: histogram.CustomBucketsSchema, Count: 3, Sum: math.Copysign(0, -1), PositiveSpans: spans[:1], PositiveBuckets: []int64{1, 1}, CustomValues: []float64{0.5, 1}},
	} {
		for _, at := range []int64{0, 1, -1, 1_700_000_000_000} {
			var got prompb.TimeSeries
			b := AppendHistogram(appendProtoSample(appendProtoLabels(nil, labels.FromStrings("a", "b", "empty", "")), at, 0), 4, at, h)
			b = appendProtoSample(AppendFloatHistogram(b, 4, at, h.ToFloat(nil)), at, math.Copysign(0, -1))
			if err := got.Unmarshal(b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := prompb.TimeSeries{
				Labels:     []prompb.Label{{Name: "a", Value: "b"}, {Name: "empty"}},
				Samples:    []prompb.Sample{{Timestamp: at}, {Timestamp: at, Value: math.Copysign(0, -1)}},
				Histograms: []prompb.Histogram{prompb.FromIntHistogram(at, h), prompb.FromFloatHistogram(at, h.ToFloat(nil))},
			}
			if a, b := fmt.Sprintf("%+v", got.String()), fmt.Sprintf("%+v", want.String()); a != b {
				t.Errorf("%s at %d: %s, want %s", name, at, a, b)
			}
		}
	}
}

// TestResponseBudget grants up to a quarter of all bytes to a response, and all bytes to several.
func TestResponseBudget(t *testing.T) {
	b := NewResponseBudget(400)
	for i, c := range []struct {
		n, charged, release int64
		ok                  bool
		held                int64
	}{
		{100, 0, 0, true, 100},
		{101, 0, 0, false, 100},
		{50, 50, 0, true, 150},
		{51, 50, 0, false, 150},
		{100, 0, 0, true, 250},
		{100, 0, 0, true, 350},
		{51, 0, 0, false, 350},
		{50, 0, 0, true, 400},
		{1, 0, 0, false, 400},
		{0, 0, 300, true, 100},
		{100, 0, 0, true, 200},
	} {
		if c.release > 0 {
			b.Release(c.release)
		}
		if got := b.Reserve(c.n, c.charged); got != c.ok || b.Reserved() != c.held {
			t.Errorf("step %d: %v, %d bytes held, want %+v", i, got, b.Reserved(), c)
		}
	}
	if b.peak.Load() != 400 {
		t.Errorf("a peak of %d", b.peak.Load())
	}
	defer func() {
		if recover() == nil {
			t.Error("more bytes are released than reserved")
		}
	}()
	b.Release(201)
}

// TestFeatures enables each feature by its name.
func TestFeatures(t *testing.T) {
	for i, name := range FeatureNames() {
		f, err := ParseFeatures([]string{name})
		if err != nil || f.String() != name {
			t.Errorf("%s: %v (%v)", name, f, err)
		}
		on := [...]bool{f.fillModifiers, f.delayedNameRemoval, f.experimentalFunctions, f.extendedRanges, f.perStepStats}
		for j, is := range on {
			if is != (i == j) {
				t.Errorf("%s enables feature %d: %v", name, j, is)
			}
		}
		if o := f.parser(); o.EnableBinopFillModifiers != on[0] || o.EnableExperimentalFunctions != on[2] || o.EnableExtendedRangeSelectors != on[3] {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if f, err := ParseFeatures(nil); err != nil || f.String() != "" {
		t.Errorf("%v (%v)", f, err)
	}
	if f, err := ParseFeatures([]string{FeatureNames()[0], "magic"}); err == nil || f.fillModifiers {
		t.Errorf("an unknown feature: %+v", f)
	}
	if f, err := ParseFeatures(FeatureNames()[:2]); err != nil || f.String() != strings.Join(FeatureNames()[:2], ",") {
		t.Errorf("%v (%v)", f, err)
	}
}

// TestTruncate cuts results beyond the limit.
func TestTruncate(t *testing.T) {
	for limit, cut := range map[int]bool{0: false, 1: true, 2: false, 3: false} {
		for _, v := range []promql.Result{{Value: make(promql.Matrix, 2)}, {Value: make(promql.Vector, 2)}} {
			got := truncate(&v, limit)
			n := 0
			switch r := v.Value.(type) {
			case promql.Matrix:
				n = len(r)
			case promql.Vector:
				n = len(r)
			}
			if want := map[bool]int{true: limit, false: 2}[cut]; got != cut || n != want {
				t.Errorf("%T with limit %d: %v, %d", v.Value, limit, got, n)
			}
		}
	}
	if scalar := (promql.Result{Value: promql.Scalar{}}); truncate(&scalar, 1) {
		t.Error("a scalar is cut")
	}
}

// TestErrorTypes has the type and the status of each error, also wrapped.
func TestErrorTypes(t *testing.T) {
	for typ, want := range map[ErrorType]int{BadData: 400, Execution: 422, Canceled: 499, Timeout: 503, Unavailable: 503, NotFound: 404, NotAcceptable: 406, Internal: 500, "x": 500} {
		if got := typ.status(); got != want {
			t.Errorf("%s has status %d", typ, got)
		}
	}
	quota := errors.New("over the quota")
	a := &API{o: Options{Classify: func(err error) ErrorType {
		if errors.Is(err, quota) {
			return Unavailable
		}
		return ""
	}}}
	typed := &Error{Type: NotFound, Status: http.StatusGone, Err: errors.New("it is gone")}
	for name, c := range map[string]struct {
		err    error
		typ    ErrorType
		status int
		text   string
	}{
		"typed":              {typed, NotFound, http.StatusGone, "it is gone"},
		"typed and wrapped":  {fmt.Errorf("read: %w", typed), NotFound, http.StatusGone, "read: not_found: it is gone"},
		"typed by a storage": {promql.ErrStorage{Err: typed}, NotFound, http.StatusGone, "it is gone"},
		"classified":         {promql.ErrStorage{Err: quota}, Unavailable, 503, "over the quota"},
		"canceled":           {promql.ErrQueryCanceled("x"), Canceled, 499, "canceled"},
		"timed out":          {promql.ErrQueryTimeout("x"), Timeout, 503, "timed out"},
		"of a storage":       {promql.ErrStorage{Err: errors.New("boom")}, Internal, 500, "boom"},
		"context canceled":   {fmt.Errorf("read: %w", context.Canceled), Canceled, 499, "canceled"},
		"context deadline":   {fmt.Errorf("read: %w", context.DeadlineExceeded), Timeout, 503, "deadline"},
		"another":            {errors.New("boom"), Execution, 422, "boom"},
	} {
		if e := a.classify(c.err); e.Type != c.typ || e.status() != c.status || !strings.Contains(e.text(), c.text) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := (&API{}).classify(quota); e.Type != Execution {
		t.Errorf("without a hook: %v", e)
	}
	if e := badParam("step", errStep); !errors.Is(e, errStep) || e.Error() != `bad_data: invalid parameter "step": `+errStep.Error() {
		t.Error(e)
	}
}

// TestRegexpParts has the ends of classes and repetitions.
func TestRegexpParts(t *testing.T) {
	for pattern, want := range map[string]int{
		"[a]": 2, "[]": 2, "[]a]": 3, "[^]a]": 4, "[^a]": 3, `[\]]`: 3, `[a\]`: 4, "[a]]": 2, "[^]": 3, "[": 1,
	} {
		if got := classEnd(pattern, 0); got != want {
			t.Errorf("%s ends at %d, want %d", pattern, got, want)
		}
	}
	for pattern, want := range map[string][2]int{
		"{1}": {1, 2}, "{12,}": {12, 4}, "{1,30}": {30, 5}, "{9,1}": {9, 4}, "{,5}": {5, 3}, "{}": {}, "{a}": {}, "{1": {}, "{1a}": {}, "{2000}": {1000, 5}, "{0}": {0, 2}, "{90}": {90, 3},
	} {
		if most, end := repetitions(pattern, 0); [2]int{most, end} != want {
			t.Errorf("%s: %d up to %d, want %v", pattern, most, end, want)
		}
	}
	for pattern, want := range map[string]int{
		"": 0, "abc": 3, `a\.c`: 3, `\`: 1, "[abc]": 2, "[abcd]": 2, "[abcdefgh]": 3, "(a)": 3, "((a))": 5, "a{3}": 3, "a{0}": 1, "ab{3}": 4, "(ab){3}": 12, "a{3}{2}": 6, "a{x}": 4,
		`\Q(a\E`: 2, `\Qabc\Ed`: 4, `\Qabc`: 3, `\Qabcdef\E{2}`: 10, `\pL`: 258, `[\pL]`: 258, `\p`: 257, `(?i)\pL`: 1286, `(?i)[a-z]`: 7, `(?i)[B-\x{1e942}]`: 7832, `(?s)[a-é]`: 6,
		"[[:word:]]": 3, "[[:a]]": 3, "a)b": 4, "(a": 1, "[a]{4}": 4, "(a{2}){2}": 8,
	} {
		if got := regexpSteps(pattern); got != want {
			t.Errorf("%s: %d steps, want %d", pattern, got, want)
		}
	}
	for n, ok := range map[int]bool{maxRegexpSteps: true, maxRegexpSteps + 1: false} {
		r := new(regexps)
		if err := r.add(strings.Repeat("a", n)); (err == nil) != ok {
			t.Errorf("%d steps: %v", n, err)
		}
	}
	asked := 0
	r := &regexps{large: func() error { asked++; return errRegexps }}
	for i, c := range []struct {
		n, asked int
		ok       bool
	}{{largeRegexpSteps, 0, true}, {1, 1, false}, {1, 1, true}} {
		if err := r.add(strings.Repeat("a", c.n)); (err == nil) != c.ok || asked != c.asked {
			t.Errorf("step %d: %v, asked %d times", i, err, asked)
		}
	}
	for text, steps := range map[string]int{`a{b="cccc"}`: 0, `a{b=~"ccc"}`: 3, `a{b!~"ccc",d=~"e"}`: 4, `a{b=~`: 0, `label_replace(a,"x","y~","z","(w)")`: 7, `label_join(a,"x","y~")`: 0, `label_replace(a{b="cc"},"x","y","z","w")`: 6, `a{b=~"c"} + a{b="d~",c=~'ee'}`: 3, `a{b=~"\xzz"}`: 0} {
		r := new(regexps)
		if err := r.addText(text); err != nil || r.steps != steps {
			t.Errorf("%s: %d steps (%v), want %d", text, r.steps, err, steps)
		}
	}
	if err := new(regexps).addText(`a{b=~"` + strings.Repeat("c", maxRegexpSteps+1) + `"}`); !errors.Is(err, errRegexps) {
		t.Errorf("a large one: %v", err)
	}
}

// TestRestrictedErrors returns the errors of the storages that are restricted.
func TestRestrictedErrors(t *testing.T) {
	boom := errors.New("boom")
	o := Options{Restrict: func(context.Context) []*labels.Matcher { return nil }}
	o.Queryable = storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return nil, boom })
	o.ChunkQueryable = failingChunks{boom}
	r := o.restricted()
	if q, err := r.Queryable.Querier(0, 1); !errors.Is(err, boom) || q != nil {
		t.Errorf("%v, %v", q, err)
	}
	if q, err := r.ChunkQueryable.ChunkQuerier(0, 1); !errors.Is(err, boom) || q != nil {
		t.Errorf("%v, %v", q, err)
	}
	o.ChunkQueryable = nil
	if o.restricted().ChunkQueryable != nil {
		t.Error("chunks that are not there are restricted")
	}
}

type failingChunks struct{ err error }

func (f failingChunks) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) { return nil, f.err }
