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
func (ts *tokens) assignments(lo, hi int, yield func(assignment)) {
	for i := lo; i < hi; {
		end := ts.listItemEnd(i, hi)
		yield(ts.assignment(i, end))
		i = end + 1
	}
}

// listItemEnd returns the index of the comma that ends the item at i, or hi.
func (ts *tokens) listItemEnd(i, hi int) int {
	depth := 0
	for ; i < hi; i++ {
		switch {
		case ts.isOp(i, "("):
			depth++
		case ts.isOp(i, ")"):
			depth--
		case depth == 0 && ts.isOp(i, ","):
			return i
		}
	}
	return hi
}

func (ts *tokens) assignment(i, hi int) assignment {
	as := assignment{lo: hi, hi: hi}
	switch ts.word(i) {
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
	switch ts.toks[i].kind {
	case kindUserVar:
		as.kind = assignUser
		i++
	case kindSysVar:
		var scope varScope
		scope, as.name, i = ts.systemVar(i, hi)
		if scope == scopeGlobal {
			as.scope = scopeGlobal
		}
	case kindWord, kindQuoted:
		as.name = ts.name(i)
		i++
		if as.name == "" || ts.toks[i-1].kind == kindWord && !ts.isAssign(i, hi) && !(i < hi && ts.isOp(i, ".")) {
			as.kind = keywordAssignment(as.name)
			as.lo = i
			return as
		}
		for i+1 < hi && ts.isOp(i, ".") { // a component's or key cache's variable
			as.name = ts.name(i + 1)
			i += 2
		}
	default:
		as.kind = assignUnknown
		return as
	}
	if !ts.isAssign(i, hi) {
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

func (ts *tokens) isAssign(i, hi int) bool {
	return i < hi && (ts.isOp(i, "=") || ts.isOp(i, ":="))
}

// systemVar parses @@name, @@scope.name at i and returns the index past it.
func (ts *tokens) systemVar(i, hi int) (scope varScope, name string, next int) {
	text := lowerASCII(string(ts.text[ts.toks[i].start:ts.toks[i].end]))
	text = strings.TrimPrefix(text, "@@")
	i++
	for {
		for text == "" && i < hi && (ts.toks[i].kind == kindWord || ts.toks[i].kind == kindQuoted) {
			text = ts.name(i)
			i++
		}
		if i+1 >= hi || !ts.isOp(i, ".") {
			break
		}
		text += "." + ts.name(i+1)
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
