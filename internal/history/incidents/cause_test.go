package incidents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func ddl(seconds int, table, text string) markers.Marker {
	return markers.Marker{Kind: markers.KindDDL, Time: at(seconds), End: at(seconds), Text: text, Tables: []string{table}}
}

func plan(id, access, key string, first, last int) explain.Plan {
	return explain.Plan{ID: id, Steps: []explain.Step{{Table: "orders", Access: access, Key: key, Rows: 9}}, First: at(first), Last: at(last)}
}

// replaced returns the plans of a statement that read an index until before, and scans since after.
func replaced(index string, before, after int) explain.State {
	old, present := plan("1", "ref", index, -3600, before), plan("2", "ALL", "", after, after)
	return explain.State{Plans: []explain.Plan{present, old}, At: at(after), Changes: []explain.Change{{At: at(after), Before: old, After: present}}}
}

// kept returns the plan of a statement that still reads an index.
func kept(index string, last int) explain.State {
	return explain.State{Plans: []explain.Plan{plan("1", "ref", index, -3600, last)}, At: at(last)}
}

// sampled returns calls of a statement, half of them from each of two clients.
func sampled(n int, change func(i int, k *calls.Call)) []calls.Call {
	all := make([]calls.Call, n)
	for i := range all {
		all[i] = calls.Call{End: at(-60), Took: time.Millisecond, Weight: 1, User: "app", Client: fmt.Sprintf("10.0.0.%d", i%2), Schema: "shop"}
		change(i, &all[i])
	}
	return all
}

func same(int, *calls.Call) {}

// longer is the case of a statement whose calls take six times longer since noon, give or take 15 s.
func longer(change func(c *Case)) *Case {
	c := &Case{
		Digest: "01", Text: "SELECT * FROM orders WHERE customer = ?", Tables: []string{"shop.orders"},
		Onset: Onset{at(0), at(-15), at(15)}, Until: at(600), Before: Side{Load: 0.2, Calls: 10, Rows: 10}, Within: Side{Load: 1.2, Calls: 10, Rows: 10},
	}
	change(c)
	return c
}

// TestFind checks each kind of evidence, and each veto.
func TestFind(t *testing.T) {
	const drop, add = "ALTER TABLE `orders` DROP INDEX `k`", "CREATE INDEX k2 ON orders (customer, note)"
	deploy := func(seconds int) markers.Marker {
		return markers.Marker{Kind: "deploy", Title: "shop 4.2", Time: at(seconds), End: at(seconds)}
	}
	direct := Lock{From: at(-2), To: at(590), Lasts: true, Direct: true, Waiters: 8, Holder: "a row lock of connection 7"}
	for name, c := range map[string]struct {
		change func(c *Case)
		want   string // kind and evidence, then events nearby
	}{
		"nothing": {func(*Case) {}, "none"},
		"a used index is dropped": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", drop)}, replaced("k", -300, 5)
		}, "ddl: plan changed 8s later, index k was used before"},
		"before the next EXPLAIN": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", drop)}, kept("k", -300)
		}, "ddl: index k was used before"},
		"an unused index": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", drop)}, kept("k9", -300)
		}, "none; near: its index was not used"},
		"the plan did not change": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", drop)}, kept("k", 5)
		}, "none; near: the plan did not change"},
		"the plan changed later": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-400, "shop.orders", "ALTER TABLE orders ADD COLUMN x INT")}, replaced("k", -390, 20)
		}, "plan: orders ref by k, 9 rows → orders full scan, 9 rows, calls take longer; near: its calls were as before for 6m40s"},
		"the plan was confirmed after it": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-60, "shop.orders", "ALTER TABLE orders ADD COLUMN x INT")}, replaced("k", -59, 20)
		}, "plan: orders ref by k, 9 rows → orders full scan, 9 rows, calls take longer; near: the plan did not change"},
		"its own load": {func(c *Case) {
			c.Text = drop
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", drop)}, kept("k", -300)
		}, "none"},
		"another table": {func(c *Case) {
			c.Events = []markers.Marker{ddl(-3, "shop.goods", drop)}
		}, "none; near: another table"},
		"after the onset": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(16, "shop.orders", drop)}, replaced("k", -300, 20)
		}, "plan: orders ref by k, 9 rows → orders full scan, 9 rows, calls take longer"},
		"calls do not take longer": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", drop)}, replaced("k", -300, 5)
			c.Within.Calls = 60
		}, "none; near: calls do not take longer"},
		"an index is added": {func(c *Case) {
			p := replaced("k", -300, 5)
			p.Plans[0].Steps[0].Key, p.Changes[0].After.Steps[0].Key = "k2", "k2"
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", add)}, p
		}, "ddl: plan changed 8s later, index k2 is used since"},
		"an index is added that is not used": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{ddl(-3, "shop.orders", add)}, replaced("k", -300, 5)
		}, "plan: orders ref by k, 9 rows → orders full scan, 9 rows, calls take longer; near: its index was not used"},
		"statistics": {func(c *Case) {
			c.Events, c.Plans = []markers.Marker{{Kind: markers.KindAnalyze, Time: at(-3), End: at(-3), Tables: []string{"shop.orders"}}}, replaced("k", -300, 5)
		}, "analyze: plan changed 8s later"},
		"a lock": {func(c *Case) {
			c.Locks, c.Events = []Lock{direct}, []markers.Marker{deploy(-3)}
		}, "lock: its calls wait for that session; near: shop 4.2"},
		"a lock of other statements": {func(c *Case) {
			l := direct
			l.Direct = false
			c.Locks = []Lock{l}
		}, "none"},
		"a lock for a moment": {func(c *Case) {
			l := direct
			l.Lasts, l.To = false, at(3)
			c.Locks = []Lock{l}
		}, "none"},
		"one session waits": {func(c *Case) {
			l := direct
			l.Waiters = 1
			c.Locks, c.Within.Load = []Lock{l}, 12
		}, "none"},
		"a deployment without evidence": {func(c *Case) { c.Events = []markers.Marker{deploy(-10)} }, "none; near: shop 4.2"},
		"a release tag": {func(c *Case) {
			c.Events = []markers.Marker{deploy(-10)}
			c.Calls = [2][]calls.Call{sampled(40, same), sampled(40, func(_ int, k *calls.Call) { k.Tags = []calls.Tag{{Key: "release", Value: "4.2"}} })}
		}, "deploy: tag release=4.2: 0 % → 100 % of its calls"},
		"a release that ran before the onset": {func(c *Case) {
			c.Events = []markers.Marker{deploy(-170)}
			tagged := func(_ int, k *calls.Call) { k.End, k.Tags = at(-60), []calls.Tag{{Key: "release", Value: "4.2"}} }
			c.Calls = [2][]calls.Call{append(sampled(40, func(_ int, k *calls.Call) { k.End = at(-600) }), sampled(40, tagged)...), sampled(40, tagged)}
		}, "none; near: shop 4.2"},
		"more rows per call": {func(c *Case) {
			c.Events, c.Within.Rows = []markers.Marker{deploy(-10)}, 900
		}, "deploy: rows per call: 1.00 → 90.0"},
		"a statement in a loop": {func(c *Case) {
			c.Events, c.Within = []markers.Marker{deploy(-10)}, Side{Load: 2, Calls: 100, Rows: 100}
			c.Others = &Others{Calls: [2]float64{200, 290}}
		}, "deploy: its callers call it 10.0× as often, other statements as before"},
		"more traffic": {func(c *Case) {
			c.Events, c.Within = []markers.Marker{deploy(-10)}, Side{Load: 2, Calls: 100, Rows: 100}
			c.Others = &Others{Statements: 6, Rose: 6, Calls: [2]float64{200, 2000}}
		}, "traffic: 6 of 6 other statements rose at the same time, 10.0× as many calls; near: shop 4.2"},
		"a slower server": {func(c *Case) {
			c.Others = &Others{Statements: 6, Rose: 5, Calls: [2]float64{200, 190}}
		}, "server: 5 of 6 other statements rose at the same time, calls take longer, at the same rate"},
		"another user": {func(c *Case) {
			c.Within = Side{Load: 1.2, Calls: 60}
			c.Calls = [2][]calls.Call{sampled(40, same), sampled(40, func(i int, k *calls.Call) {
				if i%6 != 0 {
					k.User, k.Client = "batch", "10.0.0.9"
				}
			})}
		}, "caller: 0 % → 83 % of the statement's time"},
		"errors": {func(c *Case) {
			c.Calls = [2][]calls.Call{sampled(40, same), sampled(40, func(i int, k *calls.Call) {
				if i%4 != 0 {
					k.Error = 1114
				}
			})}
		}, "errors: 0 % → 75 % of its calls fail with it"},
		"a new statement of a release": {func(c *Case) {
			c.New, c.Events, c.Others = true, []markers.Marker{deploy(-10)}, &Others{User: at(-3600), UserKnown: true}
		}, "deploy: the statement is new, first called 10s later"},
		"a new statement of a new user": {func(c *Case) {
			c.New, c.Events, c.Others = true, []markers.Marker{deploy(-10)}, &Others{UserKnown: true}
			c.Calls[1] = sampled(10, func(_ int, k *calls.Call) { k.User, k.Client = "report", "10.0.0.9" })
		}, "caller: the user called nothing before; near: shop 4.2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Find(longer(c.change))
			got := "none"
			if f.Cause != nil {
				var all []string
				for _, e := range f.Cause.Evidence {
					all = append(all, e.Text)
				}
				got = string(f.Cause.Kind) + ": " + strings.Join(all, ", ")
			}
			for _, n := range f.Near {
				got += "; near: "
				if got += n.Veto; n.Veto == "" {
					got += n.Event.Name()
				}
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestIndexesOf checks the indexes in the normalized texts of schema changes of both servers.
func TestIndexesOf(t *testing.T) {
	for text, want := range map[string]string{
		"ALTER TABLE `t` DROP INDEX `k`, ADD INDEX `K2` (`a`)":          "-k +k2",
		"alter table t drop key if exists k":                            "-k",
		"ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)":           "-primary +primary",
		"ALTER TABLE t ALTER INDEX k INVISIBLE":                         "-k",
		"ALTER TABLE t ALTER INDEX k VISIBLE":                           "+k",
		"ALTER TABLE t ALTER KEY k NOT IGNORED":                         "+k",
		"ALTER TABLE t ALTER KEY k IGNORED":                             "-k",
		"ALTER TABLE t RENAME INDEX a TO b":                             "-a +b",
		"CREATE UNIQUE INDEX IF NOT EXISTS k ON t (a)":                  "+k",
		"CREATE OR REPLACE INDEX k ON t (a)":                            "+k",
		"CREATE INDEX k ON t (a)":                                       "+k",
		"DROP INDEX k ON t":                                             "-k",
		"ALTER TABLE t ADD FULLTEXT KEY f (a), ADD SPATIAL INDEX s (b)": "+f +s",
		"ALTER TABLE t ADD INDEX (a)":                                   "",
		"ALTER TABLE t DROP FOREIGN KEY f":                              "",
		"ALTER TABLE t ADD COLUMN a INT":                                "",
		"ANALYZE TABLE t":                                               "",
		"ALTER TABLE t ADD CONSTRAINT c UNIQUE KEY u (a)":               "+u",
		"ALTER TABLE t DROP INDEX `unfinished":                          "",
	} {
		var got []string
		for _, x := range indexesOf(text) {
			sign := "+"
			if x.gone {
				sign = "-"
			}
			if x.name != "" {
				got = append(got, sign+x.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", text, strings.Join(got, " "), want)
		}
	}
}
