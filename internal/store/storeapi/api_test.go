package storeapi

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// TestSeries compares the response over a connection with that of Select, for every form of request.
func TestSeries(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu", "replica": "a"})
	g := teststore.Open(t, dir, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer()))

	// selected returns the series of the request without gRPC.
	selected := func(r storegateway.Request) []*storepb.Series {
		q, err := g.Admit(t.Context(), storegateway.Admission{})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		set, err := q.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		var out []*storepb.Series
		for set.Next() {
			at := set.At()
			if r.SkipChunks {
				at.Chunks = nil
			}
			out = append(out, asMessage(cloneSeries(at)))
		}
		if err := set.Err(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := storegateway.Request{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*")}}
	shard := labels.MustNewMatcher(labels.MatchEqual, tsblock.ShardLabel, "2_of_3")
	for _, c := range []struct {
		name   string
		change func(*storepb.SeriesRequest, *storegateway.Request)
	}{
		{"all", func(*storepb.SeriesRequest, *storegateway.Request) {}},
		{"labels alone", func(r *storepb.SeriesRequest, s *storegateway.Request) { r.SkipChunks, s.SkipChunks = true, true }},
		{"a time range", func(r *storepb.SeriesRequest, s *storegateway.Request) {
			r.MinTime, s.MinTime = 1_700_000_500_000, 1_700_000_500_000
			r.MaxTime, s.MaxTime = 1_700_001_700_000, 1_700_001_700_000
		}},
		{"no time", func(r *storepb.SeriesRequest, s *storegateway.Request) { r.MaxTime, s.MaxTime = 5, 5 }},
		{"a limit", func(r *storepb.SeriesRequest, s *storegateway.Request) { r.Limit, s.Limit = 7, 7 }},
		{"an external label", func(r *storepb.SeriesRequest, s *storegateway.Request) {
			r.Matchers = append(r.Matchers, teststore.Equal("cluster", "us"))
			s.Matchers = append(slices.Clone(s.Matchers), labels.MustNewMatcher(labels.MatchEqual, "cluster", "us"))
		}},
		{"all with hints", func(r *storepb.SeriesRequest, _ *storegateway.Request) {
			r.Hints = anyOf(&storepb.SeriesRequestHints{}, seriesRequestHints)
		}},
		{"without replica labels", func(r *storepb.SeriesRequest, s *storegateway.Request) {
			r.WithoutReplicaLabels = []string{"replica", "instance"}
			s.WithoutLabels = []string{"replica", "instance"}
		}},
		{"a shard by hash", func(r *storepb.SeriesRequest, s *storegateway.Request) {
			r.Matchers = append(r.Matchers, teststore.Equal(tsblock.ShardLabel, "2_of_3"))
			s.Matchers = append(slices.Clone(s.Matchers), shard)
		}},
		{"one block", func(r *storepb.SeriesRequest, s *storegateway.Request) {
			id := g.Blocks()[1].ID
			r.Hints = anyOf(&storepb.SeriesRequestHints{BlockMatchers: []*storepb.LabelMatcher{teststore.Equal("__block_id", id), teststore.Equal("cluster", "eu")}}, seriesRequestHints)
			s.Blocks = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, blocksync.BlockIDLabel, id)}
		}},
		{"blocks of another cluster", func(r *storepb.SeriesRequest, s *storegateway.Request) {
			r.Hints = anyOf(&storepb.SeriesRequestHints{BlockMatchers: []*storepb.LabelMatcher{teststore.Equal("cluster", "us")}}, seriesRequestHints)
			s.Blocks = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, blocksync.BlockIDLabel, "none")}
		}},
	} {
		for _, batch := range []int{0, 1, 64} {
			t.Run(fmt.Sprintf("%s/batch %d", c.name, batch), func(t *testing.T) {
				r, s := teststore.Everything(), all
				r.ResponseBatchSize = int64(batch)
				c.change(r, &s)
				responses, hints, err := teststore.Receive(client.Series(t.Context(), r))
				if err != nil {
					t.Fatal(err)
				}
				got, want := seriesOf(t, responses, batch), selected(s)
				if len(got) != len(want) {
					t.Fatalf("got %d series, want %d", len(got), len(want))
				}
				for i := range got {
					if !equalVT(got[i], want[i]) {
						t.Fatalf("series %d: got %v, want %v", i, got[i], want[i])
					}
				}
				if asked := r.Hints != nil; asked != (hints != nil) || asked && hints.QueryStats != nil {
					t.Errorf("the request has hints: %t; the response's are %v, want blocks and no statistics", asked, hints)
				}
				if t.Name() == "TestSeries/all_with_hints/batch_0" && (len(got) < 100 || len(hints.QueriedBlocks) != 3) {
					t.Errorf("%d series of %d blocks", len(got), len(hints.QueriedBlocks))
				}
			})
		}
	}
	teststore.WaitForIdle(t, g)
}

// equalVT compares encoded messages: the same code encodes both.
func equalVT(a, b *storepb.Series) bool {
	x, errX := a.MarshalVT()
	y, errY := b.MarshalVT()
	return errX == nil && errY == nil && slices.Equal(x, y)
}

func cloneSeries(s *storegateway.Series) madeSeries {
	var m madeSeries
	for _, l := range s.Labels {
		m.labels = append(m.labels, tsblock.Label{Name: string([]byte(l.Name)), Value: string([]byte(l.Value))})
	}
	for _, c := range s.Chunks {
		c.Data = slices.Clone(c.Data)
		m.chunks = append(m.chunks, c)
	}
	return m
}

// TestSeriesGroupShards requests each shard by the labels of a grouping: together they contain all series,
// each series is in one shard, and series with the same grouping labels are in the same shard. Each chunk is
// read once.
func TestSeriesGroupShards(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer()))
	withStats := func() *storepb.SeriesRequest {
		r := teststore.Everything()
		r.Hints = anyOf(&storepb.SeriesRequestHints{EnableQueryStats: true}, seriesRequestHints)
		return r
	}
	responses, hints, err := teststore.Receive(client.Series(t.Context(), withStats()))
	if err != nil {
		t.Fatal(err)
	}
	all, chunks := len(responses), hints.QueryStats.ChunksTouched
	bytes := hints.QueryStats.ChunksTouchedSizeSum
	for _, by := range []bool{true, false} {
		const shards = 4
		found, shardOf := 0, make(map[string]int)
		var read, readBytes int64
		for i := range shards {
			r := withStats()
			r.ShardInfo = &storepb.ShardInfo{ShardIndex: int64(i), TotalShards: shards, By: by, Labels: []string{"job", "__name__"}}
			responses, hints, err := teststore.Receive(client.Series(t.Context(), r))
			if err != nil {
				t.Fatal(err)
			}
			found += len(responses)
			read += hints.QueryStats.ChunksTouched
			readBytes += hints.QueryStats.ChunksTouchedSizeSum
			for _, s := range seriesOf(t, responses, 1) {
				var name strings.Builder
				for _, l := range s.Labels {
					if slices.Contains(r.ShardInfo.Labels, l.Name) == by {
						fmt.Fprintf(&name, "%q=%q,", l.Name, l.Value)
					}
				}
				group := name.String()
				if at, ok := shardOf[group]; ok && at != i {
					t.Errorf("group %s is in shards %d and %d", group, at, i)
				}
				shardOf[group] = i
			}
		}
		if found != all {
			t.Errorf("by %v: all shards have %d series, there are %d", by, found, all)
		}
		if read != chunks || readBytes != bytes {
			t.Errorf("by %v: all shards read %d chunks of %d bytes, without shards it is %d of %d", by, read, readBytes, chunks, bytes)
		}
		r := withStats()
		r.ShardInfo = &storepb.ShardInfo{ShardIndex: 1, TotalShards: shards, By: by, Labels: []string{"instance"}}
		r.Limit = 3
		if responses, _, err := teststore.Receive(client.Series(t.Context(), r)); err != nil || len(responses) != 3 {
			t.Errorf("by %v: the first 3 series of a shard are %d, %v", by, len(responses), err)
		}
	}
}

// TestSeriesRefuses checks the errors of invalid requests and their codes.
func TestSeriesRefuses(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	small := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 1 << 20, PerQuery: 1 << 20})
	})
	few := teststore.Open(t, dir, func(o *storegateway.Options) { o.Limits.Series = 3 })
	g := teststore.Open(t, dir, nil)
	for _, c := range []struct {
		name   string
		g      *storegateway.Gateway
		change func(*storepb.SeriesRequest)
		code   codes.Code
	}{
		{"a bad expression", g, func(r *storepb.SeriesRequest) { r.Matchers = append(r.Matchers, teststore.Regexp("a", "(")) }, codes.InvalidArgument},
		{"an unknown matcher", g, func(r *storepb.SeriesRequest) { r.Matchers[0].Type = 9 }, codes.InvalidArgument},
		{"no matcher", g, func(r *storepb.SeriesRequest) { r.Matchers = nil }, codes.InvalidArgument},
		{"too many matchers", g, func(r *storepb.SeriesRequest) { r.Matchers = slices.Repeat(r.Matchers, maxMatchers+1) }, codes.InvalidArgument},
		{"a bad shard", g, func(r *storepb.SeriesRequest) { r.ShardInfo = &storepb.ShardInfo{ShardIndex: 2, TotalShards: 2} }, codes.InvalidArgument},
		{"a bad query shard", g, func(r *storepb.SeriesRequest) {
			r.Matchers = append(r.Matchers, teststore.Equal(tsblock.ShardLabel, "5_of_2"))
		}, codes.InvalidArgument},
		{"a negative limit", g, func(r *storepb.SeriesRequest) { r.Limit = -1 }, codes.InvalidArgument},
		{"hints of another kind", g, func(r *storepb.SeriesRequest) {
			r.Hints = anyOf(&storepb.LabelNamesRequestHints{}, namesRequestHints)
		}, codes.InvalidArgument},
		{"hints that are none", g, func(r *storepb.SeriesRequest) {
			r.Hints = anyOf(&storepb.SeriesRequestHints{}, seriesRequestHints)
			r.Hints.Value = []byte{0xff}
		}, codes.InvalidArgument},
		{"more bytes than a query may hold", small, func(*storepb.SeriesRequest) {}, codes.ResourceExhausted},
		{"more series than a query may read", few, func(*storepb.SeriesRequest) {}, codes.ResourceExhausted},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := storepb.NewStoreClient(teststore.Dial(t, New(c.g, Options{}).NewServer()))
			r := teststore.Everything()
			c.change(r)
			_, _, err := teststore.Receive(client.Series(t.Context(), r))
			if status.Code(err) != c.code {
				t.Errorf("got %v, want %v", err, c.code)
			}
		})
	}
	for _, g := range []*storegateway.Gateway{g, small, few} {
		teststore.WaitForIdle(t, g)
	}
}

// TestTenants takes the tenant of a Mimir bucket from the request, and rejects a request without one.
func TestTenants(t *testing.T) {
	dir := t.TempDir()
	for n, tenant := range []string{"ann", "bob"} {
		if _, err := (testblock.Shape{Count: n + 1, Samples: 5}).Write(dir+"/"+tenant, testblock.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	g := teststore.Open(t, dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutMimir })
	client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer()))
	for _, c := range []struct {
		key, tenant string
		series      int
	}{{"X-Scope-OrgID", "ann", 1}, {"X-Scope-OrgID", "bob", 2}, {"thanos-tenant", "bob", 2}, {"X-Scope-OrgID", "eve", 0}} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), c.key, c.tenant)
		responses, _, err := teststore.Receive(client.Series(ctx, teststore.Everything()))
		if err != nil || len(responses) != c.series {
			t.Errorf("%s: %s: got %d series, %v; want %d", c.key, c.tenant, len(responses), err, c.series)
		}
	}
	if _, _, err := teststore.Receive(client.Series(t.Context(), teststore.Everything())); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a tenant: %v", err)
	}
}

// TestLabels requests names and values, including those of external labels.
func TestLabels(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu", "replica": "a"})
	client := storepb.NewStoreClient(teststore.Dial(t, New(teststore.Open(t, dir, nil), Options{}).NewServer()))
	names, err := client.LabelNames(t.Context(), &storepb.LabelNamesRequest{Start: math.MinInt64, End: math.MaxInt64, WithoutReplicaLabels: []string{"replica"}, Hints: anyOf(&storepb.LabelNamesRequestHints{}, namesRequestHints)})
	if err != nil || !slices.Contains(names.GetNames(), "cluster") || slices.Contains(names.GetNames(), "replica") || !slices.IsSorted(names.GetNames()) {
		t.Errorf("names: %v, %v", names, err)
	}
	var hints storepb.LabelNamesResponseHints
	if err := hints.UnmarshalVT(names.GetHints().GetValue()); err != nil || names.GetHints().GetTypeUrl() != "type.googleapis.com/hintspb.LabelNamesResponseHints" {
		t.Errorf("hints: %v, %v", names.GetHints(), err)
	}
	for _, c := range []struct {
		request *storepb.LabelValuesRequest
		want    []string
	}{
		{&storepb.LabelValuesRequest{Label: "cluster"}, []string{"eu"}},
		{&storepb.LabelValuesRequest{Label: "cluster", Matchers: []*storepb.LabelMatcher{teststore.Equal("job", "no such job")}}, nil},
		{&storepb.LabelValuesRequest{Label: "nothing"}, nil},
	} {
		c.request.Start, c.request.End = math.MinInt64, math.MaxInt64
		values, err := client.LabelValues(t.Context(), c.request)
		if err != nil || !slices.Equal(values.GetValues(), c.want) {
			t.Errorf("%v: got %v, %v; want %v", c.request, values.GetValues(), err, c.want)
		}
	}
	jobs, err := client.LabelValues(t.Context(), &storepb.LabelValuesRequest{Label: "job", Start: math.MinInt64, End: math.MaxInt64})
	if err != nil || len(jobs.GetValues()) < 2 {
		t.Fatalf("jobs: %v, %v", jobs, err)
	}
	one, err := client.LabelValues(t.Context(), &storepb.LabelValuesRequest{Label: "job", Start: math.MinInt64, End: math.MaxInt64, Limit: 1})
	if err != nil || !slices.Equal(one.GetValues(), jobs.GetValues()[:1]) {
		t.Errorf("with a limit of 1: %v, %v", one, err)
	}
	if _, err := client.LabelValues(t.Context(), &storepb.LabelValuesRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("values of no label: %v", err)
	}
}

// TestInfo requests the external labels and times of all blocks.
func TestInfo(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu", "replica": "a"})
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "us", "replica": "a"})
	g := teststore.Open(t, dir, nil)
	info, err := storepb.NewInfoClient(teststore.Dial(t, New(g, Options{}).NewServer())).Info(t.Context(), &storepb.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.ComponentType != "store" || len(info.LabelSets) != 2 || len(info.Store.TsdbInfos) != 4 || // there is a gap before the last block of each tenant

		!info.Store.SupportsSharding || !info.Store.SupportsWithoutReplicaLabels {
		t.Errorf("got %v", info)
	}
	blocks := g.Blocks()
	mint, maxt := blocks[0].MinTime, blocks[0].MaxTime
	for _, b := range blocks {
		mint, maxt = min(mint, b.MinTime), max(maxt, b.MaxTime)
	}
	if info.Store.MinTime != mint || info.Store.MaxTime != maxt {
		t.Errorf("times are %d to %d, the blocks' %d to %d", info.Store.MinTime, info.Store.MaxTime, mint, maxt)
	}
	empty := teststore.Open(t, t.TempDir(), func(o *storegateway.Options) { o.Layout = blocksync.LayoutThanos })
	info, err = New(empty, Options{}).Info(context.Background(), nil)
	if err != nil || info.Store.MinTime != math.MaxInt64 || info.Store.MaxTime != math.MinInt64 {
		t.Errorf("of an empty bucket: %v, %v", info, err)
	}
}

// TestInfoBeforeSync requests the times of a store that does not know its blocks yet. An empty range instead of an error
// would make queriers omit the store without a warning.
func TestInfoBeforeSync(t *testing.T) {
	g := teststore.New(t, teststore.Options(t, objstore.NewInMemBucket()))
	a := New(g, Options{})
	if info, err := a.Info(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, %v, want Unavailable", info, err)
	}
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Info(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
