package sqlplan

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/sqldigest"
)

func TestGetFindsWhatPlanMade(t *testing.T) {
	p := newPlanner(t)
	c := client{schema: "shop", user: "app"}
	st := c.statement(p, "select * from orders where id = 1")
	if p.Get(st.Digest, st.Scope) != nil {
		t.Fatal("a plan in an empty cache")
	}
	plan := p.Plan(st)
	if got := p.Get(st.Digest, st.Scope); got != plan {
		t.Fatalf("Get = %p, want the plan made, %p", got, plan)
	}
	if again := p.Plan(c.statement(p, "SELECT * FROM orders WHERE id = 2")); again != plan {
		t.Error("another value made another plan")
	}
	for name, other := range map[string]client{
		"schema": {schema: "other", user: "app"},
		"mode":   {schema: "shop", user: "app", mode: sqldigest.NoBackslashEscapes},
	} {
		if got := p.Get(st.Digest, other.statement(p, "select 1").Scope); got != nil {
			t.Errorf("another %s finds the same plan", name)
		}
	}
	s := p.Stats()
	if s.Parsed != 1 || s.Cache.Entries != 1 || s.Cache.Bytes != p.Bytes() || p.Bytes() > p.Capacity() {
		t.Errorf("stats %+v", s)
	}
	if l := p.Largest(5); len(l) != 1 || l[0].Plan != plan || l[0].Digest != st.Digest || l[0].Scope != st.Scope ||
		l[0].Bytes <= int64(plan.bytes) {
		t.Errorf("largest %+v", l)
	}
}

// TestPlanIsDetached asserts that the plan references no memory of the statement.
func TestPlanIsDetached(t *testing.T) {
	p := newPlanner(t)
	c := client{schema: "shop"}
	st := c.statement(p, "select /*+ NO_INDEX_MERGE(orders) */ * from orders where id = 1")
	plan := p.Plan(st)
	var before strings.Builder
	describe(&before, plan)
	for _, b := range [...][]byte{st.SQL, st.Text, st.Schema, st.User} {
		for i := range b {
			b[i] = '#'
		}
	}
	var after strings.Builder
	describe(&after, plan)
	if before.String() != after.String() {
		t.Errorf("plan was %s, is %s after its statement was overwritten", before.String(), after.String())
	}
}

func TestScope(t *testing.T) {
	p := newPlanner(t,
		Rule{Name: "a", Action: ActionReadOnly, Users: []string{"ann", "bob"}},
		Rule{Name: "b", Action: ActionReadOnly, Users: []string{"bob"}},
		Rule{Name: "c", Action: ActionBlock, Types: []Type{TypeKill}},
	)
	scope := func(schema, user string, m sqldigest.Mode) Scope {
		return p.ScopeOf([]byte(schema), []byte(user), m)
	}
	base := scope("shop", "carl", 0)
	if scope("shop", "dora", 0) != base || scope("shop", "", 0) != base {
		t.Error("users that no rule names do not share their plans")
	}
	seen := map[Scope]string{}
	for _, schema := range []string{"", "shop", "shopann", "s", "sho"} {
		for _, user := range []string{"carl", "ann", "bob"} {
			for m := range sqldigest.Mode(4) {
				what := fmt.Sprintf("%q %q %b", schema, user, m)
				s := scope(schema, user, m)
				if other, ok := seen[s]; ok {
					t.Errorf("%s has the scope of %s", what, other)
				}
				seen[s] = what
			}
		}
	}
	epoch := p.RulesEpoch()
	if err := p.SetRules(nil); err != nil {
		t.Fatal(err)
	}
	if p.RulesEpoch() == epoch {
		t.Error("RulesEpoch does not show that rules changed")
	}
	if _, ok := seen[scope("shop", "carl", 0)]; ok {
		t.Error("a scope of other rules is still in use")
	}
}

// TestStaleScope asserts that a session that missed a change of the rules gets the new verdict, without
// effect on other sessions.
func TestStaleScope(t *testing.T) {
	p := newPlanner(t)
	ann, bob := client{schema: "shop", user: "ann"}, client{schema: "shop", user: "bob"}
	annOld, bobOld := ann.statement(p, "delete from orders"), bob.statement(p, "delete from orders")
	if v, _ := p.Plan(annOld).Verdict(); v != VerdictPass {
		t.Fatalf("%v without rules", v)
	}
	err := p.SetRules([]Rule{{Name: "ann", Action: ActionReadOnly, Users: []string{"ann"}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Get(annOld.Digest, annOld.Scope) != nil {
		t.Error("a plan of the old rules is reachable")
	}
	if v, rule := p.Plan(annOld).Verdict(); v != VerdictReadOnly || rule != "ann" {
		t.Errorf("old scope, new rules: %v by %q", v, rule)
	}
	if v, _ := p.Plan(bobOld).Verdict(); v != VerdictPass {
		t.Errorf("another user of the same old scope: %v", v)
	}
	if n := p.Stats().Refused[RefusedScope]; n != 2 {
		t.Errorf("%d plans refused for their scope, want 2", n)
	}
	if err := p.SetRules([]Rule{{}}); err == nil {
		t.Error("an empty rule was taken")
	}
}

func TestInvalidate(t *testing.T) {
	p := newPlanner(t)
	var c client
	idle := p.Bytes()
	st := c.statement(p, "select 1 from t")
	p.Plan(st)
	if p.Bytes() <= idle {
		t.Fatal("a plan takes no bytes")
	}
	p.Invalidate()
	if got := p.Bytes(); got != idle {
		t.Errorf("%d bytes after Invalidate, want %d", got, idle)
	}
	if p.Get(st.Digest, st.Scope) != nil {
		t.Error("an invalidated plan is reachable")
	}
}

// TestRefused asserts that statements that may not be cached are planned and counted, but not cached.
func TestRefused(t *testing.T) {
	p, err := New(Options{CacheBytes: 1 << 20, MaxCachedStatement: 2000, MaxListItems: 20, MaxParse: 3000})
	if err != nil {
		t.Fatal(err)
	}
	columns := strings.Repeat("c, ", 800)
	for _, c := range []struct {
		name, sql string
		change    func(*Statement)
		want      Refusal
		parsed    bool
	}{
		{"kept", "select 1 from t", nil, keep, true},
		{"long", "select " + columns + "c from t", nil, RefusedLong, false},
		{"list", "select * from t where a in (" + strings.Repeat("f, ", 20) + "g)", nil, RefusedList, true},
		{
			"collapsed list", "select * from t where a in (" + strings.Repeat("1, ", 2000) + "2)", nil, keep, true,
		},
		{
			"text cut", "select b from t", func(st *Statement) { st.Text = st.Text[:6] },
			RefusedIncomplete, false,
		},
		{
			"text of another statement", "select c from t",
			func(st *Statement) { st.Text = []byte("SELECT ?") }, RefusedIncomplete, false,
		},
		{
			"sql cut", "select d from t", func(st *Statement) { st.Text, st.SQL, st.Complete = nil, st.SQL[:8], false },
			RefusedIncomplete, false,
		},
		{"foreign scope", "select e from t", func(st *Statement) { st.Scope = Scope{1} }, RefusedScope, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := client{schema: "shop"}
			st := cl.statement(p, c.sql)
			if c.change != nil {
				c.change(&st)
			}
			before := p.Stats()
			plan := p.Plan(st)
			if plan == nil {
				t.Fatal("no plan")
			}
			after := p.Stats()
			for _, r := range Refusals() {
				if n := after.Refused[r] - before.Refused[r]; (n == 1) != (r == c.want) || n > 1 {
					t.Errorf("%d plans refused as %s", n, r)
				}
			}
			if kept := p.Get(st.Digest, st.Scope) != nil; kept != (c.want == keep) {
				t.Errorf("kept: %v", kept)
			}
			if plan.Parsed() != c.parsed {
				t.Errorf("parsed: %v", plan.Parsed())
			}
			if plan.Type() != TypeSelect {
				t.Errorf("type %v", plan.Type())
			}
			if c.want == RefusedIncomplete && !st.Complete && (plan.ReadOnly() || !plan.Effects().Has(EffectUnknown)) {
				t.Errorf("a statement not seen whole is read-only=%v with effects %v", plan.ReadOnly(), plan.Effects())
			}
		})
	}
}

func TestOptions(t *testing.T) {
	_, err := New(Options{CacheBytes: -1, MaxParse: -2, MaxListItems: -3, MaxCachedStatement: -4, Rules: []Rule{{Name: "r"}}})
	if err == nil {
		t.Fatal("impossible options were taken")
	}
	for _, want := range []string{
		"CacheBytes is negative: -1", "MaxCachedStatement is negative: -4", "MaxListItems is negative: -3",
		"MaxParse is negative: -2", `rule "r": action is neither`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if _, err := New(Options{CacheBytes: 1}); err == nil {
		t.Error("a cache of one byte was made")
	}
	if _, err := New(Options{MaxParse: maxText + 1}); err == nil {
		t.Error("a limit past the width of offsets was taken")
	}
}

// TestConcurrent has sessions plan the same and different statements while rules change. Under the race
// detector it tests the locks; it always tests that each verdict is one of some current rules.
func TestConcurrent(t *testing.T) {
	p := newPlanner(t)
	rules := []Rule{{Name: "ann", Action: ActionReadOnly, Users: []string{"ann"}}}
	var wg sync.WaitGroup
	for _, user := range []string{"ann", "bob", "ann", "bob"} {
		wg.Go(func() {
			c := client{schema: "shop", user: user}
			for i := range 300 {
				st := c.statement(p, fmt.Sprintf("delete from t%d where id = %d", i%7, i))
				plan := p.Get(st.Digest, st.Scope)
				if plan == nil {
					plan = p.Plan(st)
				}
				if v, _ := plan.Verdict(); v != VerdictPass && user == "bob" {
					t.Errorf("bob: %v", v)
				}
			}
		})
	}
	for i := range 50 {
		if err := p.SetRules(rules[:i%2]); err != nil {
			t.Error(err)
		}
		p.Invalidate()
	}
	testwait.Group(t, "the planners", &wg)
}

// TestOneComputation asserts that concurrent misses of one statement create one plan.
func TestOneComputation(t *testing.T) {
	p := newPlanner(t)
	const n = 16
	plans := make([]*Plan, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := client{schema: "shop"}
			plans[i] = p.Plan(c.statement(p, "select * from orders where id = "+fmt.Sprint(i)))
		})
	}
	testwait.Group(t, "the planners", &wg)
	for _, plan := range plans {
		if plan != plans[0] {
			t.Fatal("two plans of one statement")
		}
	}
	if got := p.Stats().Parsed; got != 1 {
		t.Errorf("parsed %d times", got)
	}
}
