package incidents

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
)

// said returns a finding in one line: the kind, text and evidence of the cause, and the events nearby.
func said(f Finding) string {
	got := "none"
	if f.Cause != nil {
		var all []string
		for _, e := range f.Cause.Evidence {
			all = append(all, e.Text)
		}
		got = string(f.Cause.Kind) + ": " + strings.Join(all, ", ")
		if f.Cause.Text != "" {
			got += " (" + f.Cause.Text + ")"
		}
	}
	for _, n := range f.Near {
		got += fmt.Sprintf("; near: %s %s", n.Before, n.Event.Title)
		if n.Veto != "" {
			got += ": " + n.Veto
		}
	}
	return got
}

func event(kind markers.Kind, from, to int) markers.Marker {
	return markers.Marker{Kind: kind, Title: string(kind), Time: at(from), End: at(to)}
}

// TestNearEvents has the three nearest events that started before the onset and ended ten minutes before it at the earliest.
func TestNearEvents(t *testing.T) {
	for name, c := range map[string]struct {
		events []markers.Marker
		want   string
	}{
		"at the latest onset":     {[]markers.Marker{event("note", 15, 20)}, "none; near: 0s note"},
		"after it":                {[]markers.Marker{event("note", 16, 20)}, "none"},
		"ten minutes before":      {[]markers.Marker{event("note", -700, -615)}, "none; near: 10m15s note"},
		"more":                    {[]markers.Marker{event("note", -700, -616)}, "none"},
		"it lasted":               {[]markers.Marker{event("note", -5000, 30)}, "none; near: 0s note"},
		"the nearest three":       {[]markers.Marker{event("a", -400, -400), event("b", -10, -10), event("c", -300, -300), event("d", -200, -200)}, "none; near: 10s b; near: 3m20s d; near: 5m0s c"},
		"a plan is no event":      {[]markers.Marker{event(markers.KindPlan, -10, -10)}, "none"},
		"a restart":               {[]markers.Marker{event(markers.KindRestart, -10, -10)}, "none; near: 10s restart"},
		"a lock that is no cause": {[]markers.Marker{event(markers.KindLock, -10, -10)}, "none; near: 10s lock"},
	} {
		if got := said(Find(longer(func(c2 *Case) { c2.Events = c.events }))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for _, kind := range []markers.Kind{
		markers.KindDDL, markers.KindAnalyze, markers.KindSwitch, markers.KindPause, markers.KindCopy, markers.KindRestart, markers.KindRules,
		markers.KindBackend, markers.KindPlan, markers.KindLock,
	} {
		if reported(&markers.Marker{Kind: kind}) {
			t.Errorf("%s is reported by clients", kind)
		}
	}
	if !reported(&markers.Marker{Kind: "deploy"}) {
		t.Error("a deployment is not reported")
	}
}

// TestDeployedEdges has each bound of the evidence for a deployment on both sides.
func TestDeployedEdges(t *testing.T) {
	deploy := func(seconds int) []markers.Marker { return []markers.Marker{event("deploy", seconds, seconds)} }
	const none = "none; near: "
	newOne := func(seconds int, o *Others) func(*Case) {
		return func(c *Case) { c.New, c.Events, c.Others = true, deploy(seconds), o }
	}
	tagged := func(n, with int, key string) []calls.Call {
		return sampled(n, func(i int, k *calls.Call) {
			if k.End = at(-600); i < with {
				k.Tags = []calls.Tag{{Key: key, Value: "v"}}
			}
		})
	}
	release := func(before, within, seconds int) func(*Case) {
		return func(c *Case) {
			c.Events = deploy(seconds)
			c.Calls = [2][]calls.Call{tagged(100, before, "release"), tagged(100, within, "release")}
		}
	}
	rows := func(seconds int, before, within, callsBefore, callsWithin float64) func(*Case) {
		return func(c *Case) {
			c.Events = deploy(seconds)
			c.Before, c.Within = Side{Load: 0.02 * callsBefore, Calls: callsBefore, Rows: before * callsBefore}, Side{Load: 0.12 * callsWithin, Calls: callsWithin, Rows: within * callsWithin}
		}
	}
	mix := func(within, othersBefore, othersWithin, load float64) func(*Case) {
		return func(c *Case) {
			c.Events, c.Before, c.Within = deploy(-10), Side{Load: 1, Calls: 10}, Side{Load: load, Calls: within}
			c.Others = &Others{Calls: [2]float64{othersBefore, othersWithin}}
		}
	}
	known := &Others{User: at(-3600), UserKnown: true}
	for name, c := range map[string]struct {
		change func(*Case)
		want   string
	}{
		"new, at once":                 {newOne(0, known), "deploy: the statement is new, first called at the same time"},
		"new, three minutes later":     {newOne(-180, known), "deploy: the statement is new, first called 3m0s later"},
		"new, later":                   {newOne(-181, known), none + "3m1s deploy"},
		"new, by an unknown user":      {newOne(-10, &Others{User: at(-3600)}), none + "10s deploy"},
		"new, by a user without calls": {newOne(-10, &Others{UserKnown: true}), none + "10s deploy"},
		"new, by a user that is, too":  {newOne(-10, &Others{User: at(-10), UserKnown: true}), none + "10s deploy"},
		"new, others are unknown":      {newOne(-10, nil), none + "10s deploy"},
		"a tag of half":                {release(19, 50, -180), "deploy: tag release=v: 19 % → 50 % of its calls"},
		"a tag of less than half":      {release(0, 49, -180), none + "3m0s deploy"},
		"a tag of a fifth before":      {release(20, 90, -180), none + "3m0s deploy"},
		"a tag, later":                 {release(0, 100, -181), none + "3m1s deploy"},
		"a tag of calls since the event": {func(c *Case) {
			release(0, 100, -60)(c)
			for i := range 10 {
				c.Calls[0][i].Tags, c.Calls[0][i].End = []calls.Tag{{Key: "release", Value: "v"}}, at(-30)
			}
			for i := 10; i < 30; i++ {
				c.Calls[0][i].End = at(-30)
			}
		}, "deploy: tag release=v: 0 % → 100 % of its calls"},
		"twice the rows":           {rows(-30, 1, 2, 10, 10), "deploy: rows per call: 1.00 → 2.00"},
		"less than twice the rows": {rows(-30, 1, 1.9, 10, 10), none + "30s deploy"},
		"less than a row":          {rows(-30, 0.1, 0.9, 10, 10), none + "30s deploy"},
		"rows, later":              {rows(-31, 1, 2, 10, 10), none + "31s deploy"},
		"no calls before":          {rows(-30, 0, 9, 0, 10), none + "30s deploy"},
		"no calls since":           {rows(-30, 1, 9, 10, 0), none + "30s deploy"},
		"called twice as often":    {mix(20, 110, 149, 2), "deploy: its callers call it 2.0× as often, other statements as before"},
		"called less than twice":   {mix(19, 110, 110, 2), none + "10s deploy"},
		"others are called more":   {mix(20, 110, 150, 2), none + "10s deploy"},
		"no others":                {mix(20, 10, 20, 2), none + "10s deploy"},
		"called twice, and longer": {mix(20, 110, 120, 2.8), none + "10s deploy"},
		"rows, and a slower server": {func(c *Case) {
			rows(-30, 1, 2, 10, 10)(c)
			c.Others = &Others{Statements: 6, Rose: 6, Calls: [2]float64{200, 190}}
		}, "deploy: rows per call: 1.00 → 2.00"},
		"called more, as are others": {func(c *Case) {
			mix(100, 110, 165, 8)(c)
			c.Others.Statements, c.Others.Rose = 4, 4
		}, "deploy: its callers call it 10.0× as often, other statements as before"},
		"two tags": {func(c *Case) {
			release(0, 100, -10)(c)
			for i := range c.Calls[1] {
				c.Calls[1][i].Tags = append(c.Calls[1][i].Tags, calls.Tag{Key: "build", Value: "7"})
			}
		}, "deploy: tag build=7: 0 % → 100 % of its calls"},
		"a tag, and another client": {func(c *Case) {
			release(0, 100, -10)(c)
			for i := range c.Calls[1] {
				c.Calls[1][i].Client = "10.0.0.9"
			}
		}, "deploy: tag release=v: 0 % → 100 % of its calls"},
		"called twice, not longer": {mix(20, 110, 120, 2.79), "deploy: its callers call it 2.0× as often, other statements as before"},
	} {
		if got := said(Find(longer(c.change))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestStepsWith does not take a tag that was already frequent in the minute before the onset.
func TestStepsWith(t *testing.T) {
	d := calls.Difference{Dimension: "tag release", Value: "v"}
	for name, c := range map[string]struct {
		seconds, with, without int // calls at that time, with the tag and without it
		want                   bool
	}{
		"no calls":        {-30, 0, 0, true},
		"half":            {-30, 2, 2, false},
		"less":            {-30, 2, 3, true},
		"a minute before": {-75, 2, 2, false},
		"earlier":         {-76, 2, 2, true},
		"at the onset":    {-15, 2, 2, false},
		"after its start": {-14, 2, 2, true},
	} {
		all := make([]calls.Call, c.with+c.without)
		for i := range all {
			if all[i] = (calls.Call{End: at(c.seconds), Weight: 1}); i < c.with {
				all[i].Tags = []calls.Tag{{Key: "other", Value: "v"}, {Key: "release", Value: "v"}}
			}
		}
		of := longer(func(of *Case) {
			of.Calls[0] = append(all, calls.Call{End: at(-600), Weight: 100, Tags: []calls.Tag{{Key: "release", Value: "v"}}})
		})
		if got := of.stepsWith(d); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCallers finds the user or client that adds most of the load.
func TestCallers(t *testing.T) {
	by := func(n int, of ...string) []calls.Call { // user/client of each call in turn
		return sampled(n, func(i int, k *calls.Call) { k.User, k.Client, _ = strings.Cut(of[i%len(of)], "/") })
	}
	case2 := func(before, within []calls.Call) func(*Case) {
		return func(c *Case) { c.Within, c.Calls = Side{Load: 2, Calls: 100}, [2][]calls.Call{before, within} }
	}
	newBy := func(o *Others, within []calls.Call) func(*Case) {
		return func(c *Case) { c.New, c.Others, c.Calls[1] = true, o, within }
	}
	for name, c := range map[string]struct {
		change func(*Case)
		want   string
	}{
		"a user":                {case2(by(10, "a/1"), by(10, "b/2")), "caller: 0 % → 100 % of the statement's time (user b from 2)"},
		"a user of two clients": {case2(by(10, "a/1"), by(10, "b/2", "b/3")), "caller: 0 % → 100 % of the statement's time (user b)"},
		"a client":              {case2(by(10, "a/1"), by(10, "a/2")), "caller: 0 % → 100 % of the statement's time (client 2)"},
		"a client of no user":   {case2(by(10, "/1"), by(10, "/2")), "caller: 0 % → 100 % of the statement's time (client 2)"},
		"neither":               {case2(by(10, "a/1"), by(10, "a/1")), "none"},
		"unknown":               {case2(by(10, "a/1"), by(10, "/")), "none"},
		"six calls":             {case2(by(6, "a/1"), by(6, "b/1")), "caller: 0 % → 100 % of the statement's time (user b from 1)"},
		"five before":           {case2(by(5, "a/1"), by(6, "b/1")), "none"},
		"five since":            {case2(by(6, "a/1"), by(5, "b/1")), "none"},
		"more than half before": {case2(by(9, "a/1", "a/1", "b/1"), by(10, "b/1", "b/1", "a/1", "b/1", "a/1")), "none"},
		"half before":           {case2(by(20, "a/1", "b/1"), by(20, "b/1")), "caller: 50 % → 100 % of the statement's time (user b from 1)"},
		"most of the rise":      {case2(by(10, "a/1"), by(10, "b/1", "b/1", "b/1", "b/1", "a/2")), "caller: 0 % → 80 % of the statement's time (user b from 1)"},
		"less than most":        {case2(by(10, "a/1"), by(99, "b/1", "b/2", "a/4")), "none"},
		"no more load":          {func(c *Case) { case2(by(10, "a/1"), by(10, "b/2"))(c); c.Within.Load = c.Before.Load }, "none"},

		"new, by a new user":              {newBy(&Others{UserKnown: true}, by(2, "b/2")), "caller: the user called nothing before (user b from 2)"},
		"new, by a new user of no client": {newBy(&Others{UserKnown: true}, by(2, "b/")), "caller: the user called nothing before (user b)"},
		"new, the user is new since":      {newBy(&Others{User: at(-15), UserKnown: true}, by(2, "b/2")), "caller: the user called nothing before (user b from 2)"},
		"new, the user was there":         {newBy(&Others{User: at(-16), UserKnown: true}, by(2, "b/2")), "none"},
		"new, the user was there long":    {newBy(&Others{User: at(-616), UserKnown: true}, by(2, "b/2")), "none"},
		"new, the user is unknown":        {newBy(&Others{}, by(2, "b/2")), "none"},
		"new, others are unknown":         {newBy(nil, by(2, "b/2")), "none"},
		"new, without users":              {newBy(&Others{UserKnown: true}, by(2, "/2")), "none"},
	} {
		if got := said(Find(longer(c.change))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	weighted := []calls.Call{{User: "a", Took: time.Second, Weight: 1}, {User: "b", Took: time.Millisecond, Weight: 100}, {User: "c", Took: time.Second, Weight: 1}, {User: "", Took: time.Hour, Weight: 1}}
	user := func(k *calls.Call) string { return k.User }
	if got := topValue(weighted, user); got != "a" {
		t.Errorf("the user with most time is %q", got)
	}
	if got := timeShare(weighted[:2], user, "b"); math.Abs(got-0.1/1.1) > 1e-9 {
		t.Errorf("b has %v of the time", got)
	}
	if got := timeShare(nil, user, "b"); got != 0 {
		t.Errorf("b has %v of no time", got)
	}
	if got := timeShare([]calls.Call{{User: "b", Weight: 1}, {User: "a", Weight: 1}}, user, "b"); got != 0.5 {
		t.Errorf("b has %v of calls that took no time", got)
	}
}

// TestErrorsAndServer has the bounds of failing calls, and those of the other statements.
func TestErrorsAndServer(t *testing.T) {
	failing := func(before, within int, number uint16) func(*Case) {
		of := func(failed int) []calls.Call {
			return sampled(100, func(i int, k *calls.Call) {
				if i < failed {
					k.Error = number
				}
			})
		}
		return func(c *Case) { c.Calls = [2][]calls.Call{of(before), of(within)} }
	}
	server := func(statements, rose int, before, within, load float64) func(*Case) {
		return func(c *Case) {
			c.Within.Load = load
			c.Others = &Others{Statements: statements, Rose: rose, Calls: [2]float64{before, within}}
		}
	}
	slower := func(rose, of int) string {
		return fmt.Sprintf("server: %d of %d other statements rose at the same time, calls take longer, at the same rate (a slower server)", rose, of)
	}
	for name, c := range map[string]struct {
		change func(*Case)
		want   string
	}{
		"half fail":            {failing(9, 50, 7), "errors: 9 % → 50 % of its calls fail with it (error 7)"},
		"less than half":       {failing(0, 49, 7), "none"},
		"a tenth before":       {failing(12, 95, 7), "none"},
		"the errors ended":     {failing(90, 0, 7), "none"},
		"four others":          {server(4, 4, 10, 10, 1.2), slower(4, 4)},
		"three others":         {server(3, 3, 10, 10, 1.2), "none"},
		"most of them":         {server(5, 3, 10, 10, 1.2), slower(3, 5)},
		"fewer":                {server(100, 59, 10, 10, 1.2), "none"},
		"calls take as long":   {server(4, 4, 10, 10, 0.2), "none"},
		"calls take half more": {server(4, 4, 10, 10, 0.3), slower(4, 4)},
		"a little more":        {server(4, 4, 10, 10, 0.299), "none"},
		"no others before":     {server(4, 4, 0, 10, 1.2), slower(4, 4)},
		"more calls, longer":   {server(4, 4, 10, 15, 1.2), "none"},
		"not so many more":     {server(4, 4, 10, 14.9, 1.2), slower(4, 4)},
		"more calls":           {server(4, 4, 10, 15, 0.2), "traffic: 4 of 4 other statements rose at the same time, 1.5× as many calls (more calls of all statements)"},
		"not enough calls":     {server(4, 4, 10, 14.9, 0.2), "none"},
		"few calls":            {server(4, 4, 0.5, 1, 0.2), "traffic: 4 of 4 other statements rose at the same time, 2.0× as many calls (more calls of all statements)"},
		"few calls, longer":    {server(4, 4, 0.5, 1, 1.2), "none"},
		"a new statement":      {func(c *Case) { server(4, 4, 10, 10, 1.2)(c); c.New = true }, "none"},
	} {
		if got := said(Find(longer(c.change))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestLockEdges has the bounds of a wait for locks.
func TestLockEdges(t *testing.T) {
	lock := func(from, to int, lasts bool, waiters int) Lock {
		return Lock{From: at(from), To: at(to), Lasts: lasts, Direct: true, Waiters: waiters, Holder: fmt.Sprint("connection ", waiters)}
	}
	const found, none = "lock: its calls wait for that session (connection 1)", "none"
	for name, c := range map[string]struct {
		locks []Lock
		load  float64
		want  string
	}{
		"a third of the time":         {[]Lock{lock(0, 200, false, 1)}, 1, found},
		"less":                        {[]Lock{lock(0, 199, false, 1)}, 1, none},
		"it lasts":                    {[]Lock{lock(0, 10, true, 1)}, 1, found},
		"it lasts beyond":             {[]Lock{lock(0, 900, true, 1)}, 1, found},
		"from the latest onset on":    {[]Lock{lock(15, 300, false, 1)}, 1, found},
		"from later on":               {[]Lock{lock(16, 300, false, 1)}, 1, none},
		"until the earliest onset":    {[]Lock{lock(-300, -15, false, 1), lock(100, 310, false, 9)}, 1, none},
		"several":                     {[]Lock{lock(-300, 100, false, 1), lock(200, 300, false, 9)}, 1, found},
		"several, the first indirect": {[]Lock{{From: at(0), To: at(500)}, lock(0, 200, false, 1)}, 1, found},
		"before the onset":            {[]Lock{lock(-300, 199, false, 1)}, 1, none},
		"a third of the load":         {[]Lock{lock(0, 600, false, 1)}, 3.2, found},
		"less than a third":           {[]Lock{lock(0, 600, false, 1)}, 3.21, none},
	} {
		if got := said(Find(longer(func(of *Case) { of.Locks, of.Within.Load = c.locks, c.load }))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	notLonger := longer(func(of *Case) { of.Locks, of.Within.Calls = []Lock{lock(0, 600, true, 9)}, 60 })
	if got := said(Find(notLonger)); got != none {
		t.Errorf("calls take as long: %s", got)
	}
}

// TestSwitched names a switch if half of the calls moved to another server and take longer.
func TestSwitched(t *testing.T) {
	at2 := func(moved int) []calls.Call {
		return sampled(100, func(i int, k *calls.Call) {
			if k.Backend = "a:1"; i < moved {
				k.Backend = "b:1"
			}
		})
	}
	for name, c := range map[string]struct {
		before, within, seconds int
		load                    float64
		want                    string
	}{
		"all":             {0, 100, -180, 1.2, "switch: calls take longer at b:1"},
		"half":            {25, 75, -180, 1.2, "switch: calls take longer at b:1"},
		"less than half":  {25, 74, -180, 1.2, "none; near: 3m0s switch"},
		"later":           {0, 100, -181, 1.2, "none; near: 3m1s switch"},
		"calls as before": {0, 100, -180, 0.2, "none; near: 3m0s switch"},
	} {
		got := said(Find(longer(func(of *Case) {
			of.Events, of.Within.Load = []markers.Marker{event(markers.KindSwitch, c.seconds, c.seconds)}, c.load
			of.Calls = [2][]calls.Call{at2(c.before), at2(c.within)}
		})))
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestSchemaChangeEdges has the conditions of a schema change one by one.
func TestSchemaChangeEdges(t *testing.T) {
	const drop = "ALTER TABLE orders DROP INDEX k"
	change := func(seconds int, text string) []markers.Marker {
		m := ddl(seconds, "shop.orders", text)
		m.Title = "ddl"
		return []markers.Marker{m}
	}
	for name, c := range map[string]struct {
		change func(*Case)
		want   string
	}{
		"two minutes": {func(c *Case) { c.Events, c.Plans = change(-120, drop), kept("k", -300) }, "ddl: index k was used before"},
		"later":       {func(c *Case) { c.Events, c.Plans = change(-121, drop), kept("k", -300) }, "none; near: 2m1s ddl: its calls were as before for 2m1s"},
		"later, rarely called": {func(c *Case) {
			c.Events, c.Plans, c.Before, c.Within = change(-121, drop), kept("k", -300), Side{Load: 0.001, Calls: 0.049}, Side{Load: 1, Calls: 0.05}
		}, "ddl: index k was used before"},
		"no tables of the change": {func(c *Case) {
			c.Events, c.Plans = change(-3, drop), kept("k", -300)
			c.Events[0].Tables = nil
		}, "none; near: 3s ddl"},
		"no tables of the statement": {func(c *Case) { c.Events, c.Plans, c.Tables = change(-3, drop), kept("k", -300), nil }, "none; near: 3s ddl"},
		"a new statement":            {func(c *Case) { c.Events, c.Plans, c.New = change(-3, drop), kept("k", -300), true }, "none; near: 3s ddl"},
		"no plan, no index":          {func(c *Case) { c.Events = change(-3, "ALTER TABLE orders ADD COLUMN x INT") }, "none; near: 3s ddl"},
		"no plan, an index":          {func(c *Case) { c.Events = change(-3, drop) }, "none; near: 3s ddl"},
		"seen three minutes later": {func(c *Case) {
			c.Events, c.Plans = change(-3, "ALTER TABLE orders ADD COLUMN x INT"), replaced("k", -300, 195)
		}, "ddl: plan changed 3m18s later"},
		"seen later than that": {func(c *Case) {
			c.Events, c.Plans = change(-3, "ALTER TABLE orders ADD COLUMN x INT"), replaced("k", -300, 196)
		}, "none; near: 3s ddl: the plan did not change"},
		"the first plan is seen after it": {func(c *Case) {
			c.Events, c.Plans = change(-3, drop), explain.State{Plans: []explain.Plan{plan("1", "ref", "k", 5, 5)}, At: at(5)}
		}, "none; near: 3s ddl: its index was not used"},
		"first seen within the clocks": {func(c *Case) {
			c.Events, c.Plans = change(-3, drop), explain.State{Plans: []explain.Plan{plan("1", "ref", "k", -1, -1)}, At: at(-3)}
		}, "ddl: index k was used before"},
		"an index that was used is used since": {func(c *Case) {
			p := replaced("k", -300, 5)
			p.Plans[0].Steps[0].Key, p.Changes[0].After.Steps[0].Key, p.Changes[0].After.Steps[0].Access = "k", "k", "range"
			c.Events, c.Plans = change(-3, "CREATE INDEX k ON orders (a)"), p
		}, "plan: orders ref by k, 9 rows → orders range by k, 9 rows, calls take longer (another plan, seen 12:00:05); near: 3s ddl: its index was not used"},
	} {
		if got := said(Find(longer(c.change))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPlanEdges has the times at which a changed plan is a cause.
func TestPlanEdges(t *testing.T) {
	const found = "plan: orders ref by k, 9 rows → orders full scan, 9 rows, calls take longer"
	for name, c := range map[string]struct {
		before, after int
		want          bool
	}{
		"at the earliest onset": {-300, -15, true}, "before it": {-300, -16, false},
		"three minutes late": {-300, 195, true}, "later": {-300, 196, false},
		"confirmed at the latest onset": {15, 20, true}, "confirmed later": {16, 20, false},
	} {
		got := said(Find(longer(func(of *Case) { of.Plans = replaced("k", c.before, c.after) })))
		if want := map[bool]string{true: found + " (another plan, seen " + at(c.after).Format(time.TimeOnly) + ")", false: "none"}[c.want]; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	two := func(a, b string) *explain.Plan {
		p := &explain.Plan{}
		for _, table := range []string{a, b} {
			if table != "" {
				p.Steps = append(p.Steps, explain.Step{Table: table, Access: "ALL", Rows: 1, Depth: 2})
			}
		}
		return p
	}
	for _, c := range []struct {
		before, after *explain.Plan
		want          string
	}{
		{two("a", "b"), two("a", "b"), "another plan"},
		{two("a", "b"), two("a", "c"), "b full scan, 1 row → c full scan, 1 row"},
		{two("a", "b"), two("a", ""), "b full scan, 1 row → nothing"},
		{two("a", ""), two("a", "b"), "nothing → b full scan, 1 row"},
		{two("", ""), two("", ""), "another plan"},
	} {
		if got := differing(c.before, c.after); strings.ReplaceAll(got, "rows", "row") != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestSides has the averages of a side, and the averages that count as longer.
func TestSides(t *testing.T) {
	if (&Side{Load: 1}).took() != 0 || (&Side{Load: 1, Calls: 4}).took() != 0.25 || perCall(&Side{Rows: 3}) != 0 || perCall(&Side{Rows: 3, Calls: 2}) != 1.5 {
		t.Error("averages of calls")
	}
	for name, c := range map[string]struct {
		before, within Side
		isNew, want    bool
	}{
		"as long":           {Side{Load: 1, Calls: 1}, Side{Load: 1.39, Calls: 1}, false, false},
		"longer":            {Side{Load: 1, Calls: 1}, Side{Load: 1.4, Calls: 1}, false, true},
		"new":               {Side{Load: 1, Calls: 1}, Side{Load: 1.4, Calls: 1}, true, false},
		"none before":       {Side{}, Side{Load: 1, Calls: 1}, false, true},
		"none has finished": {Side{Load: 1, Calls: 1}, Side{Load: 1}, false, true},
	} {
		if got := (&Case{Before: c.before, Within: c.within, New: c.isNew}).longer(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for d, want := range map[time.Duration]string{-time.Minute: "at the same time", time.Second - 1: "at the same time", time.Second: "1s later", 1600 * time.Millisecond: "2s later"} {
		if got := laterBy(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	for f, want := range map[float64]string{0: "0 %", 0.004: "0 %", 0.005: "1 %", 0.995: "100 %"} {
		if got := percent(f); got != want {
			t.Errorf("%v is %s, want %s", f, got, want)
		}
	}
}

// TestWords splits texts of schema changes at each kind of character.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":              "",
		" \t\r\nA":      "a",
		"`A b`\"C\"'D'": "a b|c|d",
		"`a``b`":        "a|b",
		"a(b,c)":        "a|(|b|,|c|)",
		"_a$9é@[`z":     "_a$9é|@|[",
		"azAZ09{^/:":    "azaz09|{|^|/|:",
		"''x":           "|x",
	} {
		if got := strings.Join(ddlWords(text), "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"INDEX":           "[]",
		"DROP INDEX":      "[{ true false}]",
		"PRIMARY KEY (a)": "[]",
		"ALTER TABLE t ALTER INDEX IF EXISTS k IGNORED": "[{k true false}]",
		"ALTER TABLE t RENAME KEY IF EXISTS a TO b":     "[{a true false} {b false true}]",
		"CREATE INDEX IF NOT EXISTS":                    "[]",
		"DROP INDEX IF EXISTS k ON t":                   "[{k true false}]",
		"ALTER TABLE t ADD UNIQUE INDEX u (a)":          "[{u false true}]",
		"ALTER TABLE t ADD PRIMARY INDEX":               "[{primary false true}]",
		"FOREIGN KEY f":                                 "[]",
	} {
		if got := fmt.Sprint(indexesOf(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
