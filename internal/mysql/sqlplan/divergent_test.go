package sqlplan

import "testing"

// TestDivergentIsKeptApart asserts that a statement that servers read in different ways never shares a plan
// with the statement that its digest represents.
func TestDivergentIsKeptApart(t *testing.T) {
	p := newPlanner(t, Rule{Name: "no-delete", Action: ActionBlock, Types: []Type{TypeDelete}})
	c := client{schema: "shop"}
	plain := c.statement(p, "select '' from t")
	plainPlan := p.Plan(plain)
	if !plainPlan.ReadOnly() {
		t.Fatal("the plain statement is a writer")
	}
	var other client
	other.schema = "shop"
	trick := other.statement(p, "select /*!99999 '*/ 1; delete from t -- ' */ from t")
	if trick.Digest != plain.Digest {
		t.Fatal("the digests differ: this test is about two statements of one digest")
	}
	if p.Get(trick.Digest, trick.Scope) != nil {
		t.Error("the trick finds the plain statement's plan")
	}
	plan := p.Plan(trick)
	if v, _ := plan.Verdict(); v != VerdictBlocked || plan.ReadOnly() || !plan.Effects().Has(EffectUnknown) {
		t.Errorf("the trick: %v, read-only %v, effects %v", v, plan.ReadOnly(), plan.Effects())
	}
	if p.Get(trick.Digest, trick.Scope) != plan || p.Get(plain.Digest, plain.Scope) != plainPlan {
		t.Error("the two plans are not kept side by side")
	}

	// A caller that forgets Divergent gets the right result, without effect on others.
	trick.Scope = plain.Scope
	p.Invalidate()
	if v, _ := p.Plan(trick).Verdict(); v != VerdictBlocked {
		t.Errorf("the trick under the plain scope: %v", v)
	}
	if p.Get(plain.Digest, plain.Scope) != nil {
		t.Error("its plan is kept under the plain scope")
	}
}
