package promapi

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// A namesFunc queries a querier for names or values.
type namesFunc func(q storage.Querier, hints *storage.LabelHints, ms []*labels.Matcher) ([]string, annotations.Annotations, error)

// labelNames responds with the names of all labels.
func (c *call) labelNames() *Error {
	return c.names(func(q storage.Querier, hints *storage.LabelHints, ms []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(c.ctx, hints, ms...)
	})
}

// labelValues responds with the values of one label. A name that starts with U__ is escaped for use in a
// path.
func (c *call) labelValues() *Error {
	name := c.name
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return badData(fmt.Errorf("invalid label name: %q", name))
	}
	c.seen.Query = name
	return c.names(func(q storage.Querier, hints *storage.LabelHints, ms []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(c.ctx, name, hints, ms...)
	})
}

// names responds with the results of ask for the series of each match[], or for all series.
func (c *call) names(ask namesFunc) *Error {
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
		return badData(err)
	}
	return c.admitted(nil, func() *Error { return c.namesOf(ask, sets, start, end, limit) })
}

// namesOf is names for sets of matchers.
func (c *call) namesOf(ask namesFunc, sets [][]*labels.Matcher, start, end time.Time, limit int) *Error {
	q, err := c.api.o.Queryable.Querier(start.UnixMilli(), end.UnixMilli())
	if err != nil {
		return c.api.classify(err)
	}
	defer c.close(q)

	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	hints := &storage.LabelHints{Limit: hintLimit(limit)}
	var list []string
	var notes annotations.Annotations
	for i, ms := range sets {
		some, theirs, err := ask(q, hints, ms)
		if err != nil {
			return c.api.classify(err)
		}
		notes.Merge(theirs)
		if i == 0 {
			list = some
		} else {
			list = append(slices.Clip(list), some...)
		}
	}
	if len(sets) > 1 || !slices.IsSorted(list) {
		list = slices.Clone(list) // the result may belong to the querier
		slices.Sort(list)
		list = slices.Compact(list)
	}
	if limit > 0 && len(list) > limit {
		list = list[:limit]
		notes.Add(errTruncated)
	}
	c.seen.Series = len(list)
	c.startResponse()
	b := append(c.out.buf, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, s)
		if len(b) >= flushAt {
			b = c.out.spill(b)
		}
	}
	c.out.buf = append(b, ']')
	c.finishResponse(notes)
	return nil
}

// close closes a querier. It logs an error, since the response is complete.
func (c *call) close(q io.Closer) {
	if err := q.Close(); err != nil {
		c.api.o.Log.Warn("close a querier", "endpoint", c.seen.Endpoint, "err", err)
	}
}
