package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

// TestStoreOwnersAreTheHeap has clients query a tare store over a block of many series, by PromQL and for series: the owners' bytes
// plus the base measured at start equal the heap in use before and after that.
func TestStoreOwnersAreTheHeap(t *testing.T) {
	dir := t.TempDir()
	bucket := filepath.Join(dir, "bucket")
	must(t, os.Mkdir(bucket, 0o700))
	_, err := testblock.Shape{Count: 20_000, Samples: 10}.Write(bucket, testblock.Options{External: map[string]string{"cluster": "eu"}})
	must(t, err)
	s := startTare(t, "store", "--bucket", "file://"+bucket, "--grpc", "off", "--data-dir", filepath.Join(dir, "data"), "--max-samples", "1000000")
	s.ownersAreTheHeap(t, "idle", heapOff)
	selected := url.QueryEscape(`{foo="bar"}`)
	requests := map[string]int{ // occurrences in the response
		"/api/v1/series?start=0&end=9999999999&match[]=" + selected:                                                  20_000,
		"/api/v1/query_range?start=0&end=240&step=60&query=count(rate(" + selected + "[1m]))":                        1,
		"/api/v1/query_range?start=0&end=240&step=60&query=" + url.QueryEscape(`topk(5,sum by (foo) ({foo="bar"}))`): 1,
	}
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for range 3 {
				for path, want := range requests {
					response, err := s.fetch(path)
					if n := bytes.Count(response, []byte(`"foo"`)) + bytes.Count(response, []byte(`"metric":{}`)); err != nil || n != want {
						t.Errorf("%s: %d results, %v", path, n, err)
					}
				}
			}
		})
	}
	testwait.Group(t, "the clients", &clients)
	h := s.ownersAreTheHeap(t, "loaded", heapOff)
	if h.owners["index_cache"] < 100_000 || h.owners["slabs_idle"] < 100_000 || h.owners["index_headers"] < 1000 || h.owners["slabs_lent"] != 0 {
		t.Errorf("owners: %v", h.owners)
	}
}
