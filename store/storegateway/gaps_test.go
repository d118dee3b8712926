package storegateway_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// gapBlocks writes three consecutive blocks of 2,000 s each and returns their ids.
func gapBlocks(t *testing.T, dir string, external map[string]string) (ids []string) {
	t.Helper()
	o := testblock.RandomOptions{Series: 30, Samples: 400, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(rand.New(rand.NewPCG(3, 7)), o)
	for n := range int64(3) {
		from := o.Start + n*2_000_000
		id, err := testblock.Write(dir, testblock.Between(series, from, from+2_000_000), testblock.Options{ChunkRange: o.ChunkRange(), External: external})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id.String())
	}
	return ids
}

// TestMissingBlocks makes the middle block unservable, in each way: every protocol names it where its times
// overlap the request, and with PartialDeny the request fails.
func TestMissingBlocks(t *testing.T) {
	for way, c := range map[string]struct {
		reason     blocksync.SkipReason
		timeless   bool // the block's times are unknown
		undeniable bool
		damage     func(t *testing.T, block string)
	}{
		"corrupt meta": {blocksync.SkipCorruptMeta, true, false, func(t *testing.T, block string) {
			write(t, filepath.Join(block, metaName), "{")
		}},
		"no meta": {blocksync.SkipNoMeta, true, true, func(t *testing.T, block string) { remove(t, filepath.Join(block, metaName)) }},
		"no index": {blocksync.SkipIncomplete, false, false, func(t *testing.T, block string) {
			remove(t, filepath.Join(block, indexName))
		}},
		"no chunks": {blocksync.SkipIncomplete, false, false, func(t *testing.T, block string) {
			remove(t, filepath.Join(block, "chunks/000001"))
		}},
		"damaged tombstones": {blocksync.SkipTombstones, false, false, func(t *testing.T, block string) {
			write(t, filepath.Join(block, tombstonesName), "tombstones")
		}},
	} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			ids := gapBlocks(t, dir, nil)
			c.damage(t, filepath.Join(dir, ids[1]))
			for _, partial := range []storegateway.Partial{storegateway.PartialWarn, storegateway.PartialDeny} {
				g := teststore.Open(t, dir, func(o *storegateway.Options) { o.Layout, o.Partial = blocksync.LayoutPrometheus, partial })
				checkMissing(t, g, ids[1], c.reason, c.timeless, partial == storegateway.PartialDeny && !c.undeniable)
			}
		})
	}
}

func checkMissing(t *testing.T, g *storegateway.Gateway, id string, reason blocksync.SkipReason, timeless, denied bool) {
	t.Helper()
	base := newHTTPServer(t, g, nil)
	const before, within = 1_700_001_000, 1_700_003_000
	for path, known := range map[string]bool{
		fmt.Sprintf("/api/v1/query?time=%d&query=%s", within, url.QueryEscape(`count({__name__!=""})`)):                             true,
		fmt.Sprintf("/api/v1/query?time=%d&query=%s", before, url.QueryEscape(`count({__name__!=""})`)):                             timeless,
		fmt.Sprintf("/api/v1/query_range?start=%d&end=%d&step=60&query=%s", before, within, url.QueryEscape(`sum({__name__!=""})`)): true,
		fmt.Sprintf("/api/v1/series?start=%d&end=%d&match[]=%s", within, within+1, url.QueryEscape(`{__name__!=""}`)):               true,
		fmt.Sprintf("/api/v1/labels?start=%d&end=%d", within, within+1):                                                             true,
		fmt.Sprintf("/api/v1/labels?start=%d&end=%d", before, before+1):                                                             timeless,
		fmt.Sprintf("/api/v1/label/job/values?start=%d&end=%d", before, within):                                                     true,
		fmt.Sprintf("/api/v1/query?time=%d&query=%s", within, url.QueryEscape(`vector(1)`)):                                         false,
	} {
		code, respond := getJSON(t, base+path, "")
		text := fmt.Sprint(respond["warnings"])
		if known && denied {
			text = fmt.Sprint(respond["error"])
		}
		if want := known && denied; want != (code == http.StatusServiceUnavailable) || !want && code != http.StatusOK {
			t.Errorf("%s: status %d, %v", path, code, respond)
		}
		if named := strings.Contains(text, id) && strings.Contains(text, string(reason)) && strings.Contains(text, "2023-11-1") != timeless; named != known {
			t.Errorf("%s: %v", path, text)
		}
	}
	checkMissingCalls(t, g, id, within*1000, denied)
	for _, form := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS} {
		code, text := readWarnings(t, base, form, within*1000)
		want := http.StatusOK
		if denied {
			want = http.StatusServiceUnavailable
		}
		if code != want || !strings.Contains(text, id) {
			t.Errorf("remote read of %v: %d %s, want %d and the block", form, code, text, want)
		}
	}
}

// checkMissingCalls requests series with and without chunks, names and values at a time of a missing block over gRPC.
func checkMissingCalls(t *testing.T, g *storegateway.Gateway, id string, at int64, denied bool) {
	t.Helper()
	client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	series := func(skip bool) ([]string, error) {
		stream, err := client.Series(t.Context(), &storepb.SeriesRequest{
			MinTime: at, MaxTime: at + 1, Matchers: []*storepb.LabelMatcher{teststore.Regexp("job", ".+")}, SkipChunks: skip,
		})
		if err != nil {
			return nil, err
		}
		first, err := stream.Recv()
		return []string{first.GetWarning()}, err
	}
	for call, do := range map[string]func() ([]string, error){
		"Series":                func() ([]string, error) { return series(false) },
		"Series without chunks": func() ([]string, error) { return series(true) },
		"LabelNames": func() ([]string, error) {
			r, err := client.LabelNames(t.Context(), &storepb.LabelNamesRequest{Start: at, End: at + 1})
			return r.GetWarnings(), err
		},
		"LabelValues": func() ([]string, error) {
			r, err := client.LabelValues(t.Context(), &storepb.LabelValuesRequest{Label: "job", Start: at, End: at + 1})
			return r.GetWarnings(), err
		},
	} {
		warnings, err := do()
		if denied {
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), id) {
				t.Errorf("%s: %v, want Unavailable with the block", call, err)
			}
		} else if err != nil || !strings.Contains(fmt.Sprint(warnings), id) {
			t.Errorf("%s: warnings %v, %v", call, warnings, err)
		}
	}
}

// readWarnings reads remotely at a time and returns the status, and the warnings or the error.
func readWarnings(t *testing.T, base string, form prompb.ReadRequest_ResponseType, at int64) (code int, text string) {
	t.Helper()
	b, err := (&prompb.ReadRequest{
		Queries: []*prompb.Query{{
			StartTimestampMs: at, EndTimestampMs: at + 1, Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "job", Value: ".+"}},
		}},
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{form},
	}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post(base+"/api/v1/read", "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, b)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, string(body)
	}
	const header = "X-Query-Warnings"
	return response.StatusCode, response.Header.Get(header) + response.Trailer.Get(header)
}

// TestMissingShards runs three processes that serve their own blocks and name the others' to clients that
// query one process only. A querier of the StoreAPI queries all of them.
func TestMissingShards(t *testing.T) {
	dir := t.TempDir()
	ids := gapBlocks(t, dir, map[string]string{"cluster": "eu"})
	for i := range 3 {
		g := teststore.Open(t, dir, func(o *storegateway.Options) {
			o.Layout, o.Shard = blocksync.LayoutThanos, blocksync.Shard{Index: i + 1, Count: 3}
		})
		if i == 0 { // the times of the other blocks are cached
			if err := g.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		served := g.Blocks()
		base := newHTTPServer(t, g, nil)
		_, respond := getJSON(t, base+"/api/v1/query_range?start=1700000000&end=1700006000&step=60&query="+url.QueryEscape(`sum({__name__!=""})`), "")
		text := fmt.Sprint(respond["warnings"])
		for _, id := range ids {
			ours := slices.ContainsFunc(served, func(b blocksync.BlockInfo) bool { return b.ID == id })
			if strings.Contains(text, id+" (2023-11-1") == ours {
				t.Errorf("shard %d: block %s is ours: %t; %s", i+1, id, ours, text)
			}
		}
		if _, respond = getJSON(t, base+"/api/v1/query?time=1700003000&query="+url.QueryEscape(`count({cluster="us"})`), ""); respond["warnings"] != nil {
			t.Errorf("blocks with other external labels: %v", respond)
		}
		client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
		names, err := client.LabelNames(t.Context(), &storepb.LabelNamesRequest{Start: 1700000000000, End: 1700006000000})
		if err != nil || len(names.Warnings) > 0 {
			t.Errorf("StoreAPI: %v, %v", names, err)
		}
	}
}

// TestMissingDownsampled adds a downsampled copy of blocks, and then removes the originals.
func TestMissingDownsampled(t *testing.T) {
	dir := t.TempDir()
	ids := gapBlocks(t, dir, map[string]string{"cluster": "eu"})
	id := gapBlocks(t, dir, map[string]string{"cluster": "eu"})[1]
	if err := testblock.EditMeta(filepath.Join(dir, id), func(m map[string]any) {
		m["thanos"].(map[string]any)["downsample"] = map[string]any{"resolution": 300_000}
	}); err != nil {
		t.Fatal(err)
	}
	g := teststore.Open(t, dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutThanos })
	if len(g.Skipped()) != 0 {
		t.Fatalf("%v", g.Skipped())
	}
	query := "/api/v1/query?time=1700003000&query=" + url.QueryEscape(`count({__name__!=""})`)
	if _, respond := getJSON(t, newHTTPServer(t, g, nil)+query, ""); respond["warnings"] != nil {
		t.Errorf("beside the raw samples: %v", respond)
	}
	blocks, err := filepath.Glob(filepath.Join(dir, "*", metaName))
	if err != nil || len(blocks) != 6 {
		t.Fatal(blocks, err)
	}
	for _, b := range blocks { // delete all other blocks of the time range
		if name := filepath.Base(filepath.Dir(b)); name != id && name != ids[0] && name != ids[2] {
			if err := os.RemoveAll(filepath.Dir(b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g = teststore.Open(t, dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutThanos })
	if _, respond := getJSON(t, newHTTPServer(t, g, nil)+query, ""); !strings.Contains(fmt.Sprint(respond["warnings"]), id) {
		t.Errorf("alone: %v", respond)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}
