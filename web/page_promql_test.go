package web

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestPromQLPage draws any response of the endpoint of range queries.
func TestPromQLPage(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	const whole = `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"__name__":"low"},"values":[[1769857200,"1"],[1769860800,"2"]]},
		{"metric":{"__name__":"high","x":"<script>"},"values":[[1769857200,"30"],[1769860800,"NaN"]]},
		{"metric":{"h":"1"},"histograms":[[1769857200,{"count":"1","sum":"1","buckets":[]}]]}]},
		"warnings":["a block is <missing>"],"infos":["PromQL info: x"],
		"explain":{"wait_seconds":0.5,"allowed_bytes":2048,"peak_bytes":1024,"series":7,"chunks":8,"blocks":[
			{"id":"01A","min_time":0,"max_time":1000,"postings":5,"read":{"chunks":{"fetched_bytes":100,"cached_bytes":7,"reads":2}}},
			{"id":"01B","min_time":0,"max_time":1000,"postings":6,"read":{"chunks":{"fetched_bytes":300,"reads":1},"series":{"fetched_bytes":724}}}]}}`
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

// promqlServer returns a server with range queries whose responses are those of respond.
func promqlServer(t *testing.T, o Options, respond func(q url.Values) string) http.Handler {
	t.Helper()
	o.Routes = append(o.Routes, NewRoute(access.For(access.Viewer), rangePattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, respond(r.URL.Query()))
	})))
	return New(o).Handler()
}

// TestPromQLPageHasAllSeries follows the links of the table: each series is on one page of it.
func TestPromQLPageHasAllSeries(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, n := range []int{1, drawnSeries, graphRows, graphRows + 1, 7*graphRows + 3} {
		o := testOptions()
		o.Now = func() time.Time { return now }
		h := promqlServer(t, o, func(url.Values) string {
			var b strings.Builder
			b.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
			for i := range n {
				if i > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `{"metric":{"i":"s%d","job":"x"},"values":[[1769857200,"%d"],[1769860800,"1"]]}`, i, i%17)
			}
			return b.String() + "]}}"
		})
		row := regexp.MustCompile(`<tr><td><code>\{i=&#34;s(\d+)&#34;, job=&#34;x&#34;\}</code>`)
		next := regexp.MustCompile(`<a href="([^"]+)" rel="next">Next`)
		seen := make(map[string]bool)
		path, pages := "/promql?query=up&legend=", 0
		for path != "" {
			code, body := browse(t, h, path, "")
			found := row.FindAllStringSubmatch(body, -1)
			if code != 200 || len(found) == 0 || len(found) > graphRows || strings.Count(body, `<path class="line`) > drawnSeries {
				t.Fatalf("%s: %d, %d rows", path, code, len(found))
			}
			for _, m := range found {
				if seen[m[1]] {
					t.Errorf("series %s is listed twice", m[1])
				}
				seen[m[1]] = true
			}
			if says := fmt.Sprintf("%s of %s</h2>", count(uint64(len(seen))), count(uint64(n))); n > graphRows && !strings.Contains(body, says) {
				t.Errorf("%s does not say %q", path, says)
			}
			path = ""
			if m := next.FindStringSubmatch(body); m != nil {
				path = html.UnescapeString(m[1])
			}
			pages++
		}
		if len(seen) != n || pages != (n+graphRows-1)/graphRows {
			t.Errorf("%d of %d series on %d pages", len(seen), n, pages)
		}
		if code, _ := browse(t, h, "/promql?query=up&page=9999", ""); code != 200 {
			t.Errorf("a page beyond the last: %d", code)
		}
		if code, _ := browse(t, h, "/promql?query=up&page=-1", ""); code != 400 {
			t.Errorf("a page that is none: %d", code)
		}
	}
}

// TestLegends names series by the labels that differ, by their statement instead of its digest, or by a chosen label.
func TestLegends(t *testing.T) {
	digest := model.LabelValue(someDigest)
	other := model.LabelValue("ff" + someDigest[2:])
	for _, c := range []struct {
		label string
		all   []model.Metric
		want  string
	}{
		{"", []model.Metric{{"job": "a", "x": "1"}, {"job": "a", "x": "2"}}, "1 | 2"},
		{"job", []model.Metric{{"job": "a", "x": "1"}, {"job": "a", "x": "2"}}, "a | a"},
		{"", []model.Metric{{"job": "a", "x": "1"}, {"job": "b", "x": "2"}, {"job": "b"}}, `job="a", x="1" | job="b", x="2" | job="b", x=""`},
		{"", []model.Metric{{"__name__": "up", "job": "a"}}, `up{job="a"}`},
		{"", []model.Metric{{"__name__": "up", "job": "a"}, {"__name__": "down", "job": "a"}}, "up | down"},
		{"", []model.Metric{{"digest": digest}, {"digest": other}}, "SELECT 1 | " + string(other)},
		{"", []model.Metric{{"digest": digest, "user": "a"}, {"digest": digest, "user": "b"}}, "a | b"},
		{"", []model.Metric{{"digest": digest, "user": "a"}, {"digest": other, "user": "b"}}, `SELECT 1, user="a" | ` + string(other) + `, user="b"`},
		{"digest", []model.Metric{{"digest": digest}, {"job": "x"}}, "SELECT 1 | –"},
		{"", []model.Metric{{}}, "{}"},
	} {
		var all model.Matrix
		for _, m := range c.all {
			all = append(all, &model.SampleStream{Metric: m})
		}
		d, err := sqldigest.Parse(someDigest)
		if err != nil {
			t.Fatal(err)
		}
		l := newLegend(all, c.label, func() map[sqldigest.Digest]string { return map[sqldigest.Digest]string{d: "SELECT 1"} })
		var got []string
		for _, m := range c.all {
			got = append(got, l.name(m))
		}
		if strings.Join(got, " | ") != c.want {
			t.Errorf("%v by %q: %s, want %s", c.all, c.label, strings.Join(got, " | "), c.want)
		}
	}
}

// TestChartsFitTheirData has data in the last 36 seconds of an hour: charts show that part, in steps as fine as the samples, and say so.
func TestChartsFitTheirData(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	began := now.Add(-36 * time.Second)
	o := testOptions()
	o.Now = func() time.Time { return now }
	o.Statements = youngStatements{risingStatements{&fakeStatements{}}, began}
	var asked []string
	h := promqlServer(t, o, func(q url.Values) string {
		asked = append(asked, q.Get("start")+" "+q.Get("step"))
		return fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[%d,"1"],[%d,"2"]]}]}}`, began.Unix(), now.Unix())
	})
	_, body := browse(t, h, "/promql?query=up", "")
	if want := fmt.Sprintf("[%d.000 30 %d.000 1]", now.Add(-time.Hour).Unix(), now.Add(-66*time.Second).Unix()); fmt.Sprint(asked) != want {
		t.Errorf("asked %v, want %s", asked, want)
	}
	if !strings.Contains(body, "a value each 1 s, over the part of the range that has data: 2026-01-31 11:58:54 – 12:00:00 UTC") || !strings.Contains(body, fmt.Sprintf(`data-from="%d"`, now.Add(-66*time.Second).Unix())) {
		t.Errorf("the page is %s", body)
	}
	asked, o.Attention.Interval = nil, 15*time.Second // of the history
	coarse := promqlServer(t, o, func(q url.Values) string {
		asked = append(asked, q.Get("step"))
		return fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[%d,"1"],[%d,"2"]]}]}}`, began.Unix(), now.Unix())
	})
	if browse(t, coarse, "/promql?query=up", ""); fmt.Sprint(asked) != "[30 15]" {
		t.Errorf("steps of %v between samples of 15 s", asked)
	}
	asked, o.Earliest = nil, func() (time.Time, bool) { return began, true }
	known := promqlServer(t, o, func(q url.Values) string {
		asked = append(asked, q.Get("start"))
		return fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[%d,"1"],[%d,"2"]]}]}}`, began.Unix(), now.Unix())
	})
	_, body = browse(t, known, "/promql?query=sum(rate(up[5m]))", "")
	if from := now.Add(-time.Minute).Unix(); fmt.Sprint(asked) != fmt.Sprintf("[%d.000]", from) || !strings.Contains(body, "over the part of the range that has data: 2026-01-31 11:59:00 – 12:00:00 UTC") || !strings.Contains(body, fmt.Sprintf(`data-from="%d"`, from)) {
		t.Errorf("asked from %v with a known start of the samples; the page is %s", asked, body)
	}
	asked = nil
	if browse(t, known, "/promql?query=absent(up)", ""); len(asked) != 2 || asked[0] != fmt.Sprintf("%d.000", now.Add(-time.Hour).Unix()) {
		t.Errorf("asked from %v for a result without samples", asked)
	}
	asked = nil
	for _, path := range []string{"/", "/query/" + someDigest} {
		_, body := browse(t, h, path, "")
		from := regexp.MustCompile(`data-from="(\d+)"`).FindAllStringSubmatch(body, -1)
		if len(from) < 3 {
			t.Fatalf("%s has %d charts", path, len(from))
		}
		for _, m := range from {
			if m[1] != strconv.FormatInt(now.Add(-time.Minute).Unix(), 10) {
				t.Errorf("%s: a chart starts at %s, want a minute before now", path, m[1])
			}
		}
	}
	for _, c := range []struct {
		from, to time.Duration // before now
		want     string
	}{
		{time.Hour, 0, "whole"},
		{31 * time.Minute, 0, "whole"},
		{30 * time.Minute, 0, "whole"},
		{29 * time.Minute, 0, "29m0s 0s"},
		{2 * time.Hour, -time.Hour, "whole"},
		{50 * time.Minute, 40 * time.Minute, "50m0s 40m0s"},
		{time.Second, 0, "1m0s 0s"},
		{time.Hour, time.Hour - time.Second, "1h0m0s 59m59s"},
		{0, 0, "whole"},
		{2 * time.Hour, 90 * time.Minute, "whole"},
		{-time.Minute, -time.Hour, "whole"},
	} {
		s, ok := fitted(spanOf(now.Add(-time.Hour), now), now.Add(-c.from), now.Add(-c.to))
		got := "whole"
		if ok {
			got = now.Sub(s.From).String() + " " + now.Sub(s.To).String()
		}
		if got != c.want {
			t.Errorf("data from %v to %v before now: %s, want %s", c.from, c.to, got, c.want)
		}
	}
}

// TestNeedsSamples names the expressions that have a result before all samples.
func TestNeedsSamples(t *testing.T) {
	for query, want := range map[string]bool{
		"a": true, "(-a)": true, "sum by (x) (rate(a[5m]))": true, "a offset 5m": true, "histogram_quantile(0.9, a)": true, "a + 1": true, "1 - a": true,
		"max_over_time(rate(a[5m])[1h:1m])": true, "a or b": true, "a unless vector(1)": true, "a and on() vector(1)": true, "time() - a": true,
		"1": false, "time()": false, "vector(1)": false, "absent(a)": false, "absent_over_time(a[5m])": false, "scalar(a)": false, "a or vector(0)": false,
		"vector(1) unless a": false, "a offset -5m": false, "a @ 5": false, "a @ end()": false, "sum(a) or on() vector(0)": false, "hour()": false,
		"rate(a[5m] offset -1h)": false, "sum_over_time(a[1h:1m] offset -1h)": false, "vector(scalar(a))": false, "count_over_time(vector(1)[5m:1m])": false,
	} {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := needsSamples(expr); got != want {
			t.Errorf("%s: %t", query, got)
		}
	}
}

// youngStatements has a history that starts at a time.
type youngStatements struct {
	Statements
	began time.Time
}

func (y youngStatements) Top(ctx context.Context, q statements.TopQuery) (*statements.Top, error) {
	top, err := y.Statements.Top(ctx, q)
	if err == nil && y.began.After(top.From) {
		top.From = y.began
	}
	return top, err
}

func (y youngStatements) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st, err := y.Statements.Statement(ctx, q)
	if err == nil && y.began.After(st.From) {
		st.From = y.began
	}
	return st, err
}
