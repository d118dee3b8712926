package testpromql

import (
	"fmt"
	"net/url"

	"github.com/prometheus/common/model"
)

// A Request is a request of Prometheus' HTTP API.
type Request struct {
	Path string // after /api/v1/
	Form url.Values
	Post bool // the parameters are a form, not in the URL
}

// String returns the request's method, if it is POST, and its path and parameters as in a URL.
func (r Request) String() string {
	if r.Post {
		return "POST " + r.target()
	}
	return r.target()
}

func (r Request) target() string {
	if len(r.Form) == 0 {
		return r.Path
	}
	return r.Path + "?" + r.Form.Encode()
}

func stamp(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

// Request returns a request whose response depends only on the series. One in twenty is invalid.
func (g *Generator) Request() Request {
	var r Request
	switch g.rand.IntN(12) {
	case 0, 1, 2, 3:
		r = Request{Path: "query", Form: url.Values{"query": {g.Expr()}, "time": {stamp(g.Time())}}}
	case 4, 5, 6, 7:
		start := g.Time()
		step := pick[int64](g.rand, 15_000, 30_000, 60_000, 61_500, 300_000)
		end := min(start+step*int64(g.rand.IntN(60)), g.end+600_000)
		r = Request{Path: "query_range", Form: url.Values{"query": {g.Expr()}, "start": {stamp(start)}, "end": {stamp(max(start, end))}, "step": {stamp(step)}}}
	case 8:
		r = Request{Path: "series", Form: g.span()}
		r.Form.Add("match[]", g.Selector())
	case 9:
		r = Request{Path: "labels", Form: g.span()}
	case 10:
		r = Request{Path: "label/" + url.PathEscape(pick(g.rand, append(g.names, model.MetricNameLabel, "absent")...)) + "/values", Form: g.span()}
	case 11:
		r = Request{Path: pick(g.rand, "format_query", "parse_query"), Form: url.Values{"query": {g.Expr()}}}
	}
	if g.rand.IntN(10) == 0 && r.Path != "format_query" && r.Path != "parse_query" {
		r.Form.Set("limit", pick(g.rand, "0", "1", "5", "1000"))
	}
	if g.rand.IntN(20) == 0 {
		g.spoil(&r)
	}
	return r
}

// span returns parameters of a request without an expression.
func (g *Generator) span() url.Values {
	form := make(url.Values)
	if g.rand.IntN(3) > 0 {
		start := g.Time()
		form.Set("start", stamp(start))
		form.Set("end", stamp(start+g.rand.Int64N(3_600_000)))
	}
	for range g.rand.IntN(3) {
		form.Add("match[]", g.Selector())
	}
	return form
}

// spoil makes a request invalid.
func (g *Generator) spoil(r *Request) {
	if query := r.Form.Get("query"); query != "" && g.rand.IntN(2) == 0 {
		at := g.rand.IntN(len(query))
		r.Form.Set("query", pick(g.rand, query[:at], query[at:], query[:at]+pick(g.rand, ")", "{", "by", `"`, "[5m]", "é")+query[at:]))
		return
	}
	for _, name := range []string{"step", "time", "start", "end", "query", "match[]"} {
		if r.Form.Has(name) {
			r.Form.Set(name, pick(g.rand, "", "0", "-1", "x", "{}", "sum(", "1e30", "2023-13-01T00:00:00Z"))
			return
		}
	}
}
