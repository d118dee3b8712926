package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/bench/smallblocks"
)

// A query is a request to a querier, with the result that the first configuration had.
type query struct {
	name string
	path string
	form url.Values
	raw  bool // its result has the samples themselves
	load bool // part of the load

	want any // nil: not known yet
}

func queriesOf(o *options) []*query {
	from, to := smallblocks.Times(o.blocks)
	const day = 86400
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	ranged := func(expr string, from, step int64) url.Values {
		return url.Values{"query": {expr}, "start": {number(from)}, "end": {number(to - 60)}, "step": {number(step)}}
	}
	last := func(days int64) int64 { return max(from, to-days*day) }
	middle := from + (to-from)/2/7200*7200 + 3600
	queries := []*query{
		{name: "a day by cluster", path: "query_range", form: ranged(`sum by (cluster) (rate({foo="bar"}[10m]))`, last(1), 300), load: true},
		{name: "a week raw", path: "query_range", form: ranged(`{i=~"00.+",cluster="eu"}`, last(7), 60), raw: true, load: true},
		{name: "a month by cluster", path: "query_range", form: ranged(`sum by (cluster) ({foo="bar",i=~"0.+"})`, last(30), 3600)},
		{name: "all blocks, one series", path: "query_range", form: ranged(`count by (cluster) ({i=~"00.+"})`, from, day)},
		{name: "an hour, all series", path: "query", form: url.Values{"query": {`{foo="bar"}[1h]`}, "time": {number(middle)}}, raw: true, load: true},
		{name: "values of a label", path: "label/i/values", form: url.Values{"start": {number(from)}, "end": {number(to)}}},
	}
	for _, q := range queries {
		q.form.Set("dedup", "false")
		q.form.Set("partial_response", "true")
	}
	return queries
}

// A response is one of Prometheus' HTTP API.
type response struct {
	Status    string
	ErrorType string
	Error     string
	Data      any
	Warnings  []string
}

// run sends the query to a querier.
func (q *query) run(ctx context.Context, querier string) (*response, time.Duration, error) {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, querier+"/api/v1/"+q.path+"?"+q.form.Encode(), http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	took := time.Since(began)
	if err != nil {
		return nil, 0, err
	}
	r := &response{}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, 0, fmt.Errorf("%s: %s: %.200s", q.name, reply.Status, body)
	}
	r.sort()
	return r, took, nil
}

// sort sorts series by their labels: a querier returns them in any order.
func (r *response) sort() {
	d, _ := r.Data.(map[string]any)
	result, _ := d["result"].([]any)
	slices.SortFunc(result, func(x, y any) int { return cmp.Compare(metricOf(x), metricOf(y)) })
}

func metricOf(series any) string {
	s, _ := series.(map[string]any)
	return fmt.Sprint(s["metric"])
}

// partial reports whether the response has a warning that is not about its expression.
func (r *response) partial() bool {
	return slices.ContainsFunc(r.Warnings, func(w string) bool { return !strings.HasPrefix(w, "PromQL ") })
}

// difference describes the first difference between two results.
func difference(got, want any) string {
	texts := func(data any) (lines []string) {
		d, _ := data.(map[string]any)
		result, _ := d["result"].([]any)
		for _, one := range result {
			s, _ := one.(map[string]any)
			values, _ := s["values"].([]any)
			for _, v := range append(values, s["value"]) {
				lines = append(lines, fmt.Sprint(metricOf(s), v))
			}
		}
		return lines
	}
	a, b := texts(got), texts(want)
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	at := func(lines []string) string {
		if n < len(lines) {
			return lines[n]
		}
		return "the end"
	}
	return fmt.Sprintf("%d and %d samples; %s, want %s", len(a), len(b), at(a), at(b))
}

// samples returns the texts of samples with their labels.
func samples(data any) map[string]bool {
	all := make(map[string]bool)
	d, _ := data.(map[string]any)
	result, _ := d["result"].([]any)
	for _, one := range result {
		s, _ := one.(map[string]any)
		values, _ := s["values"].([]any)
		for _, v := range values {
			all[fmt.Sprint(metricOf(s), v)] = true
		}
	}
	return all
}
