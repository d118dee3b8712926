package sqlplan

// classify derives the statement's type and effects from the tokens: everything except the exact tables. It
// parses no expressions: it searches for words in positions where they are unambiguous, and assumes the more
// severe meaning where they are not.
func (a *analysis) classify() {
	n, several := 0, false
	for lo := 0; lo < len(a.toks); {
		hi := lo
		for hi < len(a.toks) && !a.isOp(hi, ";") {
			hi++
		}
		if hi > lo {
			several = several || n > 0 && !a.routine
			if n > 0 && a.remode {
				// The server reads the rest with another sql_mode or character set than the lexer did.
				a.hide()
			}
			a.statement(lo, hi)
			n++
		}
		lo = hi + 1
	}
	switch {
	case n == 0:
		a.typ = TypeOther
		a.readOnly = true
	case several:
		a.typ = TypeMulti
		a.readOnly = false
	}
	a.types.add(a.typ)
	if a.opaque {
		a.readOnly = false
	}
}

// follow prepares the analysis of a statement that follows others in a text: it is classified as in a text of them all.
func (a *analysis) follow(after After) {
	if after == 0 {
		return
	}
	if after&AfterRoutine == 0 {
		a.types.add(TypeMulti)
	}
	if after&AfterUse != 0 {
		a.tables.schema = ""
	}
	if after&AfterModes != 0 {
		a.hide()
	}
	if after&AfterRoutine != 0 {
		a.routine, a.typ = true, TypeDDL
	}
}

// hide records that the statement has an effect that its text does not show.
func (a *analysis) hide() {
	a.opaque = true
	a.effects |= EffectUnknown | EffectSQLMode
}

// statement classifies the tokens [lo, hi) of one statement.
func (a *analysis) statement(lo, hi int) {
	if a.routine {
		a.routineBody(lo, hi)
		return
	}
	if a.types == 0 {
		a.readOnly = true
	}
	at := a.skipWrapper(lo, hi)
	t, next := a.verb(at, hi)
	if a.typ == TypeUnknown {
		a.typ = t
	}
	a.types.add(t)
	before := a.effects
	a.effects = 0 // of this statement only
	if t != TypeSet {
		a.scanEffects(at, hi)
	}
	if locksWhatItReads(t) && a.hasQuery(next, hi) {
		a.effects |= EffectRowLocks
	}
	readOnly := a.statementEffects(t, at, next, hi)
	a.reach(t, next, hi)
	if !readOnly || a.effects&^(effectsOnlySession|harmlessIn(t)) != 0 {
		a.readOnly = false
	}
	a.effects |= before
}

// locksWhatItReads reports whether InnoDB locks the rows that a subquery of a statement of type t reads, under REPEATABLE
// READ: it reads without locks only for SELECT. Types that change rows imply EffectRowLocks.
func locksWhatItReads(t Type) bool {
	return t == TypeSet || t == TypeDo || t == TypeCall || t == TypeKill
}

// hasQuery reports whether the tokens [lo, hi) have a word that starts a query.
func (ts *tokens) hasQuery(lo, hi int) bool {
	return ts.has("select", lo, hi) || ts.has("with", lo, hi) || ts.has("values", lo, hi) || ts.has("table", lo, hi)
}

// harmlessIn returns the effects that do not make a statement of type t a writer, although they would for
// other types: it only releases state of its session.
func harmlessIn(t Type) Effect {
	switch t {
	case TypeBegin:
		return EffectImplicitCommit
	case TypeUnlock:
		return EffectImplicitCommit | EffectTableLocks
	case TypeDeallocate:
		return EffectPrepare
	case TypeSet:
		return EffectImplicitCommit | EffectInsertID
	}
	return 0
}

// routineBody handles the text after a semicolon in a CREATE PROCEDURE, which may be the routine's body or a
// separate statement: only a parser of bodies could distinguish them.
func (a *analysis) routineBody(lo, hi int) {
	a.compound(lo, hi)
	for i := lo; i < hi; i++ {
		switch a.name(i) {
		case "sql_mode", "names", "charset", "char", "execute":
			a.hide()
		}
	}
}

// skipWrapper skips MariaDB's SET STATEMENT … FOR.
func (a *analysis) skipWrapper(lo, hi int) int {
	if !a.is(lo, "set") || lo+1 >= hi || !a.is(lo+1, "statement") {
		return lo
	}
	a.wrapped = true
	a.compound(lo, hi)
	for i := lo + 2; i < hi; i++ {
		if choosesEngine(a.name(i)) || a.mayEqual(a.name(i)) {
			a.hide()
		}
		if a.is(i, "for") {
			return i + 1
		}
	}
	return lo
}

// rollbackType returns the type of a ROLLBACK, with or without TO.
func (ts *tokens) rollbackType(lo, hi int) Type {
	for i := lo; i < hi; i++ {
		if ts.is(i, "to") {
			return TypeSavepoint
		}
	}
	return TypeRollback
}

// verb returns the type of the statement at lo and the index past its verb.
func (ts *tokens) verb(lo, hi int) (t Type, next int) {
	i := lo
	for i < hi && ts.isOp(i, "(") {
		i++
	}
	if i >= hi {
		return TypeUnknown, hi
	}
	next = i + 1
	following := ""
	if next < hi {
		following = ts.word(next)
	}
	switch ts.word(i) {
	case "select", "table", "values":
		return TypeSelect, next
	case "with":
		return ts.withVerb(next, hi)
	case "insert":
		return TypeInsert, next
	case "replace":
		return TypeReplace, next
	case "update":
		return TypeUpdate, next
	case "delete":
		return TypeDelete, next
	case "create", "alter", "drop", "rename":
		return ts.createVerb(next, hi), next
	case "truncate":
		return TypeDDL, next
	case "set":
		if following == "password" || following == "default" {
			return TypeGrant, next
		}
		return TypeSet, next
	case "begin":
		if next == hi || following == "work" {
			return TypeBegin, next
		}
		return TypeUnknown, next // BEGIN NOT ATOMIC, or a block's body split at its semicolons
	case "start":
		if following == "transaction" {
			return TypeBegin, next
		}
		return TypeOther, next
	case "commit":
		return TypeCommit, next
	case "rollback":
		return ts.rollbackType(next, hi), next
	case "savepoint":
		return TypeSavepoint, next
	case "release":
		if following == "savepoint" {
			return TypeSavepoint, next
		}
		return TypeUnknown, next
	case "use":
		return TypeUse, next
	case "show":
		return TypeShow, next
	case "explain", "describe", "desc":
		return TypeExplain, next
	case "call":
		return TypeCall, next
	case "prepare":
		return TypePrepare, next
	case "execute":
		return TypeExecute, next
	case "deallocate":
		return TypeDeallocate, next
	case "load":
		if following == "data" || following == "xml" {
			return TypeLoad, next
		}
		return TypeOther, next // LOAD INDEX INTO CACHE
	case "lock":
		return TypeLock, next
	case "unlock":
		return TypeUnlock, next
	case "kill":
		return TypeKill, next
	case "flush", "reset":
		return TypeFlush, next
	case "analyze":
		if following == "table" || following == "tables" || following == "local" || following == "no_write_to_binlog" ||
			following == "persistent" {
			return TypeAnalyze, next
		}
		return TypeExplain, next // MariaDB: runs the statement and explains it
	case "check", "checksum", "optimize", "repair":
		return TypeAnalyze, next
	case "grant", "revoke":
		return TypeGrant, next
	case "xa":
		return TypeXA, next
	case "handler":
		return TypeHandler, next
	case "do":
		return TypeDo, next
	case "binlog", "cache", "change", "clone", "get", "help", "import", "install", "purge", "resignal", "restart",
		"shutdown", "signal", "stop", "uninstall":
		return TypeOther, next
	}
	return TypeUnknown, next
}

// withVerb finds the verb of WITH …: the first one outside parentheses.
func (ts *tokens) withVerb(lo, hi int) (Type, int) {
	depth := 0
	for i := lo; i < hi; i++ {
		switch {
		case ts.isOp(i, "("):
			depth++
		case ts.isOp(i, ")"):
			depth--
		case depth == 0:
			switch ts.word(i) {
			case "select", "table", "values":
				return TypeSelect, i + 1
			case "update":
				return TypeUpdate, i + 1
			case "delete":
				return TypeDelete, i + 1
			case "insert":
				return TypeInsert, i + 1
			case "replace":
				return TypeReplace, i + 1
			}
		}
	}
	return TypeSelect, hi // WITH … (SELECT …)
}

// createVerb distinguishes CREATE, ALTER, DROP and RENAME of accounts and prepared statements from those of
// other objects.
func (ts *tokens) createVerb(lo, hi int) Type {
	for i := lo; i < hi; i++ {
		switch ts.word(i) {
		case "user", "role":
			return TypeGrant
		case "prepare":
			return TypeDeallocate
		case "or", "replace", "if", "not", "exists":
			continue
		}
		break
	}
	return TypeDDL
}

// isVerb reports whether a word can begin a statement that changes something.
func isVerb(word string) (Type, bool) {
	switch word {
	case "insert":
		return TypeInsert, true
	case "replace":
		return TypeReplace, true
	case "update":
		return TypeUpdate, true
	case "delete":
		return TypeDelete, true
	case "create", "alter", "drop", "rename", "truncate":
		return TypeDDL, true
	case "select":
		return TypeSelect, true
	case "set":
		return TypeSet, true
	case "call":
		return TypeCall, true
	case "load":
		return TypeLoad, true
	case "grant", "revoke":
		return TypeGrant, true
	case "commit":
		return TypeCommit, true
	case "rollback":
		return TypeRollback, true
	case "do":
		return TypeDo, true
	case "kill":
		return TypeKill, true
	case "flush":
		return TypeFlush, true
	case "lock":
		return TypeLock, true
	case "handler":
		return TypeHandler, true
	}
	return TypeUnknown, false
}

// compound adds the types of all statements that a block, a routine's body or a statement of unknown form may
// contain: of every word that could be a verb.
func (a *analysis) compound(lo, hi int) {
	for i := lo; i < hi; i++ {
		if i > lo && a.isOp(i-1, ".") {
			continue
		}
		w := a.word(i)
		if t, ok := isVerb(w); ok {
			a.types.add(t)
		}
		if w == "prepare" || w == "immediate" {
			a.opaque = true
		}
	}
}
