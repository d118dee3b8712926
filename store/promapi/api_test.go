package promapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/taredb/tare/store/promapi"
)

// series is the storage of the transcripts.
const series = `
load 15s
  up{job="api",instance="a"}          1x40
  up{job="api",instance="b"}          1 0 _x10 1x20
  up{job="db",instance="<c>"}         0x40
  requests_total{job="api",path="/"}  0+10x40
  latency{job="api"}                  {{schema:0 count:10 sum:12.5 z_bucket:1 z_bucket_w:0.001 buckets:[2 3 1] n_buckets:[2 1]}}x10
  odd{v="1"}                          NaN +Inf -Inf -0 1e-7 1e21 123.456 9007199254740993
  {"strange name", "a.b"="c"}         7x40
`

// newAPI returns an API over series.
func newAPI(t testing.TB, change func(*promapi.Options)) *promapi.API {
	t.Helper()
	s := promqltest.LoadedStorage(t, series)
	o := promapi.Options{
		Queryable: s, ChunkQueryable: s,
		CORSOrigin: regexp.MustCompile(`^(?:https://grafana\..*)$`),
		Build:      promapi.BuildInfo{GoVersion: "go1.26"},
		Flags:      map[string]string{"query.timeout": "2m"},
		Config:     func() string { return "global: {}\n" },
		Now:        func() time.Time { return time.Unix(600, 0) },
	}
	if change != nil {
		change(&o)
	}
	api, err := promapi.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// TestTranscripts compares requests and their responses with testdata. A request is a method and a target,
// header fields as arguments, and the body of a POST as input.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		api := newAPI(t, nil)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var target string
			header := http.Header{}
			for _, a := range d.CmdArgs {
				switch {
				case target == "" && strings.HasPrefix(a.Key, "/"):
					target = a.String()
				default:
					header.Add(a.Key, strings.Join(a.Vals, ", "))
				}
			}
			r := httptest.NewRequest(strings.ToUpper(d.Cmd), "http://store"+target, strings.NewReader(strings.ReplaceAll(strings.TrimSpace(d.Input), "\n", "&")))
			if d.Input != "" {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			for name, values := range header {
				r.Header[http.CanonicalHeaderKey(name)] = values
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			return transcript(w)
		})
	})
}

// transcript formats a response: its status, the relevant header fields, and the body.
func transcript(w *httptest.ResponseRecorder) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\n", w.Code)
	var names []string
	for name := range w.Header() {
		switch name {
		case "Content-Length", "Vary":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(w.Header()[name], ", "))
	}
	if w.Body.Len() > 0 {
		fmt.Fprintf(&b, "%s\n", strings.TrimSuffix(w.Body.String(), "\n"))
	}
	return b.String()
}
