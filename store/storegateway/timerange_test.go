package storegateway_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// timesOf parses a range of Unix seconds; 0 is no bound.
func timesOf(t *testing.T, from, to int64) (r blocksync.TimeRange) {
	t.Helper()
	for _, b := range []struct {
		at int64
		to *blocksync.TimeBound
	}{{from, &r.Min}, {to, &r.Max}} {
		if b.at == 0 {
			continue
		}
		var err error
		if *b.to, err = blocksync.ParseTimeBound(time.Unix(b.at, 0).UTC().Format(time.RFC3339)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestTimeRanges splits three blocks by time over three processes, one boundary within a block, and by hash as well: together
// they return what one process does, each announces its range, and PromQL of one warns of the others.
func TestTimeRanges(t *testing.T) {
	dir := t.TempDir()
	gapBlocks(t, dir, map[string]string{"cluster": "eu"})
	const start, first, second = 1_700_000_000, 1_700_001_000, 1_700_003_500
	all := chunksOf(t, teststore.Open(t, dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutThanos }))
	for name, parts := range map[string][]blocksync.Options{
		"times": {{Times: timesOf(t, 0, first)}, {Times: timesOf(t, first, second)}, {Times: timesOf(t, second, 0)}},
		"times and shards": {
			{Times: timesOf(t, 0, second)},
			{Times: timesOf(t, second, 0), Shard: blocksync.Shard{Index: 1, Count: 2}},
			{Times: timesOf(t, second, 0), Shard: blocksync.Shard{Index: 2, Count: 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			union := make(map[string]bool)
			for _, part := range parts {
				g := teststore.Open(t, dir, func(o *storegateway.Options) {
					o.Layout, o.Times, o.Shard = blocksync.LayoutThanos, part.Times, part.Shard
				})
				for chunk := range chunksOf(t, g) {
					union[chunk] = true
				}
			}
			if len(union) != len(all) {
				t.Errorf("%d chunks in all processes, %d in one", len(union), len(all))
			}
			for chunk := range all {
				if !union[chunk] {
					t.Errorf("no process has %.100s", chunk)
				}
			}
		})
	}
	g := teststore.Open(t, dir, func(o *storegateway.Options) { o.Layout, o.Times = blocksync.LayoutThanos, timesOf(t, first, second) })
	if info := infoOf(t, g); info.MinTime != first*1000 || info.MaxTime != second*1000 {
		t.Errorf("announced times are %d to %d", info.MinTime, info.MaxTime)
	}
	if skipped := g.Skipped(); len(skipped) != 1 || skipped[0].Reason != blocksync.SkipTimeRange {
		t.Errorf("skipped: %+v", skipped)
	}
	base := newHTTPServer(t, g, nil)
	for _, test := range []struct {
		at       int64
		warnings int
	}{{start + 500, 1}, {first + 500, 0}, {second + 500, 1}} {
		_, respond := getJSON(t, fmt.Sprintf("%s/api/v1/query?query=%s&time=%d", base, url.QueryEscape(`count({__name__!=""})`), test.at), "")
		text := fmt.Sprint(respond["warnings"])
		if got := strings.Count(text, "reason time-range"); got != test.warnings {
			t.Errorf("at %d: %d warnings, want %d: %.400s", test.at, got, test.warnings, text)
		}
	}
	denied := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Layout, o.Times, o.Partial = blocksync.LayoutThanos, timesOf(t, first, second), storegateway.PartialDeny
	})
	if got := chunksOf(t, denied); len(got) == 0 {
		t.Error("a querier of all processes is denied")
	}
}

// infoOf returns what a process announces to queriers.
func infoOf(t *testing.T, g *storegateway.Gateway) *storepb.StoreInfo {
	t.Helper()
	r, err := storeapi.New(g, storeapi.Options{}).Info(t.Context(), &storepb.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Store
}

// chunksOf returns all chunks that a process sends to a querier, without warnings.
func chunksOf(t *testing.T, g *storegateway.Gateway) map[string]bool {
	t.Helper()
	client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	responses, _, err := teststore.Receive(client.Series(t.Context(), teststore.Everything()))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, r := range responses {
		if w := r.GetWarning(); w != "" {
			t.Errorf("warning: %s", w)
		}
		s := r.GetSeries()
		for _, c := range s.GetChunks() {
			found[fmt.Sprintf("%v %d %d %x", s.Labels, c.MinTime, c.MaxTime, c.Raw.Data)] = true
		}
	}
	return found
}
