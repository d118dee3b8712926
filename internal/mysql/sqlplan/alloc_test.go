package sqlplan

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/sqldigest"
)

func TestAllocs(t *testing.T) {
	p := newPlanner(t,
		Rule{Name: "reports", Action: ActionReadOnly, Users: []string{"reporter", "analyst"}},
		Rule{Name: "no-kill", Action: ActionBlock, Types: []Type{TypeKill}},
	)
	c := client{schema: "shop", user: "reporter"}
	st := c.statement(p, "delete /*+ x(o) */ o from orders as o join items i on i.order_id = o.id where o.id = 5")
	plan := p.Plan(st)
	miss := st.Digest
	miss[0]++
	errWrong := errors.New("wrong answer")
	must := func(ok bool) error {
		if !ok {
			return errWrong
		}
		return nil
	}
	alloctest.Run(t, []alloctest.Case{
		{Name: "Get, hit", Op: func() error { return must(p.Get(st.Digest, st.Scope) == plan) }},
		{Name: "Get, miss", Op: func() error { return must(p.Get(miss, st.Scope) == nil) }},
		{Name: "ScopeOf", Op: func() error { return must(p.ScopeOf(st.Schema, st.User, st.Mode) == st.Scope) }},
		{Name: "Divergent", Op: func() error { return must(!sqldigest.Divergent(st.SQL, 0)) }},
		{Name: "Scope.Divergent", Op: func() error { return must(st.Scope.Divergent() != st.Scope) }},
		{Name: "RulesEpoch", Op: func() error { return must(p.RulesEpoch() == 0) }},
		{Name: "Verdict", Op: func() error {
			v, rule := plan.Verdict()
			return must(v == VerdictReadOnly && rule == "reports")
		}},
		{Name: "Tables", Op: func() error {
			n := 0
			for t := range plan.Tables() {
				n += len(t.Name)
			}
			return must(n == len("orders")+len("items"))
		}},
		{Name: "Hints", Op: func() error {
			n := 0
			for h := range plan.Hints() {
				n += len(h)
			}
			return must(n > 0)
		}},
		{Name: "LiteralPositions", Op: func() error {
			n := 0
			for at := range plan.LiteralPositions() {
				n += at
			}
			return must(n > 0 && st.Text[n] == '?')
		}},
		{Name: "Bytes", Op: func() error { return must(p.Bytes() > 0) }},
	})
}
