package sqlplan

import (
	"slices"
	"sync/atomic"

	"github.com/taredb/tare/sqldigest"
)

// denyName is the name under which refusals of statements without a matching allow rule are counted.
const denyName = "default-deny"

// denial returns the rule that represents the refusal of statements without a matching allow rule, or nil if
// there are no allow rules.
func (s *ruleSet) denial() *compiledRule {
	allows, dry := false, true
	for i := range s.rules {
		if r := &s.rules[i]; r.Action == ActionAllow {
			allows, dry = true, dry && r.DryRun
		}
	}
	if !allows {
		return nil
	}
	return &compiledRule{Rule: Rule{Name: denyName, DryRun: dry}, hits: new(atomic.Uint64)}
}

// allows reports whether an allow rule matches the statement. Like the other actions, it counts uncertainty
// against the statement: an uncertain match is none.
func (r *compiledRule) allows(st *Statement, a *analysis) bool {
	if !a.parsed || a.opaque {
		return false
	}
	if a.effects.Has(EffectFunction) && (r.types != 0 || len(r.tables) > 0) {
		return false // the function's body may be of any type and use any table
	}
	return (len(r.Users) == 0 || r.names(st.User)) &&
		(len(r.Digests) == 0 || slices.Contains(r.Digests, st.Digest)) &&
		(r.types == 0 || a.typesWithin()&^r.types == 0) &&
		(len(r.tables) == 0 || a.within(r.tables))
}

// typesWithin returns the types of the statement, including select if only a subquery of it names tables.
func (a *analysis) typesWithin() typeSet {
	types := a.types
	switch a.typ {
	case TypeSet, TypeDo, TypeCall, TypeKill:
		if len(a.tables.list) > 0 {
			types.add(TypeSelect)
		}
	}
	return types
}

// within reports whether the statement names tables, reaches no others, and each of them certainly matches a
// pattern.
func (a *analysis) within(patterns []tablePattern) bool {
	if a.anyTable {
		return false
	}
	for _, t := range a.tables.list {
		if !slices.ContainsFunc(patterns, func(p tablePattern) bool { return p.covers(t) }) {
			return false
		}
	}
	return len(a.tables.list) > 0
}

// covers reports whether the pattern certainly matches a table, even if an empty schema or name represents
// any.
func (p tablePattern) covers(t tableRef) bool {
	return coversName(p.schema, t.schema, t.unsureSchema) && coversName(p.table, t.name, t.unsureName)
}

// coversName is globName for patterns that have to match every possible reading.
func coversName(pattern, name string, unsure bool) bool {
	if pattern == "*" {
		return true
	}
	if name == "" || unsure || !isASCII(name) || !globMatch(pattern, name) {
		return false
	}
	kw := sqldigest.LookupKeyword(name)
	if kw == 0 {
		return true
	}
	for _, s := range synonyms {
		if sqldigest.LookupKeyword(s) == kw && !globMatch(pattern, s) {
			return false
		}
	}
	return true
}
