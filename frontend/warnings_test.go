package frontend_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/taredb/tare/frontend"
)

// TestWarningHeaders has one shard of three report in a header that its response is incomplete: the client receives
// it with the shard's name, also through a second frontend.
func TestWarningHeaders(t *testing.T) {
	for _, name := range []string{"X-Query-Warnings", "Warning"} {
		shard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(r.FormValue("selector"), "2_of_3") {
				w.Header().Add(name, "199 - \"one block is missing\"")
				w.Header().Add(name, strings.Repeat("long ", 1000))
			}
			fmt.Fprint(w, `{"data":[{"a":"b"}]}`)
		}))
		defer shard.Close()
		u, err := url.Parse(shard.URL)
		if err != nil {
			t.Fatal(err)
		}
		for depth := range 2 {
			f, err := frontend.New(frontend.Options{Downstreams: []*url.URL{u}, Shards: 3, MaxShards: 128, MergeBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(f)
			defer server.Close()
			r, err := http.Get(server.URL + "/api/v1/cardinality/active_series?selector=" + url.QueryEscape(`{a="b"}`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			got := strings.Join(r.Header.Values("X-Query-Warnings"), "\n")
			if err != nil || r.StatusCode != http.StatusOK || !strings.HasPrefix(got, "shard 2_of_3: ") || !strings.Contains(got, `: 199 - "one block is missing"`) || strings.Contains(got, "1_of_3: ") || len(got) > 4000 {
				t.Errorf("%s, depth %d: %d %s: %q, %v", name, depth, r.StatusCode, body, got, err)
			}
			if u, err = url.Parse(server.URL); err != nil {
				t.Fatal(err)
			}
		}
	}
}
