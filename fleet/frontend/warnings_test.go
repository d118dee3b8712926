package frontend_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/fleet/frontend"
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

// TestWarningMembers has one shard of three report in its body that it is incomplete: the client receives it in
// "warnings" and in the header, or the trailer of a long response, with both decoders, compressed, and also through a
// second frontend, which does not repeat it.
func TestWarningMembers(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 1000) + `"}`
	long = `[` + strings.Repeat(long+",", 200) + long + `]`
	for _, c := range []struct{ body, want string }{
		{`{"data":[{"a":"b"}],"warnings":["one \u0062lock"]}`, "one block"},
		{`{"status":"success","infos":["x"],"data":[{"a":"b"}]}`, "infos: x"},
		{`{"isPartial":true,"data":[]}`, "isPartial: true"},
		{`{"status":"partial","data":null}`, "status: partial"},
		{`{"data":` + long + `,"status":"success","warnings":["late"]}`, "late"},
		{`{"data":[{"a":"b"}],"warnings":[],"infos":null,"isPartial":false}`, ""},
	} {
		shard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(r.FormValue("selector"), "2_of_3") {
				fmt.Fprint(w, c.body)
			} else {
				fmt.Fprint(w, `{"data":[]}`)
			}
		}))
		defer shard.Close()
		for _, by := range []activeseries.Implementation{activeseries.Strict, activeseries.Stdlib} {
			u := shard.URL
			for depth, prefix := range []string{"shard 2_of_3: ", "shard 1_of_1: shard 2_of_3: "} {
				u = serveFrontend(t, u, 3-2*depth, by)
				for _, path := range []string{"active_series", "active_native_histogram_metrics"} {
					if path != "active_series" && strings.Contains(c.body, `"a"`) {
						continue // no metric
					}
					var want []string
					if c.want != "" {
						want = []string{prefix + c.want}
					}
					header, body := warningsOf(t, u+"/api/v1/cardinality/"+path)
					if !slices.Equal(header, want) || !slices.Equal(body, want) {
						t.Errorf("%s, %s, depth %d, %.100s: header %q, body %q, want %q", path, by, depth, c.body, header, body, want)
					}
				}
			}
		}
	}
}

// TestWarningTrailers has a shard report in a trailer that its response is incomplete.
func TestWarningTrailers(t *testing.T) {
	shard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Query-Warnings")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":[]}`)
		w.Header().Set("X-Query-Warnings", "one block")
	}))
	defer shard.Close()
	u := serveFrontend(t, shard.URL, 1, activeseries.Strict)
	if got, _ := warningsOf(t, u+"/api/v1/cardinality/active_series"); !slices.Equal(got, []string{"shard 1_of_1: one block"}) {
		t.Errorf("got %q", got)
	}
}

// serveFrontend serves a frontend of one downstream, and returns its address.
func serveFrontend(t *testing.T, downstream string, shards int, by activeseries.Implementation) string {
	t.Helper()
	u, err := url.Parse(downstream)
	if err != nil {
		t.Fatal(err)
	}
	o := frontend.Options{Downstreams: []*url.URL{u}, Shards: shards, MaxShards: 128, MergeBytes: 1 << 20, Encoding: frontend.Gzip}
	o.Decoding.By = by
	f, err := frontend.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

// warningsOf returns the warnings of a response, in its header or trailer and in its body.
func warningsOf(t *testing.T, address string) (header, body []string) {
	t.Helper()
	r, err := http.Get(address + "?selector=" + url.QueryEscape(`{a="b"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var got struct{ Warnings []string }
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.StatusCode, err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return append(r.Header.Values("X-Query-Warnings"), r.Trailer.Values("X-Query-Warnings")...), got.Warnings
}
