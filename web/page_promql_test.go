package web

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/access"
)

// TestPromQLPage draws any response of the endpoint of range queries.
func TestPromQLPage(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	const whole = `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"__name__":"low"},"values":[[1769857200,"1"],[1769860800,"2"]]},
		{"metric":{"__name__":"high","x":"<script>"},"values":[[1769857200,"30"],[1769860800,"NaN"]]},
		{"metric":{"h":"1"},"histograms":[[1769857200,{"count":"1","sum":"1","buckets":[]}]]}]},
		"warnings":["a block is <missing>"],"infos":["PromQL info: x"],
		"explain":{"waitSeconds":0.5,"allowedBytes":2048,"peakBytes":1024,"series":7,"chunks":8,"blocks":[
			{"id":"01A","minTime":0,"maxTime":1000,"postings":5,"read":{"chunks":{"fetchedBytes":100,"cachedBytes":7,"reads":2}}},
			{"id":"01B","minTime":0,"maxTime":1000,"postings":6,"read":{"chunks":{"fetchedBytes":300,"reads":1},"series":{"fetchedBytes":724}}}]}}`
	for _, c := range []struct {
		name    string
		respond func(w http.ResponseWriter)
		code    int
		has     []string
	}{
		{"result", func(w http.ResponseWriter) { _, _ = io.WriteString(w, whole) }, 200, []string{
			"3 series, a value each 30 s", "high{x=&#34;&lt;script&gt;&#34;}", "a block is &lt;missing&gt;", "PromQL info: x", ">histogram<",
			`<path class="line c1"`, "<dd>2</dd>", "1 KiB<small>of 2 KiB per query", "01B", "01A",
		}},
		{"nothing", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
		}, 200, []string{"No series in this range."}},
		{"mistake", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"status":"error","errorType":"bad_data","error":"parse error: unexpected <eof>"}`)
		}, 400, []string{"Parse error: unexpected &lt;eof&gt;.", "Correct the query."}},
		{"large", func(w http.ResponseWriter) {
			for range 2 * graphBytes / 1024 {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					panic(http.ErrAbortHandler)
				}
			}
		}, 400, []string{"The response has more than 8 MiB."}},
		{"broken off", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"status":`)
			panic(http.ErrAbortHandler)
		}, 503, []string{"The response broke off."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := testOptions()
			o.Now = func() time.Time { return now }
			var got url.Values
			var account access.Account
			var tenant string
			o.Routes = append(o.Routes, NewRoute(access.For(access.Viewer), rangePattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got, account, tenant = r.URL.Query(), access.Of(r.Context()), r.Header.Get(tenantHeader)
				c.respond(w)
			})))
			o.Gate = testGate(t, o.Log)
			h := New(o).Handler()
			code, body := browse(t, h, "/promql?tenant=blue&query="+url.QueryEscape(`rate(x{y="z"}[5m])`), "guest")
			if code != c.code {
				t.Errorf("%d, want %d", code, c.code)
			}
			for _, want := range c.has {
				if !strings.Contains(body, want) {
					t.Errorf("no %q in %s", want, body)
				}
			}
			want := fmt.Sprintf("map[end:[%d.000] explain:[1] query:[rate(x{y=\"z\"}[5m])] start:[%d.000] step:[30]]", now.Unix(), now.Add(-time.Hour).Unix())
			if fmt.Sprint(got) != want {
				t.Errorf("asked for %v, want %s", got, want)
			}
			if account.Name != "guest" || account.Texts || tenant != "blue" {
				t.Errorf("asked as %+v of tenant %q", account, tenant)
			}
		})
	}
}

// TestPromQLPageAsks expects examples on the page without a query, and no page without the endpoint.
func TestPromQLPageAsks(t *testing.T) {
	o := testOptions()
	if code, _ := browse(t, New(o).Handler(), "/promql", ""); code != http.StatusNotFound {
		t.Errorf("a page without the endpoint: %d", code)
	}
	o.Routes = append(o.Routes, NewRoute(access.For(access.Viewer), rangePattern, http.NotFoundHandler()))
	if _, body := browse(t, New(o).Handler(), "/promql", ""); !strings.Contains(body, "up)</code>") {
		t.Errorf("no examples in %s", body)
	}
}
