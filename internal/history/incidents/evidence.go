package incidents

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/quantity"
)

const (
	// most is the minimum part of the added load, or of the calls, that one property explains.
	most = 0.8

	// few and half are the bounds of the part of calls with a property before and since.
	few  = 0.2
	half = 0.5
)

// deployed returns a reported event as the cause: the statement is new, by a caller that is not; or its tags, its rows per
// call, or its part of the calls changed.
func (c *Case) deployed(m *markers.Marker) *Cause {
	found := &Cause{Kind: KindDeploy}
	distance := c.distance(m)
	if c.New {
		known := c.Others != nil && c.Others.UserKnown && !c.Others.User.IsZero() && c.Others.User.Before(m.Time)
		if distance > DeployReach || !known {
			return nil
		}
		found.strength = 40
		found.Evidence = []Evidence{{"the statement is new, first called " + laterBy(c.Onset.At.Sub(m.End)), false}}
		return found
	}
	if distance <= DeployReach {
		for _, d := range calls.Compare(c.since(m.Time)) {
			if key, ok := strings.CutPrefix(d.Dimension, "tag "); ok && d.Before < few && d.Within >= half && c.stepsWith(d) {
				found.strength = 42
				found.Evidence = append(found.Evidence, Evidence{"tag " + key + "=" + d.Value + ": " + percent(d.Before) + " → " + percent(d.Within) + " of its calls", true})
				break
			}
		}
	}
	if distance <= tightReach {
		if before, within := perCall(&c.Before), perCall(&c.Within); c.Before.Calls > 0 && c.Within.Calls > 0 && within >= 2*before && within >= 1 {
			found.strength = max(found.strength, 30)
			found.Evidence = append(found.Evidence, Evidence{"rows per call: " + quantity.Digits(before) + " → " + quantity.Digits(within), false})
		}
		if c.mixChanged() {
			found.strength = max(found.strength, 30)
			found.Evidence = append(found.Evidence, Evidence{"its callers call it " + times(c.Within.Calls/c.Before.Calls) + " as often, other statements as before", false})
		}
	}
	if len(found.Evidence) == 0 {
		return nil
	}
	return found
}

// since returns the sampled calls before a time, and those since the onset.
func (c *Case) since(at time.Time) (before, within []calls.Call) {
	for _, k := range c.Calls[0] {
		if k.End.Before(at) {
			before = append(before, k)
		}
	}
	return before, c.Calls[1]
}

// stepsWith reports whether a tag became frequent at the onset, and not between an earlier event and the onset: then
// its calls were as light as before for a while.
func (c *Case) stepsWith(d calls.Difference) bool {
	tag := strings.TrimPrefix(d.Dimension, "tag ")
	with, all := 0.0, 0.0
	for i := range c.Calls[0] {
		k := &c.Calls[0][i]
		if k.End.Before(c.Onset.Earliest.Add(-2*tightReach)) || k.End.After(c.Onset.Earliest) {
			continue
		}
		all += k.Weight
		if slices.Contains(k.Tags, calls.Tag{Key: tag, Value: d.Value}) {
			with += k.Weight
		}
	}
	return all == 0 || with/all < half
}

func perCall(s *Side) float64 {
	if s.Calls == 0 {
		return 0
	}
	return s.Rows / s.Calls
}

// mixChanged reports whether the statement is called more, and all statements together are not.
func (c *Case) mixChanged() bool {
	if c.Others == nil || c.Before.Calls <= 0 || c.Others.Calls[0] <= c.Before.Calls {
		return false
	}
	before, within := c.Others.Calls[0]-c.Before.Calls, c.Others.Calls[1]-c.Within.Calls
	return c.Within.Calls >= 2*c.Before.Calls && within < 1.3*before && !c.longer()
}

// called returns the user or client that adds most of the load.
func (c *Case) called() *Cause {
	if c.New {
		if c.Others == nil || !c.Others.UserKnown || !c.Others.User.IsZero() && c.Others.User.Before(c.Onset.Earliest.Add(-Reach)) {
			return nil
		}
		user := topValue(c.Calls[1], func(k *calls.Call) string { return k.User })
		if user == "" || !c.Others.User.IsZero() && c.Others.User.Before(c.Onset.Earliest) {
			return nil
		}
		return &Cause{Kind: KindCaller, Text: "user " + user + clientsOf(c.Calls[1], user), strength: 35, Evidence: []Evidence{{"the user called nothing before", false}}}
	}
	if len(c.Calls[0]) < calls.LeastCalls || len(c.Calls[1]) < calls.LeastCalls || c.Within.Load <= c.Before.Load {
		return nil
	}
	for _, of := range []struct {
		name  string
		value func(*calls.Call) string
	}{{"user ", func(k *calls.Call) string { return k.User }}, {"client ", func(k *calls.Call) string { return k.Client }}} {
		value := topValue(c.Calls[1], of.value)
		before, within := timeShare(c.Calls[0], of.value, value), timeShare(c.Calls[1], of.value, value)
		if value == "" || before > within/2 || (within*c.Within.Load-before*c.Before.Load) < most*(c.Within.Load-c.Before.Load) {
			continue
		}
		found := &Cause{Kind: KindCaller, Text: of.name + value, strength: 35}
		if of.name == "user " {
			found.Text += clientsOf(c.Calls[1], value)
		}
		found.Evidence = []Evidence{{percent(before) + " → " + percent(within) + " of the statement's time", false}}
		return found
	}
	return nil
}

// topValue returns the value of a property with most time.
func topValue(all []calls.Call, value func(*calls.Call) string) string {
	sums := make(map[string]float64)
	for i := range all {
		sums[value(&all[i])] += weight(&all[i])
	}
	best := ""
	for v, sum := range sums {
		if v != "" && (best == "" || cmp.Or(cmp.Compare(sum, sums[best]), strings.Compare(best, v)) > 0) {
			best = v
		}
	}
	return best
}

// timeShare returns the part of the time of calls with a value.
func timeShare(all []calls.Call, value func(*calls.Call) string, of string) float64 {
	with, total := 0.0, 0.0
	for i := range all {
		total += weight(&all[i])
		if value(&all[i]) == of {
			with += weight(&all[i])
		}
	}
	if total == 0 {
		return 0
	}
	return with / total
}

// weight returns the time of the calls that a sampled call stands for.
func weight(k *calls.Call) float64 { return k.Weight * max(k.Took.Seconds(), 1e-9) }

// clientsOf returns the client of a user's calls, if there is only one.
func clientsOf(all []calls.Call, user string) string {
	client := ""
	for i := range all {
		if all[i].User != user || all[i].Client == client {
			continue
		}
		if client != "" {
			return ""
		}
		client = all[i].Client
	}
	if client == "" {
		return ""
	}
	return " from " + client
}

// failing returns an error as the cause, if most calls fail with it and did not before.
func (c *Case) failing() *Cause {
	for _, d := range calls.Compare(c.Calls[0], c.Calls[1]) {
		if d.Dimension == calls.DimensionError && d.Value != "" && d.Before < few/2 && d.Within >= half {
			return &Cause{
				Kind: KindErrors, Text: "error " + d.Value, strength: 34,
				Evidence: []Evidence{{percent(d.Before) + " → " + percent(d.Within) + " of its calls fail with it", false}},
			}
		}
	}
	return nil
}

const (
	// leastOthers is the minimum number of other statements to judge the server, and mostOthers the minimum part of them
	// that rose at the same time.
	leastOthers = 4
	mostOthers  = 0.6
)

// everywhere returns the server, or its traffic, as the cause if most other statements rose at the same time.
func (c *Case) everywhere() *Cause {
	o := c.Others
	if o == nil || c.New || o.Statements < leastOthers || float64(o.Rose) < mostOthers*float64(o.Statements) {
		return nil
	}
	rose := Evidence{strconv.Itoa(o.Rose) + " of " + strconv.Itoa(o.Statements) + " other statements rose at the same time", false}
	if o.Calls[0] > 0 && o.Calls[1] >= 1.5*o.Calls[0] && !c.longer() {
		return &Cause{Kind: KindTraffic, Text: "more calls of all statements", strength: 20, Evidence: []Evidence{rose, {times(o.Calls[1]/o.Calls[0]) + " as many calls", false}}}
	}
	if !c.longer() || c.Within.took() < 1.5*c.Before.took() || o.Calls[0] > 0 && o.Calls[1] >= 1.5*o.Calls[0] {
		return nil
	}
	return &Cause{Kind: KindServer, Text: "a slower server", strength: 20, Evidence: []Evidence{rose, {"calls take longer, at the same rate", false}}}
}

// laterBy describes a time after an event.
func laterBy(d time.Duration) string {
	if d < time.Second {
		return "at the same time"
	}
	return d.Round(time.Second).String() + " later"
}

func clockOf(t time.Time) string { return t.UTC().Format(time.TimeOnly) }

func percent(f float64) string { return strconv.Itoa(int(100*f+0.5)) + " %" }

func times(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) + "×" }
