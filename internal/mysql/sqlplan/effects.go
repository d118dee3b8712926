package sqlplan

import "github.com/taredb/tare/mysql/sqldigest"

// statementEffects adds the effects of a statement of type t at [lo, hi), whose verb ends at next, besides
// those of its expressions, and reports whether its type allows it to be read-only.
func (a *analysis) statementEffects(t Type, lo, next, hi int) (readOnly bool) {
	switch t {
	case TypeSelect, TypeDeallocate, TypeKill, TypeLoad, TypeUpdate, TypeDelete, TypeAnalyze, TypeDo:
		return a.plainEffects(t)
	case TypeInsert, TypeReplace:
		a.insertEffects(t, next, hi)
		return false
	case TypeDDL:
		a.ddlEffects(lo, next, hi)
		return false
	case TypeGrant:
		a.effects |= EffectSchema | EffectImplicitCommit
		return false
	case TypeSet:
		return a.setEffects(next, hi)
	case TypeBegin:
		a.effects |= EffectBegin | EffectImplicitCommit
		return true
	case TypeCommit, TypeRollback:
		a.endEffects(t, next, hi)
		return true
	case TypeSavepoint:
		a.effects |= EffectSavepoint
		return true
	case TypeUse:
		a.effects |= EffectUse
		return true
	case TypeShow:
		a.showEffects(next, hi)
		return true
	case TypeExplain:
		return a.explainEffects(lo, next, hi)
	case TypeCall:
		a.effects |= EffectUnknown
		return false
	case TypePrepare:
		a.effects |= EffectPrepare
		a.opaque = true
		return false
	case TypeExecute:
		a.effects |= EffectPrepare | EffectUnknown | EffectSQLMode
		a.remode = true
		if a.is(next, "immediate") {
			a.opaque = true
		}
		return false
	case TypeLock, TypeUnlock:
		a.effects |= EffectTableLocks | EffectImplicitCommit
		return t == TypeUnlock
	case TypeFlush:
		a.flushEffects(next, hi)
		return false
	case TypeXA:
		a.effects |= EffectXA
		return false
	case TypeHandler:
		a.effects |= EffectHandler
		return false
	case TypeOther:
		return a.otherEffects(lo)
	}
	a.compound(lo, hi)
	a.effects |= EffectUnknown | EffectSQLMode
	a.remode = true
	return false
}

// plainEffects handles types whose effects are only those of their expressions, or one fixed effect.
func (a *analysis) plainEffects(t Type) (readOnly bool) {
	switch t {
	case TypeDeallocate:
		a.effects |= EffectPrepare
	case TypeAnalyze:
		a.effects |= EffectImplicitCommit | EffectAdmin
	case TypeLoad:
		a.effects |= EffectInsertID | EffectRowInsert
	case TypeUpdate:
		a.effects |= EffectRowUpdate
	case TypeDelete:
		a.effects |= EffectRowDelete
	case TypeKill:
		a.effects |= EffectAdmin
	}
	return t == TypeSelect || t == TypeDo || t == TypeDeallocate
}

func (a *analysis) insertEffects(t Type, next, hi int) {
	a.effects |= EffectInsertID | EffectRowInsert
	if t == TypeReplace {
		a.effects |= EffectRowDelete
	}
	for i := next; i+1 < hi; i++ {
		if a.is(i, "on") && a.is(i+1, "duplicate") {
			a.effects |= EffectRowUpdate
		}
	}
}

func (a *analysis) ddlEffects(lo, next, hi int) {
	temporary := false
	for i := next; i < hi; i++ {
		switch a.word(i) {
		case "temporary":
			temporary = true
		case "procedure", "function", "trigger", "event", "package":
			a.routine = true
			a.compound(lo, hi)
			if a.has("soname", i, hi) {
				a.hide() // the function's code is in a file
			}
		}
		if a.isObject(i) {
			break
		}
	}
	a.engines(next, hi)
	if temporary && (a.is(lo, "create") || a.is(lo, "drop")) {
		a.effects |= EffectTempTable
		return
	}
	// ALTER, RENAME or DROP TABLE of a temporary table is not distinguished. It counts as a change of the
	// schema.
	a.effects |= EffectSchema | EffectImplicitCommit
}

// engines handles the word ENGINE in a definition: tables of some engines access other tables, which a text
// names.
func (a *analysis) engines(lo, hi int) {
	depth := 0
	for i := lo; i < hi; i++ {
		switch {
		case a.isOp(i, "("):
			depth++
		case a.isOp(i, ")"):
			depth--
		case depth == 0 && a.is(i, "engine") && !a.is(i-1, "add") && !a.is(i-1, "column"):
			at := i + 1
			if a.isOp(at, "=") {
				at++
			}
			if !harmlessEngine(a.name(at)) {
				a.hide()
			}
		}
	}
}

func harmlessEngine(name string) bool {
	switch name {
	case "innodb", "myisam", "aria", "memory", "heap", "archive", "csv", "blackhole", "rocksdb", "merge", "mrg_myisam",
		"tokudb", "ndb", "ndbcluster", "columnstore", "s3", "mroonga":
		return true
	}
	return false
}

// isObject reports whether the word at i is the kind of the defined object; OR REPLACE, DEFINER and the like
// may precede it.
func (ts *tokens) isObject(i int) bool {
	switch ts.word(i) {
	case "table", "view", "database", "index", "unique", "fulltext", "spatial", "server", "tablespace", "procedure",
		"function", "trigger", "event", "package", "sequence", "undo", "logfile":
		return true
	}
	return false
}

func (a *analysis) endEffects(t Type, next, hi int) {
	if t == TypeCommit {
		a.effects |= EffectCommit
	} else {
		a.effects |= EffectRollback
	}
	for i := next; i+1 < hi; i++ {
		if a.is(i, "and") && a.is(i+1, "chain") {
			a.effects |= EffectBegin
		}
	}
}

func (a *analysis) showEffects(next, hi int) {
	for i := next; i < hi; i++ {
		switch a.word(i) {
		case "warnings", "errors":
			a.effects |= EffectLastResult
		}
	}
}

// explainEffects classifies a statement that EXPLAIN ANALYZE or MariaDB's ANALYZE runs.
func (a *analysis) explainEffects(lo, next, hi int) (readOnly bool) {
	runs := a.is(lo, "analyze")
	for i := next; i < hi; i++ {
		switch a.word(i) {
		case "analyze":
			runs = true
			continue
		case "format", "extended", "partitions", "traditional", "tree", "json", "into", "for":
			continue
		case "select", "table", "with", "insert", "replace", "update", "delete", "values":
			if !runs {
				return true
			}
			t, after := a.verb(i, hi)
			a.types.add(t)
			return a.statementEffects(t, i, after, hi)
		}
	}
	return !runs
}

func (a *analysis) flushEffects(next, hi int) {
	a.effects |= EffectImplicitCommit | EffectAdmin
	for i := next; i < hi; i++ {
		switch a.word(i) {
		case "table", "tables", "lock", "export":
			a.effects |= EffectTableLocks
		case "privileges":
			a.effects |= EffectSchema
		}
	}
}

func (a *analysis) otherEffects(lo int) (readOnly bool) {
	switch a.word(lo) {
	case "help":
		return true
	case "get": // GET DIAGNOSTICS
		a.effects |= EffectLastResult | EffectUserVarWrite
		return true
	case "binlog": // its argument is a row event
		a.hide()
	case "import", "install", "uninstall", "clone", "change":
		a.hide() // the objects it names are in a file, or on another server
		a.effects |= EffectSchema | EffectImplicitCommit
	case "signal", "resignal":
		return true
	}
	a.effects |= EffectAdmin
	return false
}

// scanEffects adds the effects of expressions and clauses anywhere in [lo, hi).
func (a *analysis) scanEffects(lo, hi int) {
	into := false
	for i := lo; i < hi; i++ {
		switch a.toks[i].kind {
		case kindUserVar:
			switch {
			case into || i+1 < hi && a.isOp(i+1, ":="):
				a.effects |= EffectUserVarWrite
			default:
				a.effects |= EffectUserVarRead
			}
			continue
		case kindSysVar:
			a.systemVarRead(i, hi)
		case kindWord, kindQuoted:
			if i > lo && a.isOp(i-1, ".") && (i+1 == hi || !a.isOp(i+1, "(")) {
				a.sequenceEffects(i)
			}
			if i+1 < hi && a.isOp(i+1, "(") {
				a.callEffects(i, hi)
			}
			if a.toks[i].kind == kindWord {
				into = a.clauseEffects(i, hi)
				continue
			}
		case kindOp:
			if into && a.isOp(i, ",") {
				continue
			}
		}
		into = false
	}
}

// clauseEffects handles the word at i and reports whether variables follow that it assigns.
func (a *analysis) clauseEffects(i, hi int) (into bool) {
	if i > 0 && a.isOp(i-1, ".") {
		return false
	}
	following := ""
	if i+1 < hi {
		following = a.word(i + 1)
	}
	switch a.word(i) {
	case "into":
		if following == "outfile" || following == "dumpfile" {
			a.effects |= EffectFile
		}
		return i+1 < hi && a.toks[i+1].kind == kindUserVar
	case "for":
		if following == "update" || following == "share" {
			a.effects |= EffectRowLocks
		}
	case "lock":
		if following == "in" {
			a.effects |= EffectRowLocks
		}
	case "sql_calc_found_rows":
		a.effects |= EffectFoundRows
	case "value":
		if following == "for" && i > 0 && a.is(i-1, "next") {
			a.effects |= EffectSequence
			a.sequence = true
		}
		if following == "for" && i > 0 && a.is(i-1, "previous") {
			a.effects |= EffectLastResult
		}
		a.sequence = a.sequence || following == "for"
	}
	return false
}

// sequenceEffects handles the name at i after a dot: seq.nextval and seq.currval access a sequence under
// MariaDB's sql_mode ORACLE, and are columns otherwise.
func (a *analysis) sequenceEffects(i int) {
	switch a.name(i) {
	case "nextval":
		a.effects |= EffectSequence
		a.sequence = true
	case "currval":
		a.effects |= EffectLastResult
		a.sequence = true
	}
}

// callEffects handles the name at i before an opening parenthesis.
func (a *analysis) callEffects(i, hi int) {
	switch a.name(i) {
	case "get_lock", "release_lock", "release_all_locks":
		a.effects |= EffectNamedLock
	case "last_insert_id":
		a.effects |= EffectLastResult
		if i+2 < hi && !a.isOp(i+2, ")") {
			a.effects |= EffectInsertID
		}
	case "connection_id", "ps_current_thread_id":
		a.effects |= EffectConnectionID
	case "found_rows", "row_count":
		a.effects |= EffectLastResult
	case "nextval", "setval":
		a.effects |= EffectSequence
		a.sequence = true
	case "lastval":
		a.effects |= EffectLastResult
		a.sequence = true
	}
	if a.mayBe(a.name(i), "load_file") {
		a.anyTable = true
		a.effects |= EffectFileRead
	}
	if a.toks[i].kind == kindQuoted && sqldigest.LookupKeyword(a.name(i)) != 0 {
		// In quotes it is not a function of the grammar, such as COUNT, but a stored one of that name.
		a.tables.unknownCall = true
	}
}

// systemVarRead handles a system variable in an expression.
func (a *analysis) systemVarRead(i, hi int) {
	switch _, name, _ := a.systemVar(i, hi); name {
	case "error_count", "identity", "insert_id", "last_gtid", "last_insert_id", "warning_count":
		a.effects |= EffectLastResult
	case "pseudo_thread_id":
		a.effects |= EffectConnectionID
	}
}
