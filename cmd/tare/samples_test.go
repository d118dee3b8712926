package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

// TestTooManySamples runs a range query of 220,000 samples: the error names the limit that acts, its option and
// the size of the query. Half of the least --query-bytes has room for 131,072 samples, whatever --max-samples is.
func TestTooManySamples(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "blocks"), 0o700))
	_, err := testblock.Shape{Count: 20, Samples: 10}.Write(filepath.Join(dir, "blocks"), testblock.Options{External: map[string]string{"cluster": "eu"}})
	must(t, err)
	for _, c := range []struct {
		args []string
		want []string // "": the query is served
	}{
		{nil, nil},
		{[]string{"--query-bytes", "4MiB"}, []string{"more than 131072 samples in its 11000 steps; its selectors match 20 series, 220000 samples with one per step", "half of --query-bytes, 4194304 bytes", "or raise --query-bytes"}},
		{[]string{"--query-bytes", "4MiB", "--max-samples", "2000000000"}, []string{"more than 131072 samples", "or raise --query-bytes"}},
		{[]string{"--query-bytes", "4MiB", "--max-samples", "0"}, []string{"more than 131072 samples", "or raise --query-bytes"}},
		{[]string{"--max-samples", "100000"}, []string{"more than 100000 samples in its 11000 steps; its selectors match 20 series, 220000 samples with one per step", "limit of --max-samples", "or raise --max-samples"}},
		{[]string{"--max-samples", "300000"}, nil},
	} {
		s := startCommand(t, "store listens", append([]string{"store", "--bucket", "file://" + filepath.Join(dir, "blocks"), "--grpc", "off", "--data-dir", t.TempDir()}, c.args...)...)
		testwait.Until(t, "the first sync", func() bool {
			resp, _ := do(t, getRequest(t, s.http+"/-/ready"), "")
			return resp.StatusCode == http.StatusOK
		})
		resp, body := do(t, getRequest(t, s.http+"/api/v1/query_range?query=%7Bcluster%3D%22eu%22%7D&start=0&end=10.999&step=0.001"), "")
		if c.want == nil {
			if n := strings.Count(body, `"cluster":"eu"`); resp.StatusCode != http.StatusOK || n != 20 {
				t.Errorf("%v: %s, %d series: %.300s", c.args, resp.Status, n, body)
			}
			continue
		}
		for _, want := range c.want {
			if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
				t.Errorf("%v: %s %.500s, want %q", c.args, resp.Status, body, want)
			}
		}
	}
}
