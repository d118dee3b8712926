package storegateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
)

// A deletingBucket deletes one of its old blocks between any two listings, just before an object of it is
// read. Reads of the other old blocks wait for the next listing, so that no part of them is cached when they
// are deleted.
type deletingBucket struct {
	objstore.Bucket

	mu      sync.Mutex
	old     map[string][]string // names of objects by block
	listed  chan struct{}       // closed by the first listing after the last deletion
	deleted int
}

// delete deletes the block of an object before it is read, if a deletion is due.
func (b *deletingBucket) delete(ctx context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, file, _ := strings.Cut(name, "/")
	for b.old[id] != nil && file != metaName && !isClosed(b.listed) && ctx.Err() == nil {
		listed := b.listed
		b.mu.Unlock()
		select {
		case <-listed:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
	if b.old[id] == nil || file == metaName || ctx.Err() != nil {
		return ctx.Err()
	}
	for _, name := range b.old[id] {
		if err := b.Bucket.Delete(ctx, name); err != nil {
			return err
		}
	}
	delete(b.old, id)
	b.listed = make(chan struct{})
	b.deleted++
	return nil
}

func (b *deletingBucket) Iter(ctx context.Context, dir string, f func(string) error, options ...objstore.IterOption) error {
	err := b.Bucket.Iter(ctx, dir, f, options...)
	if dir == "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !isClosed(b.listed) {
			close(b.listed)
		}
	}
	return err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (b *deletingBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := b.delete(ctx, name); err != nil {
		return nil, err
	}
	return b.Bucket.Get(ctx, name)
}

func (b *deletingBucket) GetRange(ctx context.Context, name string, off, length int64) (io.ReadCloser, error) {
	if err := b.delete(ctx, name); err != nil {
		return nil, err
	}
	return b.Bucket.GetRange(ctx, name, off, length)
}

// uploadBlocks copies blocks into the bucket.
func uploadBlocks(t *testing.T, b objstore.Bucket, blocks map[string]map[string][]byte) {
	t.Helper()
	for id, files := range blocks {
		for name, text := range files {
			if err := b.Upload(t.Context(), id+"/"+name, bytes.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDeletionInEveryAttempt lets a compactor delete the six blocks that it has replaced by one, without a
// delay, one in each attempt of a request: requests of every kind succeed with the complete result.
func TestDeletionInEveryAttempt(t *testing.T) {
	o := testblock.RandomOptions{Series: 20, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
	series := churnData(rand.New(rand.NewPCG(1, 1)), o, 60)
	end := o.Start + int64(o.Samples)*o.Step
	slot := (end - o.Start) / churnSlots
	old, compacted := t.TempDir(), t.TempDir()
	write := func(dir string, from, to int64) {
		_, err := testblock.Write(dir, testblock.Between(series, from, to), testblock.Options{External: map[string]string{"region": "eu"}, ChunkRange: o.ChunkRange()})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range int64(churnSlots) {
		write(old, o.Start+n*slot, o.Start+(n+1)*slot)
	}
	write(compacted, o.Start, end)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	over := func(path string) func(context.Context, api) testpromql.Response {
		return func(ctx context.Context, a api) testpromql.Response { return get(ctx, client, a.base+path) }
	}
	times := fmt.Sprintf("&start=%d&end=%d", o.Start/1000, end/1000)
	all := []*storepb.LabelMatcher{teststore.Regexp("__name__", "metric_.*")}
	for name, do := range map[string]func(context.Context, api) testpromql.Response{
		"query_range": over("/api/v1/query_range?step=60&query=sum(metric_1)" + times),
		"query":       over(fmt.Sprintf("/api/v1/query?query=metric_2[2h]&time=%d", end/1000)),
		"series":      over("/api/v1/series?match[]=metric_3" + times),
		"labels":      over("/api/v1/labels?match[]=metric_3" + times),
		"values":      over("/api/v1/label/pod/values?match[]=metric_3" + times),
		"read": func(ctx context.Context, a api) testpromql.Response {
			return (&testpromql.ReadRequest{ReadRequest: prompb.ReadRequest{Queries: []*prompb.Query{{
				StartTimestampMs: o.Start, EndTimestampMs: end, Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "metric_1"}},
			}}}}).Do(ctx, client, a.base)
		},
		"Series": seriesProbe{&storepb.SeriesRequest{MinTime: o.Start, MaxTime: end, Matchers: all, SkipChunks: true}}.do,
		"LabelNames": func(ctx context.Context, a api) testpromql.Response {
			r, err := a.series.LabelNames(ctx, &storepb.LabelNamesRequest{Start: o.Start, End: end, Matchers: all})
			return testpromql.Response{Code: http.StatusOK, Body: fmt.Sprint(r.GetNames(), r.GetWarnings()), Err: err}
		},
		"LabelValues": func(ctx context.Context, a api) testpromql.Response {
			r, err := a.series.LabelValues(ctx, &storepb.LabelValuesRequest{Label: "pod", Start: o.Start, End: end, Matchers: all})
			return testpromql.Response{Code: http.StatusOK, Body: fmt.Sprint(r.GetValues(), r.GetWarnings()), Err: err}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &deletingBucket{Bucket: objstore.NewInMemBucket(), old: make(map[string][]string), listed: make(chan struct{})}
			before := readBlocks(t, old)
			uploadBlocks(t, b, before)
			options := teststore.Options(t, b)
			options.Layout = blocksync.LayoutThanos
			g := teststore.New(t, options)
			if err := g.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			uploadBlocks(t, b, readBlocks(t, compacted))
			for id, files := range before {
				for file := range files {
					b.old[id] = append(b.old[id], id+"/"+file)
				}
			}
			reporter := report.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
			want := do(t.Context(), newAPI(t, teststore.Open(t, compacted, func(o *storegateway.Options) { o.Layout = blocksync.LayoutThanos }), reporter, time.Minute))
			got := do(t.Context(), newAPI(t, g, reporter, time.Minute))
			if got != want || want.Code != http.StatusOK {
				t.Errorf("got %v, want %v", got, want)
			}
			if b.deleted != churnSlots {
				t.Errorf("%d blocks were deleted under the request, want %d", b.deleted, churnSlots)
			}
		})
	}
}

// get sends a request of Prometheus' API.
func get(ctx context.Context, client *http.Client, target string) testpromql.Response {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return testpromql.Response{Err: err}
	}
	response, err := client.Do(r)
	if err != nil {
		return testpromql.Response{Err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return testpromql.Response{Err: err}
	}
	return testpromql.Response{Code: response.StatusCode, Body: string(text)}
}
