package storeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// TestLabelsRefuse checks the errors of invalid requests for names and for values, and their codes.
func TestLabelsRefuse(t *testing.T) {
	dir, tenants := t.TempDir(), t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	if _, err := (testblock.Shape{Count: 1, Samples: 5}).Write(tenants+"/ann", testblock.Options{}); err != nil {
		t.Fatal(err)
	}
	g := teststore.Open(t, dir, nil)
	unsynced := teststore.New(t, teststore.Options(t, objstore.NewInMemBucket()))
	mimir := teststore.Open(t, tenants, func(o *storegateway.Options) { o.Layout = blocksync.LayoutMimir })
	full := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 65 << 20, PerQuery: 64 << 20, Light: 64 << 10})
	})
	type request struct {
		matchers []*storepb.LabelMatcher
		hints    *anypb.Any
		limit    int64
	}
	for _, c := range []struct {
		name   string
		g      *storegateway.Gateway
		tenant string
		change func(r *request, hints string)
		code   codes.Code
	}{
		{"all", g, "", func(*request, string) {}, codes.OK},
		{"a limit", g, "", func(r *request, _ string) { r.limit = 1 }, codes.OK},
		{"a limit beyond 32 bits", g, "", func(r *request, _ string) { r.limit = math.MaxInt64 }, codes.OK},
		{"a negative limit", g, "", func(r *request, _ string) { r.limit = -1 }, codes.InvalidArgument},
		{"a bad expression", g, "", func(r *request, _ string) { r.matchers = append(r.matchers, teststore.Regexp("a", "(")) }, codes.InvalidArgument},
		{"an unknown matcher", g, "", func(r *request, _ string) { r.matchers = append(r.matchers, &storepb.LabelMatcher{Type: 9}) }, codes.InvalidArgument},
		{"as many matchers as allowed", g, "", func(r *request, _ string) {
			r.matchers = slices.Repeat([]*storepb.LabelMatcher{teststore.Regexp("job", ".*")}, maxMatchers)
		}, codes.OK},
		{"too many matchers", g, "", func(r *request, _ string) {
			r.matchers = slices.Repeat([]*storepb.LabelMatcher{teststore.Regexp("job", ".*")}, maxMatchers+1)
		}, codes.InvalidArgument},
		{"as many steps as allowed", g, "", func(r *request, _ string) {
			r.matchers = slices.Repeat([]*storepb.LabelMatcher{teststore.Regexp("job", ".*|"+strings.Repeat("[a-z]{500}", 50))}, 5)
		}, codes.OK},
		{"too many steps together", g, "", func(r *request, _ string) {
			r.matchers = slices.Repeat([]*storepb.LabelMatcher{teststore.Regexp("job", strings.Repeat("[a-z]{500}", 50))}, 6)
		}, codes.InvalidArgument},
		{"too many steps in hints", g, "", func(r *request, hints string) {
			all := slices.Repeat([]*storepb.LabelMatcher{teststore.Regexp("job", strings.Repeat("[a-z]{500}", 50))}, 6)
			var blocks vtMessage = &storepb.LabelNamesRequestHints{BlockMatchers: all}
			if hints == valuesRequestHints {
				blocks = &storepb.LabelValuesRequestHints{BlockMatchers: all}
			}
			r.hints = anyOf(blocks, hints)
		}, codes.InvalidArgument},
		{"too many fields", g, "", func(r *request, _ string) { r.matchers = slices.Repeat([]*storepb.LabelMatcher{{}}, maxFields+1) }, codes.Internal},
		{"too many fields in hints", g, "", func(r *request, hints string) {
			r.hints = &anypb.Any{TypeUrl: "type.googleapis.com/" + hints, Value: bytes.Repeat([]byte{1<<3 | 2, 0}, maxFields+1)}
		}, codes.InvalidArgument},
		{"hints", g, "", func(r *request, hints string) { r.hints = &anypb.Any{TypeUrl: "type.googleapis.com/" + hints} }, codes.OK},
		{"empty hints", g, "", func(r *request, _ string) { r.hints = &anypb.Any{} }, codes.OK},
		{"hints of another kind", g, "", func(r *request, _ string) { r.hints = anyOf(&storepb.SeriesRequestHints{}, seriesRequestHints) }, codes.InvalidArgument},
		{"hints without a kind", g, "", func(r *request, _ string) { r.hints = &anypb.Any{Value: []byte{0xff}} }, codes.InvalidArgument},
		{"hints that are none", g, "", func(r *request, hints string) {
			r.hints = &anypb.Any{TypeUrl: "type.googleapis.com/" + hints, Value: []byte{0xff}}
		}, codes.InvalidArgument},
		{"before the first sync", unsynced, "", func(*request, string) {}, codes.Unavailable},
		{"no tenant", mimir, "", func(*request, string) {}, codes.Unauthenticated},
		{"a tenant", mimir, "ann", func(*request, string) {}, codes.OK},
		{"a bad tenant", mimir, "../ann", func(*request, string) {}, codes.InvalidArgument},
		{"more bytes than a light query may hold", full, "", func(r *request, _ string) { r.matchers = append(r.matchers, teststore.Regexp("__name__", ".+")) }, codes.OK},
	} {
		client := storepb.NewStoreClient(teststore.Dial(t, New(c.g, Options{}).NewServer()))
		ctx := t.Context()
		if c.tenant != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, mimirTenantKey, c.tenant)
		}
		var names, values request
		c.change(&names, namesRequestHints)
		c.change(&values, valuesRequestHints)
		allNames, err := client.LabelNames(ctx, &storepb.LabelNamesRequest{Start: math.MinInt64, End: math.MaxInt64, Matchers: names.matchers, Hints: names.hints, Limit: names.limit})
		if status.Code(err) != c.code || err == nil && len(allNames.GetNames()) == 0 {
			t.Errorf("%s: names %v, %v; want %v", c.name, allNames, err, c.code)
		}
		label := "__name__"
		if c.g == mimir {
			label = "foo"
		}
		allValues, err := client.LabelValues(ctx, &storepb.LabelValuesRequest{Label: label, Start: math.MinInt64, End: math.MaxInt64, Matchers: values.matchers, Hints: values.hints, Limit: values.limit})
		if status.Code(err) != c.code || err == nil && len(allValues.GetValues()) == 0 {
			t.Errorf("%s: values %v, %v; want %v", c.name, allValues, err, c.code)
		}
		teststore.WaitForIdle(t, c.g)
	}
}

// TestFields counts the fields of messages, also of those within that have lists, and compares the memory for a request with too many of
// them.
func TestFields(t *testing.T) {
	empty := func(n int) []string { return make([]string, n) }
	for _, c := range []struct {
		name string
		r    vtMessage
		want int
	}{
		{"none", &storepb.SeriesRequest{}, 0},
		{"matchers", &storepb.LabelNamesRequest{Start: 1, Matchers: slices.Repeat([]*storepb.LabelMatcher{teststore.Equal("a", "b")}, 5)}, 6},
		{"replicas", &storepb.LabelValuesRequest{Label: "a", WithoutReplicaLabels: empty(7)}, 8},
		{"a shard", &storepb.SeriesRequest{ShardInfo: &storepb.ShardInfo{TotalShards: 2, Labels: empty(9)}}, 11},
		{"hints of the query", &storepb.SeriesRequest{QueryHints: &storepb.QueryHints{ProjectionLabels: empty(3), Grouping: &storepb.Grouping{By: true, Labels: empty(4)}}}, 10},
		{"all", &storepb.SeriesRequest{WithoutReplicaLabels: empty(500_000)}, maxFields + 1},
		{"all in a shard", &storepb.SeriesRequest{ShardInfo: &storepb.ShardInfo{Labels: empty(500_000)}}, maxFields + 2},
	} {
		b := make([]byte, c.r.SizeVT())
		if _, err := c.r.MarshalToSizedBufferVT(b); err != nil {
			t.Fatal(err)
		}
		lists := nested{12: {4: nil}, 13: nil}
		if got := countFields(b, lists); got != c.want {
			t.Errorf("%s: %d fields, want %d", c.name, got, c.want)
		}
		for _, damaged := range [][]byte{b[:len(b)/2], append(bytes.Clone(b), 0xff)} {
			_ = countFields(damaged, lists)
		}
		data, decoded := mem.BufferSlice{mem.SliceBuffer(b)}, reflect.New(reflect.TypeOf(c.r).Elem()).Interface()
		check := alloctest.Bounded(t, 1<<20)
		if err := (codec{}).Unmarshal(data, decoded); (err != nil) != (c.want > maxFields) {
			t.Errorf("%s: %v", c.name, err)
		}
		check()
	}
}

// TestLargeRegexpsWait calls methods with large regular expressions while another call is served: one waits until its deadline, one is
// refused when too many wait; one with small expressions is served.
func TestLargeRegexpsWait(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	large := strings.Repeat("[a-z]{500}", 3)
	start := func(gate *promapi.RegexpGate) (call func(ctx context.Context, pattern string) codes.Code, release func()) {
		a := New(g, Options{})
		a.regexps = gate
		served := gate.Matchers(t.Context())
		if _, err := served.New(labels.MatchNotRegexp, "job", large); err != nil {
			t.Fatal(err)
		}
		client := storepb.NewStoreClient(teststore.Dial(t, a.NewServer()))
		return func(ctx context.Context, pattern string) codes.Code {
			_, err := client.LabelNames(ctx, &storepb.LabelNamesRequest{Start: math.MinInt64, End: math.MaxInt64, Matchers: []*storepb.LabelMatcher{teststore.Regexp("job", pattern)}})
			return status.Code(err)
		}, served.Release
	}
	call, release := start(promapi.NewRegexpGate(1))
	if code := call(t.Context(), ".+"); code != codes.OK {
		t.Errorf("a small expression: %v", code)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if code := call(short, large); code != codes.DeadlineExceeded {
		t.Errorf("a large one during another: %v", code)
	}
	release()
	for range 2 { // the first one leaves
		if code := call(t.Context(), large); code != codes.OK {
			t.Errorf("a large one after the other: %v", code)
		}
	}
	call, release = start(promapi.NewRegexpGate(0))
	defer release()
	if code := call(t.Context(), large); code != codes.ResourceExhausted {
		t.Errorf("a large one while too many wait: %v", code)
	}
}

// TestLabelHints expects the response to hints of values to have the blocks that were read, and those of a block to be of it alone.
func TestLabelHints(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer()))
	blocks := g.Blocks()
	for _, of := range [][]*storepb.LabelMatcher{nil, {teststore.Equal(thanosBlockID, blocks[0].ID)}, {teststore.Equal(blocksync.BlockIDLabel, blocks[0].ID)}, {teststore.Equal("cluster", "us")}} {
		want := len(blocks)
		if of != nil {
			want = 1
		}
		if of != nil && of[0].Name == "cluster" {
			want = 0
		}
		r := &storepb.LabelValuesRequest{Label: "job", Start: math.MinInt64, End: math.MaxInt64, Hints: anyOf(&storepb.LabelValuesRequestHints{BlockMatchers: of}, valuesRequestHints)}
		got, err := client.LabelValues(t.Context(), r)
		if err != nil || got.GetHints().GetTypeUrl() != "type.googleapis.com/"+valuesResponseHints {
			t.Fatalf("%v: %v, %v", of, got, err)
		}
		var hints storepb.LabelValuesResponseHints
		if err := hints.UnmarshalVT(got.GetHints().GetValue()); err != nil || len(hints.QueriedBlocks) != want || (want > 0) != (len(got.GetValues()) > 0) {
			t.Errorf("%v: %d values of blocks %v, %v; want %d blocks", of, len(got.GetValues()), hints.QueriedBlocks, err, want)
		}
		if want == 1 && hints.QueriedBlocks[0].Id != blocks[0].ID {
			t.Errorf("%v: read %v", of, hints.QueriedBlocks)
		}
	}
	if got, err := client.LabelValues(t.Context(), &storepb.LabelValuesRequest{Label: "job", Start: math.MinInt64, End: math.MaxInt64}); err != nil || got.GetHints() != nil {
		t.Errorf("without hints: %v, %v", got.GetHints(), err)
	}
}

// TestMatcherTypes converts matchers of each type.
func TestMatcherTypes(t *testing.T) {
	for typ, want := range map[storepb.LabelMatcher_Type]string{
		storepb.LabelMatcher_EQ: "ab", storepb.LabelMatcher_NEQ: "b abc ", storepb.LabelMatcher_RE: "ab b", storepb.LabelMatcher_NRE: "abc ",
	} {
		value := "ab"
		if typ == storepb.LabelMatcher_RE || typ == storepb.LabelMatcher_NRE {
			value = "a?b"
		}
		ms, err := matchersOf(t.Context(), promapi.NewRegexpGate(0).Matchers(t.Context()), []*storepb.LabelMatcher{{Type: typ, Name: "x", Value: value}})
		if err != nil || len(ms) != 1 || ms[0].Name != "x" {
			t.Fatalf("%v: %v, %v", typ, ms, err)
		}
		var got []string
		for _, v := range []string{"ab", "b", "abc", ""} {
			if ms[0].Matches(v) {
				got = append(got, v)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v matches %q, want %q", typ, got, want)
		}
	}
}

// TestBlockMatchers expects the blocks of other tenants not to be among those of a matcher.
func TestBlockMatchers(t *testing.T) {
	dir := t.TempDir()
	for _, tenant := range []string{"ann", "bob"} {
		if _, err := (testblock.Shape{Count: 1, Samples: 5}).Write(dir+"/"+tenant, testblock.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	g := teststore.Open(t, dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutMimir })
	ms, err := matchersOf(t.Context(), promapi.NewRegexpGate(0).Matchers(t.Context()), []*storepb.LabelMatcher{teststore.Regexp(thanosBlockID, ".+")})
	if err != nil {
		t.Fatal(err)
	}
	of := New(g, Options{}).blockMatchers("ann", ms)
	for _, b := range g.Blocks() {
		if len(of) != 1 || of[0].Name != blocksync.BlockIDLabel || of[0].Matches(b.ID) != (b.Tenant == "ann") {
			t.Errorf("%v of block %s of %s", of, b.ID, b.Tenant)
		}
	}
}

// TestStatusCodes maps errors to codes.
func TestStatusCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{status.Error(codes.Aborted, "x"), codes.Aborted},
		{fmt.Errorf("call: %w", status.Error(codes.Aborted, "x")), codes.Aborted},
		{errors.New("x"), codes.Internal},
		{panics.Recovered("x"), codes.Internal},
		{slab.ErrShort, codes.Unavailable},
		{slab.ErrQueueFull, codes.ResourceExhausted},
		{errQueryTimeout, codes.DeadlineExceeded},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{fmt.Errorf("read: %w", context.Canceled), codes.Canceled},
		{&tsblock.CorruptError{Block: "b"}, codes.DataLoss},
		{&fs.PathError{Err: fs.ErrPermission}, codes.Internal},
	} {
		st := grpcStatus(c.err)
		if st.Code() != c.want {
			t.Errorf("%v: %v, want %v", c.err, st.Code(), c.want)
		}
		if hidden := panics.Of(c.err) != nil; hidden == strings.Contains(st.Message(), "x") && strings.Contains(c.err.Error(), "x") {
			t.Errorf("%v: the message is %q", c.err, st.Message())
		}
	}
	if err := error(finalError{slab.ErrShort}); !errors.Is(err, slab.ErrShort) {
		t.Error("a final error hides its cause")
	}
}

// TestLastLabels copies labels of any length, and resumes a response after them.
func TestLastLabels(t *testing.T) {
	var l lastLabels
	label := func(pairs ...string) (ls []tsblock.Label) {
		for i := 0; i < len(pairs); i += 2 {
			ls = append(ls, tsblock.Label{Name: pairs[i], Value: pairs[i+1]})
		}
		return ls
	}
	for _, ls := range [][]tsblock.Label{label("a", "1"), label(), label("a", "", "bc", "23", "d", ""), label("x", "y", "z", "long value"), label("a", "1")} {
		if l.set(ls); !slices.Equal(l.labels(), ls) {
			t.Errorf("%v is kept as %v", ls, l.labels())
		}
	}
	// The last labels are those of a="1".
	odd := func(ls []tsblock.Label) bool { return ls[0].Value != "4" }
	for _, keep := range []func([]tsblock.Label) bool{nil, odd} {
		for series, want := range map[uint64]string{0: "0 1 2 3 4", 2: "2 3 4"} {
			s := seriesResponse{last: l}
			s.wanted.Keep, s.rest.Keep, s.rest.Limit = keep, keep, 7
			s.resumeAfter(series, slab.ErrShort)
			var got []string
			for _, v := range []string{"0", "1", "2", "3", "4"} {
				if ls := label("a", v); s.rest.Keep == nil || s.rest.Keep(ls) {
					got = append(got, v)
				}
			}
			if keep != nil {
				want = strings.TrimSuffix(want, " 4")
			}
			if strings.Join(got, " ") != want || s.rest.Limit != 7-int(series) || !errors.Is(s.broken, slab.ErrShort) {
				t.Errorf("after %d series: %q with limit %d, %v; want %s", series, got, s.rest.Limit, s.broken, want)
			}
		}
	}
	s := seriesResponse{last: l}
	if s.resumeAfter(5, nil); s.rest.Limit != 0 {
		t.Errorf("without a limit it is %d", s.rest.Limit)
	}
}

// TestEncodedChunks writes chunks of samples and of aggregates: the generated code reads the same.
func TestEncodedChunks(t *testing.T) {
	aggregates := storepb.AggrChunk{Count: &storepb.Chunk{Data: []byte("counts")}, Max: &storepb.Chunk{Type: storepb.Chunk_HISTOGRAM, Data: []byte("maxima")}}
	data, err := aggregates.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	chunks := []storegateway.ChunkView{
		{MinTime: -5, MaxTime: 0, Encoding: byte(chunkenc.EncXOR), Data: []byte("samples")},
		{MinTime: 1, MaxTime: 1 << 40, Encoding: encodedFields, Data: data},
		{Encoding: byte(chunkenc.EncFloatHistogram)},
		{MinTime: 3, Encoding: byte(chunkenc.EncHistogram), Data: []byte{0}},
	}
	size := 0
	for i := range chunks {
		size += fieldLen(chunkLen(&chunks[i]))
	}
	w := wire{buf: make([]byte, size)}
	w.chunks(chunks)
	var got storepb.Series
	if err := got.UnmarshalVT(w.buf[:w.n]); err != nil || w.n != size {
		t.Fatalf("%d of %d bytes: %v", w.n, size, err)
	}
	for i, c := range got.GetChunks() {
		if c.GetMinTime() != chunks[i].MinTime || c.GetMaxTime() != chunks[i].MaxTime {
			t.Errorf("chunk %d is of times %d to %d", i, c.GetMinTime(), c.GetMaxTime())
		}
		if i == 1 {
			if string(c.GetCount().GetData()) != "counts" || string(c.GetMax().GetData()) != "maxima" || c.GetMax().GetType() != storepb.Chunk_HISTOGRAM || c.GetRaw() != nil {
				t.Errorf("the aggregates are %v", c)
			}
			continue
		}
		if c.GetRaw() == nil || string(c.GetRaw().GetData()) != string(chunks[i].Data) || uint64(c.GetRaw().GetType()) != uint64(chunks[i].Encoding)-1 {
			t.Errorf("chunk %d is %v", i, c)
		}
	}
	if len(got.GetChunks()) != len(chunks) {
		t.Errorf("%d chunks, want %d", len(got.GetChunks()), len(chunks))
	}
}

// TestConverterBounds converts chunks in quotas without room for them: the converter reserves nothing then.
func TestConverterBounds(t *testing.T) {
	var all tsblock.Aggregates
	for kind := range all {
		all[kind].Encoding, all[kind].Data = byte(chunkenc.EncXOR), make([]byte, 1000)
	}
	chunk := storegateway.ChunkView{Encoding: tsblock.EncodingAggregates, Data: all.AppendTo(nil)}
	xor := storegateway.ChunkView{Encoding: byte(chunkenc.EncXOR), Data: []byte("x")}
	gate := slab.NewGate(slab.GateOptions{Bytes: 1 << 20, PerQuery: 8 << 10})
	quota, err := gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer quota.Close()
	c := &converter{quota: quota, aggregates: []storepb.Aggr{storepb.Aggr_COUNT}}
	if err := c.growAggregates([]storegateway.ChunkView{xor}); err != nil || c.reserved != 0 || c.encoded != nil {
		t.Errorf("without aggregates %d bytes are reserved, %v", c.reserved, err)
	}
	if err := c.growAggregates([]storegateway.ChunkView{xor, chunk}); err != nil || c.reserved < int64(len(chunk.Data)) || int64(cap(c.encoded)) < c.reserved {
		t.Errorf("%d bytes are reserved for %d, %v", c.reserved, len(chunk.Data), err)
	}
	before := c.reserved
	if err := c.reserve(before - 1); err != nil || c.reserved != before {
		t.Errorf("fewer bytes: %d are reserved, %v", c.reserved, err)
	}
	if err := c.growAggregates([]storegateway.ChunkView{chunk, chunk}); err == nil || c.reserved != before || quota.Used() != before {
		t.Errorf("beyond the quota: %d bytes are reserved, %d of the quota, %v", c.reserved, quota.Used(), err)
	}
	all[0].Encoding = 99
	chunk.Data = all.AppendTo(nil)
	if err := c.append(&chunk); err == nil {
		t.Error("an aggregate of an unknown encoding is converted")
	}
	if c.close(); quota.Used() != 0 || c.reserved != 0 {
		t.Errorf("%d bytes stay reserved", quota.Used())
	}
	if err := c.append(&xor); err != nil || len(c.chunks) != 1 || &c.chunks[0].Data[0] != &xor.Data[0] {
		t.Errorf("a chunk of a known encoding becomes %v, %v", c.chunks, err)
	}
}

// TestResponseBudget charges responses to the budget, and beyond it to the query; a response that fits into neither fails.
func TestResponseBudget(t *testing.T) {
	g := labelStore(t)
	for _, tt := range []struct {
		budget     int64
		unbuffered uint64
	}{{64 << 20, 0}, {1, 1}} {
		budget := promapi.NewResponseBudget(tt.budget)
		a := New(g, Options{Responses: budget})
		client := storepb.NewStoreClient(teststore.Dial(t, a.NewServer()))
		got, err := client.LabelValues(t.Context(), valuesOfI())
		if err != nil || len(got.GetValues()) != 8000 || a.unbuffered.Load() != tt.unbuffered || a.SlowClients() != 0 {
			t.Errorf("budget %d: %d values, %v; %d beyond it", tt.budget, len(got.GetValues()), err, a.unbuffered.Load())
		}
		testwait.Until(t, "the budget to be free", func() bool { return budget.Reserved() == 0 })
		teststore.WaitForIdle(t, g)
	}
	a := New(g, Options{Responses: promapi.NewResponseBudget(1)})
	c := a.newCall(t.Context(), "LabelValues", 0, 0)
	if err := c.admit(t.Context(), storegateway.LightQuery); err != nil {
		t.Fatal(err)
	}
	used := c.query.Quota().Used()
	if err := c.reserveResponse(1 << 40); err == nil || c.response.quota != 0 || c.response.budget != 0 || a.unbuffered.Load() != 0 {
		t.Errorf("a response of a terabyte: %v, %+v", err, c.response)
	}
	if err := c.reserveResponse(1 << 10); err != nil || c.response.quota != 1<<10 {
		t.Errorf("a response of a kilobyte: %v, %+v", err, c.response)
	}
	if c.release(); c.response.quota != 0 || c.query.Quota().Used() != used {
		t.Errorf("after its release: %+v, %d bytes", c.response, c.query.Quota().Used())
	}
	if err := c.finish("a panic", nil); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a panic") {
		t.Errorf("after a panic: %v", err)
	}
	teststore.WaitForIdle(t, g)
}
