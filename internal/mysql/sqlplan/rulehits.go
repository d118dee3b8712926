package sqlplan

import "sync/atomic"

// RuleHits is the number of commands that one rule refused, or would have.
type RuleHits struct {
	Rule   string
	Action string // block, read-only, deny or dry-run
	Count  uint64
}

// RuleHits returns the hits of each current rule that may refuse, in the rules' order. A rule that a reload
// keeps under its name and action keeps its count.
func (p *Planner) RuleHits() []RuleHits {
	var all []RuleHits
	p.state.Load().rules.each(func(r *compiledRule) {
		all = append(all, RuleHits{Rule: r.Name, Action: r.outcome(), Count: r.hits.Load()})
	})
	return all
}

// Hit counts a command that the plan's rule refused, or would have, and returns the outcome as named in
// RuleHits: "" if no rule applied. It does not allocate.
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

// outcome returns the outcome of a command to which the rule applied.
func (r *compiledRule) outcome() string {
	switch {
	case r.DryRun:
		return "dry-run"
	case r.Action == 0:
		return "deny"
	}
	return r.Action.String()
}

// inherit continues the counts of the previous set.
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
