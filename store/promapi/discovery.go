package promapi

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// A storage scrapes nothing and evaluates no rules. Requests for targets, rules and the like get the response
// of a Prometheus that has none, and the same errors for invalid parameters.

// metadata responds that no metric's type is known.
func (c *call) metadata() *Error {
	for _, name := range []string{"limit", "limit_per_metric"} {
		if e := numberParam(c.form, name); e != nil {
			return e
		}
	}
	return constant(`{}`)(c)
}

// targets responds that there are none. A request for one state gets no counts of the other.
func (c *call) targets() *Error {
	counts := "null"
	switch strings.ToLower(c.form.Get("state")) {
	case "", "any", "dropped":
		counts = "{}"
	}
	return constant(`{"activeTargets":[],"droppedTargets":[],"droppedTargetCounts":` + counts + `}`)(c)
}

// targetsMetadata responds that no target has metadata.
func (c *call) targetsMetadata() *Error {
	if e := numberParam(c.form, "limit"); e != nil {
		return e
	}
	if s := c.form.Get("match_target"); s != "" {
		if _, err := c.api.o.Parser.ParseMetricSelector(s); err != nil {
			return badParam("match_target", err)
		}
	}
	return constant(`[]`)(c)
}

func numberParam(form url.Values, name string) *Error {
	if s := form.Get(name); s != "" {
		if _, err := strconv.Atoi(s); err != nil {
			return badData(errors.New(name + " must be a number"))
		}
	}
	return nil
}

// rules responds that there are none.
func (c *call) rules() *Error {
	if _, err := c.matchers(); err != nil {
		return badData(err)
	}
	switch t := strings.ToLower(c.form.Get("type")); t {
	case "", "alert", "record":
	default:
		return badParam("type", fmt.Errorf("not supported value %q", t))
	}
	if s := strings.ToLower(c.form.Get("exclude_alerts")); s != "" {
		if _, err := strconv.ParseBool(s); err != nil {
			return badParam("exclude_alerts", fmt.Errorf("error converting exclude_alerts: %w", err))
		}
	}
	groups, token := c.form.Get("group_limit"), c.form.Get("group_next_token")
	if token != "" && groups == "" {
		return badParam("group_next_token", errors.New("group_limit needs to be present in order to paginate over the groups"))
	}
	if groups != "" {
		n, err := strconv.ParseInt(groups, 10, 32)
		if err != nil {
			return badParam("group_limit", fmt.Errorf("group_limit needs to be a valid number: %w", err))
		}
		if n <= 0 {
			return badParam("group_limit", errors.New("group_limit needs to be greater than 0"))
		}
	}
	if token != "" {
		return badParam("group_next_token", fmt.Errorf("invalid group_next_token '%v'. were rule groups changed?", token))
	}
	return constant(`{"groups":[]}`)(c)
}
