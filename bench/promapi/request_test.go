package promapi

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
)

// A generator generates requests, most of them sensible, some invalid in one part.
type generator struct{ *rand.Rand }

func (g generator) one(list ...string) string { return list[g.IntN(len(list))] }

// often returns usual with a probability of nine in ten.
func (g generator) often(usual string, rare ...string) string {
	if g.IntN(10) > 0 {
		return usual
	}
	return g.one(rare...)
}

func (g generator) metric() string {
	return g.one("http_requests_total", "http_requests_total", "temperature", "requests", "latency_bucket", "native", "native_float", "native_custom", "native_gauge", "mixed_total", "build_info", "no_such_metric", "fails", "fails_late", "warns", "canceled", "broken")
}

// named generates a selector for label names and values, without the metrics of two kinds of errors that have
// different types here: see TestDeviations.
func (g generator) named() string {
	return strings.NewReplacer("canceled", "fails", "broken", "warns").Replace(g.selector())
}

func (g generator) label() string {
	return g.one("job", "instance", "code", "le", "__name__", `"dotted.name"`, "absent")
}

func (g generator) matcher() string {
	return g.one(`job="api"`, `job!="db"`, `job=~"a.*|db"`, `job!~"we.*"`, `instance=~"[a-c]:90"`, `code="200"`, `code=~".+"`, `le="+Inf"`, `absent=""`, `job=~".*"`, `"dotted.name"="x/y"`, `job="日本"`)
}

func (g generator) selector() string {
	s := g.metric()
	n := g.IntN(3)
	ms := make([]string, n)
	for i := range ms {
		ms[i] = g.matcher()
	}
	if n > 0 {
		s += "{" + strings.Join(ms, ",") + "}"
	} else if g.IntN(30) == 0 {
		s = "{" + g.matcher() + "}"
	}
	return s
}

func (g generator) duration() string { return g.one("1m", "5m", "90s", "17s", "1h", "10m") }

func (g generator) offset() string {
	switch g.IntN(12) {
	case 0:
		return " offset " + g.duration()
	case 1:
		return " offset -" + g.duration()
	case 2:
		return " @ " + g.one("1800", "end()", "start()", "0")
	}
	return ""
}

// expr generates an expression of instant vectors or scalars.
func (g generator) expr(depth int) string {
	if depth == 0 {
		if g.IntN(8) == 0 {
			return g.one("1", "0.5", "-3", "time()", "NaN", "Inf", "1e300", "vector(1)")
		}
		return g.selector() + g.offset()
	}
	sub := func() string { return g.expr(depth - 1) }
	ranged := func() string {
		if g.IntN(6) == 0 {
			return fmt.Sprintf("(%s)[%s:%s]", sub(), g.duration(), g.one("", "30s", "1m"))
		}
		return g.selector() + "[" + g.duration() + "]" + g.offset()
	}
	switch g.IntN(14) {
	case 0, 1, 2:
		return g.one("rate", "increase", "delta", "irate", "idelta", "deriv", "changes", "resets", "avg_over_time", "sum_over_time", "min_over_time", "max_over_time", "count_over_time", "last_over_time", "stddev_over_time", "present_over_time", "absent_over_time", "mad_over_time") + "(" + ranged() + ")"
	case 3:
		return fmt.Sprintf("quantile_over_time(%s, %s)", g.one("0.5", "0.9", "2", "-1"), ranged())
	case 4, 5:
		return fmt.Sprintf("%s%s (%s)", g.one("sum", "avg", "min", "max", "count", "stddev", "stdvar", "group"), g.grouping(), sub())
	case 6:
		return fmt.Sprintf("%s%s (%s, %s)", g.one("topk", "bottomk", "quantile", "limitk", "limit_ratio"), g.grouping(), g.one("1", "3", "0.5", "0.99", "2"), sub())
	case 7:
		return fmt.Sprintf("count_values%s (\"v\", %s)", g.grouping(), sub())
	case 8, 9:
		return fmt.Sprintf("(%s) %s%s (%s)", sub(), g.one("+", "-", "*", "/", "%", "^", "==", "!=", ">", "<", ">=", "and", "or", "unless", "> bool", "atan2"), g.one("", "", " on (job, instance)", " ignoring (code)", " on (instance) group_left"), sub())
	case 10:
		return g.one("abs", "ceil", "floor", "exp", "ln", "sqrt", "sgn", "-", "+", "round", "timestamp", "sort", "sort_desc", "scalar", "histogram_count", "histogram_sum", "histogram_avg", "absent", "day_of_week", "minute") + "(" + sub() + ")"
	case 11:
		return fmt.Sprintf("histogram_quantile(%s, %s)", g.one("0.5", "0.99", "-1", "1.5"), g.one("latency_bucket", "native", "native_custom", "rate(latency_bucket[5m])", "rate(native[5m])", sub()))
	case 12:
		return fmt.Sprintf(`label_replace(%s, "job", "$1<x>", "instance", "(.*):.*")`, sub())
	}
	return fmt.Sprintf("clamp(%s, %s, %s)", sub(), g.one("0", "-1", "5"), g.one("100", "1e9", "-5"))
}

func (g generator) grouping() string {
	if g.IntN(3) == 0 {
		return ""
	}
	return " " + g.one("by", "without") + " (" + g.label() + ")"
}

// query generates an expression, sometimes an invalid one.
func (g generator) query() string {
	if g.IntN(25) == 0 {
		return g.one("", "(", "rate(up)", "up{", "sum by (", `up{a="b"`, "1 +", "up offset", "{}", `{a=""}`, "foo bar", "up[5m]", "<script>", `"a string <&>"`, `"日本`, "rate(up[5m:])[", "up and 1", "histogram_quantile(up)", "\x00", "limitk(-1, up)")
	}
	return g.expr(g.IntN(3))
}

func (g generator) time() string {
	return g.often(fmt.Sprintf("%d", g.IntN(lastTime/1000)), "1234.5678", "1970-01-01T00:30:00Z", "1970-01-01T01:30:00.123+01:00", "-5", "1e3", "", "x", "12:00", "292277025-08-18T07:12:54.999999999Z", "-292273086-05-16T16:47:06Z", "1970-13-01T00:00:00Z")
}

func (g generator) limit() string {
	return g.one("0", "1", "2", "10", "-1", "x", "1.5", "9223372036854775807")
}

// request generates the method, path and parameters of a request.
func (g generator) request() (method, path string, form url.Values) {
	form = url.Values{}
	some := func(name string, value string, in int) {
		if g.IntN(in) == 0 {
			form.Add(name, value)
		}
	}
	method = g.one(http.MethodGet, http.MethodPost)
	window := func() {
		some("start", g.time(), 3)
		some("end", g.time(), 3)
		some("limit", g.limit(), 4)
	}
	switch g.IntN(20) {
	case 0, 1, 2, 3, 4:
		path = "query"
		form.Set("query", g.query())
		form.Set("time", g.often(fmt.Sprint(g.IntN(lastTime/1000)), g.time(), fmt.Sprintf("%d.%03d", g.IntN(3600), g.IntN(1000))))
		if form.Get("time") == "" {
			form.Set("time", "100") // the current time differs between the handlers
		}
		some("limit", g.limit(), 6)
		some("stats", g.one("all", "true", "yes", "1"), 6)
		some("timeout", g.one("30s", "10", "x", "1h", "99999999999999999999"), 8)
		some("lookback_delta", g.one("1m", "30", "x", "0.5"), 8)
	case 5, 6, 7, 8, 9, 10:
		path = "query_range"
		form.Set("query", g.query())
		start := g.IntN(lastTime / 1000)
		form.Set("start", g.often(fmt.Sprint(start), g.time()))
		form.Set("end", g.often(fmt.Sprint(start+g.IntN(1800)), g.time()))
		form.Set("step", g.often(g.one("15", "60", "13.7", "1m", "5m", "30s"), "0", "-1", "x", "", "0.001", "1e-9", "1e30", "1y"))
		some("limit", g.limit(), 6)
		some("stats", g.one("all", "true", "yes"), 8)
		some("timeout", g.one("30s", "10", "x"), 8)
		some("lookback_delta", g.one("1m", "30", "x"), 8)
	case 11, 12:
		path = "series"
		for range g.IntN(3) {
			form.Add("match[]", g.often(g.selector(), "{", "", "{}", `{job=~".*"}`, "1", "up[5m]"))
		}
		window()
	case 13:
		path = "labels"
		for range g.IntN(3) {
			form.Add("match[]", g.often(g.named(), "{", `{job=~".*"}`))
		}
		window()
	case 14, 15:
		method = http.MethodGet
		path = "label/" + g.one("job", "instance", "__name__", "le", "code", "U__dotted_2e_name", "dotted.name", "absent", "U__", "日本", "a b", "U__a_zz_", "0x") + "/values"
		for range g.IntN(3) {
			form.Add("match[]", g.often(g.named(), "{", `{job=~".*"}`))
		}
		window()
	case 16:
		path = "query_exemplars"
		form.Set("query", g.often(g.one("traced_total", "rate(traced_total[5m])", `{job=~".+"}`, "1", "temperature + traced_total"), g.query()))
		some("start", g.time(), 3)
		some("end", g.time(), 3)
	case 17:
		path = g.one("format_query", "parse_query")
		form.Set("query", g.often(g.expr(3), g.query(), "foo[5m:1m] offset 1h", "sum without () (x)", `x{a="<b>"} @ 5 offset -5m`, "rate(x[5m + 3s]) * on (a) group_right (b) fill_left(2) y", `"str<"`, "-x ^ 2 > bool 1", "count_values by (a) (\"v\", x)", "time() > bool scalar(x)", "x[1m] anchored", "x and ignoring(a) y[step()*2:1m]", "a + fill (0) b"))
	case 18:
		method = http.MethodGet
		path = g.one("metadata", "rules", "alerts", "targets", "targets/metadata", "alertmanagers", "scrape_pools", "status/buildinfo", "status/flags", "status/config")
		some("limit", g.limit(), 3)
		some("limit_per_metric", g.limit(), 3)
		some("type", g.one("alert", "record", "x<"), 3)
		some("match[]", g.one("up", "{", `{a=""}`), 4)
		some("group_limit", g.one("1", "0", "x"), 4)
		some("group_next_token", "t", 6)
		some("exclude_alerts", g.one("true", "0", "maybe"), 6)
		some("match_target", g.one("up", "{"), 6)
		some("state", g.one("any", "active"), 6)
	default:
		path = "series"
		form.Add("match[]", g.selector())
		form.Add("match[]", g.selector())
		window()
	}
	return method, "/api/v1/" + path, form
}

// newRequest returns an http.Request. Each handler gets a separate one.
func newRequest(method, path string, form url.Values) *http.Request {
	u := &url.URL{Scheme: "http", Host: "prometheus", Path: path}
	var r *http.Request
	if method == http.MethodPost {
		r = httptest.NewRequest(method, u.String(), strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else {
		u.RawQuery = form.Encode()
		r = httptest.NewRequest(method, u.String(), nil)
	}
	r.Header.Set("Origin", "http://grafana")
	return r
}
