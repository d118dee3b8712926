package promapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

var errNoMatch = errors.New("no match[] parameter provided")

// series responds with the labels of all series that one of match[] selects. The response is buffered until
// the storage has returned the last series, so that it can still become an error.
func (c *call) series() *Error {
	if len(c.form["match[]"]) == 0 {
		return badData(errNoMatch)
	}
	limit, e := limitParam(c.form)
	if e != nil {
		return e
	}
	start, end, e := c.window()
	if e != nil {
		return e
	}
	sets, err := c.matchers()
	if err != nil {
		return badParam("match[]", err)
	}
	return c.admitted(nil, func() *Error { return c.seriesOf(sets, start, end, limit) })
}

// seriesOf responds with the series of sets of matchers.
func (c *call) seriesOf(sets [][]*labels.Matcher, start, end time.Time, limit int) *Error {
	q, err := c.api.o.Queryable.Querier(start.UnixMilli(), end.UnixMilli())
	if err != nil {
		return c.api.classify(err)
	}
	defer c.close(q)

	hints := &storage.SelectHints{
		Start: start.UnixMilli(),
		End:   end.UnixMilli(),
		Func:  labelsOnly,
		Limit: hintLimit(limit),
	}
	var set storage.SeriesSet
	if len(sets) == 1 {
		set = q.Select(c.ctx, false, hints, sets[0]...)
	} else {
		each := make([]storage.SeriesSet, len(sets))
		for i, ms := range sets {
			each[i] = q.Select(c.ctx, true, hints, ms...) // sorted, so that they can be merged
		}
		set = storage.NewMergeSeriesSet(each, 0, storage.ChainedSeriesMerge)
	}
	c.out.buffered = true
	c.startResponse()
	b := append(c.out.buf, '[')
	n, truncated := 0, false
	for set.Next() {
		if n%128 == 0 && c.ctx.Err() != nil {
			return c.api.classify(c.ctx.Err())
		}
		if limit > 0 && n == limit {
			truncated = true
			break
		}
		if n > 0 {
			b = append(b, ',')
		}
		n++
		b = appendLabels(b, set.At().Labels())
		if int64(len(b)) > c.api.o.MaxResponse {
			return c.tooLarge()
		}
		if err := c.reserveBuffer(cap(b)); err != nil {
			return c.api.classify(err)
		}
	}
	c.out.buf = append(b, ']')
	if err := set.Err(); err != nil {
		return c.api.classify(err)
	}
	var notes annotations.Annotations
	notes.Merge(set.Warnings())
	if truncated {
		notes.Add(errTruncated)
	}
	c.seen.Series = n
	c.finishResponse(notes)
	return nil
}

// tooLarge returns the error of a response that exceeds its memory limit.
func (c *call) tooLarge() *Error {
	return &Error{Type: Execution, Err: fmt.Errorf("the response exceeds %d bytes: use narrower matchers, a shorter range or limit=", c.api.o.MaxResponse)}
}
