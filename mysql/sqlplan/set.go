package sqlplan

import (
	"strings"
)

// A varScope is the scope of a system variable that a SET changes.
type varScope uint8

const (
	scopeSession varScope = iota
	scopeGlobal           // also PERSIST
)

// An assignment is one element of a SET statement's list.
type assignment struct {
	kind   assignKind
	scope  varScope
	name   string // lower case, of a system variable
	lo, hi int    // tokens of the value, or of what follows the keyword
}

type assignKind uint8

const (
	assignSystem assignKind = iota
	assignUser
	assignNames // NAMES, CHARACTER SET
	assignTransaction
	assignRole // ROLE, RESOURCE GROUP
	assignUnknown
)

// assignments yields the elements of the SET list in the tokens [lo, hi).
func (a *analysis) assignments(lo, hi int, yield func(assignment)) {
	for i := lo; i < hi; {
		end := a.listItemEnd(i, hi)
		yield(a.assignment(i, end))
		i = end + 1
	}
}

// listItemEnd returns the index of the comma that ends the item at i, or hi.
func (a *analysis) listItemEnd(i, hi int) int {
	depth := 0
	for ; i < hi; i++ {
		switch {
		case a.isOp(i, "("):
			depth++
		case a.isOp(i, ")"):
			depth--
		case depth == 0 && a.isOp(i, ","):
			return i
		}
	}
	return hi
}

func (a *analysis) assignment(i, hi int) assignment {
	as := assignment{lo: hi, hi: hi}
	switch a.word(i) {
	case "session", "local":
		i++
	case "global", "persist", "persist_only":
		as.scope = scopeGlobal
		i++
	}
	if i >= hi {
		as.kind = assignUnknown
		return as
	}
	switch a.toks[i].kind {
	case kindUserVar:
		as.kind = assignUser
		i++
	case kindSysVar:
		var scope varScope
		scope, as.name, i = a.systemVar(i, hi)
		if scope == scopeGlobal {
			as.scope = scopeGlobal
		}
	case kindWord, kindQuoted:
		as.name = a.name(i)
		i++
		if as.name == "" || a.toks[i-1].kind == kindWord && !a.isAssign(i, hi) && !(i < hi && a.isOp(i, ".")) {
			as.kind = keywordAssignment(as.name)
			as.lo = i
			return as
		}
		for i+1 < hi && a.isOp(i, ".") { // a component's or key cache's variable
			as.name = a.name(i + 1)
			i += 2
		}
	default:
		as.kind = assignUnknown
		return as
	}
	if !a.isAssign(i, hi) {
		as.kind = assignUnknown
		return as
	}
	as.lo = i + 1
	return as
}

func keywordAssignment(word string) assignKind {
	switch word {
	case "names", "character", "charset", "char":
		return assignNames
	case "transaction":
		return assignTransaction
	case "role", "resource":
		return assignRole
	}
	return assignUnknown
}

func (a *analysis) isAssign(i, hi int) bool {
	return i < hi && (a.isOp(i, "=") || a.isOp(i, ":="))
}

// systemVar parses @@name, @@scope.name at i and returns the index past it.
func (a *analysis) systemVar(i, hi int) (scope varScope, name string, next int) {
	text := lowerASCII(string(a.text[a.toks[i].start:a.toks[i].end]))
	text = strings.TrimPrefix(text, "@@")
	i++
	for {
		for text == "" && i < hi && (a.toks[i].kind == kindWord || a.toks[i].kind == kindQuoted) {
			text = a.name(i)
			i++
		}
		if i+1 >= hi || !a.isOp(i, ".") {
			break
		}
		text += "." + a.name(i+1)
		i += 2
	}
	for part := range strings.SplitSeq(text, ".") {
		switch part = strings.Trim(part, "`"); part {
		case "global", "persist", "persist_only":
			scope = scopeGlobal
		default:
			name = part
		}
	}
	return scope, name, i
}

// setEffects adds the effects of SET and reports whether it affects the session only.
func (a *analysis) setEffects(lo, hi int) (readOnly bool) {
	readOnly = true
	a.assignments(lo, hi, func(as assignment) {
		a.scanEffects(as.lo, as.hi)
		if as.kind == assignSystem && a.mayEqual(as.name) {
			a.hide() // no variable has such a name, and servers equate it with one
			a.remode, readOnly = true, false
			return
		}
		if as.scope == scopeGlobal || as.kind == assignSystem && instanceVar(as.name, a.tables.server) {
			a.effects |= EffectGlobalVar
			readOnly = false
			return
		}
		switch as.kind {
		case assignSystem:
			a.setSystemVar(as.name)
		case assignUser:
			a.effects |= EffectUserVarWrite
		case assignNames:
			a.effects |= EffectCharset
			a.remode = true
		case assignTransaction:
			a.effects |= EffectTxMode
		case assignRole:
			a.effects |= EffectRole
		case assignUnknown:
			a.effects |= EffectUnknown | EffectSQLMode
			a.remode = true
			readOnly = false
		}
	})
	return readOnly
}

func (a *analysis) setSystemVar(name string) {
	a.effects |= EffectSessionVar
	switch name {
	case "sql_mode":
		a.effects |= EffectSQLMode
		a.remode = true
	case "autocommit":
		a.effects |= EffectAutocommit | EffectImplicitCommit
	case "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only":
		a.effects |= EffectTxMode
	case "insert_id", "identity", "last_insert_id":
		a.effects |= EffectInsertID
	case "pseudo_slave_mode", "pseudo_replica_mode":
		a.effects |= EffectUnknown
	default:
		if strings.HasPrefix(name, "character_set_") || strings.HasPrefix(name, "collation_") {
			a.effects |= EffectCharset
			a.remode = true
		}
	}
}
