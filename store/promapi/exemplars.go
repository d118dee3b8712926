package promapi

import (
	"errors"
	"net/http"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/promql/parser"
)

var errExemplarEnd = errors.New("end timestamp must not be before start timestamp")

// exemplars responds with the exemplars of the series that an expression selects.
func (c *call) exemplars() *Error {
	start, end, e := c.window()
	if e != nil {
		return e
	}
	if end.Before(start) {
		return badData(errExemplarEnd)
	}
	c.seen.Query = c.form.Get("query")
	var expr parser.Expr
	var err error
	if e := c.parse(nil, func() { expr, err = c.api.o.Parser.ParseExpr(c.seen.Query) }); e != nil {
		return e
	}
	if err != nil {
		return badData(err)
	}
	selectors := parser.ExtractSelectors(expr)
	if len(selectors) == 0 {
		c.out.code = http.StatusNoContent
		return nil
	}
	var found []exemplar.QueryResult
	if eq := c.api.o.ExemplarQueryable; eq != nil {
		release, e := c.admit(nil)
		if e != nil {
			return e
		}
		defer release()
		q, err := eq.ExemplarQuerier(c.ctx)
		if err != nil {
			return c.api.classify(err)
		}
		if found, err = q.Select(start.UnixMilli(), end.UnixMilli(), selectors...); err != nil {
			return c.api.classify(err)
		}
	}
	c.seen.Series = len(found)
	c.startResponse()
	b := append(c.out.buf, '[')
	for i, r := range found {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"seriesLabels":`...)
		b = appendLabels(b, r.SeriesLabels)
		b = append(b, `,"exemplars":[`...)
		for j, x := range r.Exemplars {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"labels":`...)
			b = appendLabels(b, x.Labels)
			b = append(b, `,"value":`...)
			b = appendValue(b, x.Value)
			b = append(b, `,"timestamp":`...)
			b = appendTimestamp(b, x.Ts)
			b = append(b, '}')
			if len(b) >= flushAt {
				b = c.out.spill(b)
			}
		}
		b = append(b, ']', '}')
		c.seen.Samples += int64(len(r.Exemplars))
	}
	c.out.buf = append(b, ']')
	c.finishResponse(nil)
	return nil
}
