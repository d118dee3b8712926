package sqlplan

import "sync/atomic"

// RuleHits is how many commands one rule refused, or would have.
type RuleHits struct {
	Rule   string
	Action string // block, read-only, deny or dry-run
	Count  uint64
}

// RuleHits returns the hits of each rule in force that may refuse, in the rules' order. A rule that a
// reload keeps under its name and action keeps its count.
func (p *Planner) RuleHits() []RuleHits {
	var all []RuleHits
	p.state.Load().rules.each(func(r *compiledRule) {
		all = append(all, RuleHits{Rule: r.Name, Action: r.outcome(), Count: r.hits.Load()})
	})
	return all
}

// Hit counts a command that the plan's rule refused, or would have, and returns what happened to
// it, as RuleHits calls it: "" when no rule had a say. It does not allocate.
func (p *Plan) Hit() (action string) {
	if p.rule == nil {
		return ""
	}
	p.rule.hits.Add(1)
	return p.rule.outcome()
}

// each visits the rules that may refuse.
func (s *ruleSet) each(visit func(*compiledRule)) {
	for i := range s.rules {
		if s.rules[i].Action != ActionAllow {
			visit(&s.rules[i])
		}
	}
	if s.deny != nil {
		visit(s.deny)
	}
}

// outcome is what happens to a command that the rule is the reason for.
func (r *compiledRule) outcome() string {
	switch {
	case r.DryRun:
		return "dry-run"
	case r.Action == 0:
		return "deny"
	}
	return r.Action.String()
}

// inherit has the rules continue the counts of the set before.
func (s *ruleSet) inherit(before *ruleSet) {
	type series struct{ name, action string }
	counts := map[series]*atomic.Uint64{}
	before.each(func(r *compiledRule) { counts[series{r.Name, r.outcome()}] = r.hits })
	s.each(func(r *compiledRule) {
		if hits, ok := counts[series{r.Name, r.outcome()}]; ok {
			r.hits = hits
		}
	})
}
