package promapi

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// maxPoints bounds the steps of a range query after its start: 60 s resolution for a week, or one hour for a
// year.
const maxPoints = 11000

var (
	errTruncated  = errors.New("results truncated due to limit")
	errEndFirst   = errors.New("end timestamp must not be before start time")
	errStep       = errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer")
	errResolution = errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
)

// query responds to an instant query.
func (c *call) query() *Error {
	limit, e := limitParam(c.form)
	if e != nil {
		return e
	}
	t, e := timeParam(c.form, "time", c.api.o.Now())
	if e != nil {
		return e
	}
	timeout, opts, e := c.queryParams(0)
	if e != nil {
		return e
	}
	c.seen.Start, c.seen.End = t, t
	c.enc.reset(0, 0, 0)
	return c.evaluate(limit, timeout, func() (promql.Query, error) {
		return c.engine().NewInstantQuery(c.ctx, c.api.o.Queryable, opts, c.seen.Query, t)
	})
}

// queryRange responds to a range query.
func (c *call) queryRange() *Error {
	limit, e := limitParam(c.form)
	if e != nil {
		return e
	}
	start, err := parseTime(c.form.Get("start"))
	if err != nil {
		return badParam("start", err)
	}
	end, err := parseTime(c.form.Get("end"))
	if err != nil {
		return badParam("end", err)
	}
	if end.Before(start) {
		return badParam("end", errEndFirst)
	}
	step, err := parseDuration(c.form.Get("step"))
	if err != nil {
		return badParam("step", err)
	}
	if step <= 0 {
		return badParam("step", errStep)
	}
	if end.Sub(start)/step > maxPoints {
		return badData(errResolution)
	}
	timeout, opts, e := c.queryParams(step)
	if e != nil {
		return e
	}
	c.seen.Start, c.seen.End, c.seen.Step = start, end, step
	if ms := step.Milliseconds(); ms > 0 {
		c.enc.reset(start.UnixMilli(), ms, int(end.Sub(start)/step)+1)
	} else {
		c.enc.reset(0, 0, 0)
	}
	return c.evaluate(limit, timeout, func() (promql.Query, error) {
		return c.engine().NewRangeQuery(c.ctx, c.api.o.Queryable, opts, c.seen.Query, start, end, step)
	})
}

// queryParams parses the common parameters of instant and range queries. The timeout is nil if the request
// has none.
func (c *call) queryParams(step time.Duration) (timeout *time.Duration, opts promql.QueryOpts, e *Error) {
	c.seen.Query = c.form.Get("query")
	if s := c.form.Get("timeout"); s != "" {
		d, err := parseDuration(s)
		if err != nil {
			return nil, nil, badParam("timeout", err)
		}
		timeout = &d
	}
	var lookback time.Duration
	if s := c.form.Get("lookback_delta"); s != "" {
		var err error
		if lookback, err = parseDuration(s); err != nil {
			return nil, nil, badData(fmt.Errorf("error parsing lookback delta duration: %w", err))
		}
	}
	if prepare := c.api.o.Prepare; prepare != nil {
		ctx, wider, err := prepare(c.ctx, c.form, step)
		if err != nil {
			return nil, nil, badData(err)
		}
		c.ctx, lookback = ctx, cmp.Or(lookback, wider)
	}
	return timeout, promql.NewPrometheusQueryOpts(c.form.Get("stats") == "all", lookback), nil
}

// evaluate runs a query and writes its result.
func (c *call) evaluate(limit int, timeout *time.Duration, prepare func() (promql.Query, error)) *Error {
	var q promql.Query
	var err error
	if e := c.parse(timeout, func() { q, err = prepare() }); e != nil {
		return e
	}
	if err != nil {
		return badParam("query", err)
	}
	c.markScalar(q)
	executed := false
	e := c.admitted(timeout, func() *Error {
		executed = true
		return c.execute(q, limit)
	})
	if !executed {
		q.Close()
	}
	return e
}

// execute runs a query that was admitted. It closes it: the engine owns the result until then.
func (c *call) execute(q promql.Query, limit int) *Error {
	defer q.Close()
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		host = "" // a listener of another kind
	}
	res := q.Exec(promql.NewOriginContext(c.ctx, map[string]any{
		"httpRequest": map[string]string{"clientIP": host, "method": c.r.Method, "path": c.r.URL.Path},
	}))
	statistics := q.Stats()
	if s := statistics.Samples; s != nil {
		c.seen.Read, c.seen.Peak = s.TotalSamples, s.PeakSamples
	}
	if res.Err != nil {
		c.countMatched(q, res.Err)
		c.seen.Warnings, c.seen.Infos = sortedNotes(res.Warnings, c.seen.Query)
		return c.api.classify(res.Err)
	}
	notes := res.Warnings
	if truncate(res, limit) {
		notes.Add(errTruncated)
	}
	c.count(res)
	switch s := c.form.Get("stats"); s {
	case "", "true", "all":
	default:
		notes.Add(fmt.Errorf("value %q for parameter \"stats\" is deprecated and will be rejected in the next major release, use %q or %q", s, "true", "all"))
	}
	c.startResponse()
	c.enc.encodeValue(&c.out, res.Value)
	if c.form.Get("stats") != "" {
		c.out.buf = append(c.out.buf, `,"stats":`...)
		c.out.buf = appendStats(c.out.buf, statistics)
	}
	c.out.buf = append(c.out.buf, '}')
	c.finishResponse(notes)
	return nil
}

// truncate cuts a result to limit series, if limit is not 0, and reports whether it did.
func truncate(res *promql.Result, limit int) bool {
	if limit == 0 {
		return false
	}
	switch v := res.Value.(type) {
	case promql.Matrix:
		if len(v) > limit {
			res.Value = v[:limit]
			return true
		}
	case promql.Vector:
		if len(v) > limit {
			res.Value = v[:limit]
			return true
		}
	}
	return false
}

// count records the size of a result.
func (c *call) count(res *promql.Result) {
	switch v := res.Value.(type) {
	case promql.Matrix:
		c.seen.Series = len(v)
		for i := range v {
			c.seen.Samples += int64(len(v[i].Floats) + len(v[i].Histograms))
		}
	case promql.Vector:
		c.seen.Series, c.seen.Samples = len(v), int64(len(v))
	default:
		c.seen.Samples = 1
	}
}
