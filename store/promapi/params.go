package promapi

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Default times of requests, as seconds since 1970. Prometheus uses these; they are narrower than the
// milliseconds of an int64 by the years before 1970. Clients send them back in the two forms below, which
// time.Parse does not parse.
const (
	minSeconds = math.MinInt64/1000 + 62135596801
	maxSeconds = math.MaxInt64/1000 - 62135596801

	minTimeText = "-292273086-05-16T16:47:06Z"
	maxTimeText = "292277025-08-18T07:12:54.999999999Z"
)

func minTime() time.Time { return time.Unix(minSeconds, 0).UTC() }
func maxTime() time.Time { return time.Unix(maxSeconds, 999999999).UTC() }

// parseTime parses a time as Unix seconds with a fraction, to the millisecond, or as RFC 3339.
func parseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		sec, frac := math.Modf(f)
		if !(math.Abs(sec) < math.MaxInt64/1000) { // as float64, the limit is greater
			return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp: it does not fit in milliseconds", s)
		}
		frac = math.Round(frac*1000) / 1000
		return time.Unix(int64(sec), int64(frac*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	switch s {
	case minTimeText:
		return minTime(), nil
	case maxTimeText:
		return maxTime(), nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseDuration parses a duration as seconds with a fraction or as 1h30m.
func parseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if ns := f * float64(time.Second); ns > math.MinInt64 && ns < math.MaxInt64 {
			return time.Duration(ns), nil
		}
		return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}

// parseLimit parses the maximum number of items in a response; 0 is no limit.
func parseLimit(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, errors.New("limit must be non-negative")
	}
	return n, nil
}

// hintLimit returns the limit for the storage: one more than the limit, so that truncation is detected.
func hintLimit(limit int) int {
	if limit > 0 && limit < math.MaxInt {
		return limit + 1
	}
	return limit
}

// timeParam returns a time parameter, or the default if the request has none.
func timeParam(form url.Values, name string, or time.Time) (time.Time, *Error) {
	s := form.Get(name)
	if s == "" {
		return or, nil
	}
	t, err := parseTime(s)
	if err != nil {
		return t, badParam(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t, nil
}

// limitParam returns the parameter limit.
func limitParam(form url.Values) (int, *Error) {
	n, err := parseLimit(form.Get("limit"))
	if err != nil {
		return 0, badParam("limit", err)
	}
	return n, nil
}

// window returns the optional parameters start and end.
func (c *call) window() (start, end time.Time, e *Error) {
	if start, e = timeParam(c.form, "start", minTime()); e != nil {
		return start, end, e
	}
	end, e = timeParam(c.form, "end", maxTime())
	c.seen.Start, c.seen.End = start, end
	return start, end, e
}

// matchers parses match[]. Each set must have a matcher that does not match the empty string: otherwise it
// would select everything.
func (c *call) matchers() ([][]*labels.Matcher, error) {
	c.seen.Matchers = c.form["match[]"]
	sets, err := c.api.o.Parser.ParseMetricSelectors(c.form["match[]"])
	if err != nil {
		return nil, err
	}
sets:
	for _, set := range sets {
		for _, m := range set {
			if m != nil && !m.Matches("") {
				continue sets
			}
		}
		return nil, errors.New("match[] must contain at least one non-empty matcher")
	}
	return sets, nil
}
