package sqlplan

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/taredb/tare/mysql/sqldigest"
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

// allows reports whether an allow rule matches the statement, and the effects and types that it lacks otherwise, if
// nothing else does. Like the other actions, it counts uncertainty against the statement: an uncertain match is none.
func (r *compiledRule) allows(st *Statement, a *analysis) (ok bool, types typeSet, effects Effect) {
	if len(r.Users) > 0 && !r.names(st.User) || len(r.Digests) > 0 && (a.unsure || !slices.Contains(r.Digests, st.Digest)) {
		return false, 0, 0
	}
	if r.types == 0 && len(r.tables) == 0 {
		return true, 0, 0
	}
	if a.opaque || !a.parsed && (a.routine || a.wrapped) || len(r.tables) > 0 && (!a.parsed || !a.within(r.tables)) {
		return false, 0, 0
	}
	if r.types != 0 {
		types = a.typesWithin() &^ r.types
	}
	effects = a.ruleEffects() &^ (r.effect | impliedBy(r.types))
	return types == 0 && effects == 0, types, effects
}

// ruleEffects returns the effects that rules are about. A CALL is judged by its type: the server restores the
// session's modes at its end.
func (a *analysis) ruleEffects() Effect {
	e := a.effects
	if a.typ == TypeCall {
		e |= EffectFunction
		if !a.opaque {
			e &^= EffectUnknown
		}
	}
	return e
}

// effectsOfAny are implied by every type: they stay within the session and change no setting of it.
const effectsOfAny = EffectUserVarRead | EffectUserVarWrite | EffectLastResult | EffectConnectionID | EffectFoundRows | EffectInsertID

// effectsBeyond reach past the tables of a statement: an allow rule with tables and without types implies all others.
const effectsBeyond = EffectFile | EffectFileRead | EffectFunction | EffectGlobalVar | EffectAdmin | EffectUnknown

// Implied returns the effects that an allow rule with the type permits.
func (t Type) Implied() Effect {
	switch t {
	case TypeInsert:
		return EffectRowInsert | EffectSequence
	case TypeReplace:
		return EffectRowInsert | EffectRowDelete | EffectSequence
	case TypeUpdate:
		return EffectRowUpdate | EffectRowLocks | EffectSequence
	case TypeDelete:
		return EffectRowDelete | EffectRowLocks
	case TypeDDL:
		return EffectSchema | EffectImplicitCommit | EffectTempTable
	case TypeSet:
		return EffectSessionVar | EffectSQLMode | EffectCharset | EffectAutocommit | EffectTxMode | EffectImplicitCommit | EffectRole
	case TypeBegin:
		return EffectBegin | EffectImplicitCommit
	case TypeCommit:
		return EffectCommit | EffectBegin
	case TypeRollback:
		return EffectRollback | EffectBegin
	case TypeSavepoint:
		return EffectSavepoint
	case TypeUse:
		return EffectUse
	case TypeCall:
		return EffectFunction
	case TypePrepare, TypeExecute, TypeDeallocate:
		return EffectPrepare
	case TypeLoad:
		return EffectRowInsert
	case TypeLock:
		return EffectTableLocks | EffectRowLocks | EffectNamedLock | EffectImplicitCommit
	case TypeUnlock:
		return EffectTableLocks | EffectImplicitCommit
	case TypeKill:
		return EffectAdmin
	case TypeFlush:
		return EffectAdmin | EffectTableLocks | EffectSchema | EffectImplicitCommit
	case TypeAnalyze, TypeOther:
		return EffectAdmin | EffectImplicitCommit
	case TypeGrant:
		return EffectSchema | EffectImplicitCommit
	case TypeXA:
		return EffectXA
	case TypeHandler:
		return EffectHandler
	}
	return 0
}

// impliedBy returns the effects that the types of an allow rule permit.
func impliedBy(types typeSet) Effect {
	if types == 0 {
		return ^effectsBeyond
	}
	e := effectsOfAny
	for t := range typeCount {
		if types&(1<<t) != 0 {
			e |= t.Implied()
		}
	}
	return e
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
	if !a.parsed && a.typ != TypeGrant && (a.has("select", 0, len(a.toks)) || a.has("with", 0, len(a.toks)) || a.has("values", 0, len(a.toks))) {
		types.add(TypeSelect) // possibly
	}
	return types
}

// lacking returns the words that a rule has to add to match a statement: "rule "shop" requires effects: [row-locks]".
func lacking(rule string, types typeSet, effects Effect) string {
	var lists []string
	if types != 0 {
		var names []string
		for t := range typeCount {
			if types&(1<<t) != 0 {
				names = append(names, t.String())
			}
		}
		lists = append(lists, "types: ["+strings.Join(names, ", ")+"]")
	}
	if effects != 0 {
		lists = append(lists, "effects: ["+strings.ReplaceAll(effects.String(), ",", ", ")+"]")
	}
	return fmt.Sprintf("rule %q requires %s for it", rule, strings.Join(lists, " and "))
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
