package sqlplan

import (
	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/mysql/sqldigest"
)

// This file finds the tables that a statement reaches without naming them where a parser expects them:
// through files, statistics, stored text and names that belong to another schema than the default.

// reach sets a.anyTable if a value or a name from an earlier statement decides which table is accessed, and
// hides statements that execute text in a value.
func (a *analysis) reach(t Type, next, hi int) {
	switch t {
	case TypeExecute:
		a.hide() // it may have been prepared before the rules were set
	case TypeCall:
		if a.supplied(next) {
			a.hide()
		}
	case TypeHandler:
		for i := next; i < hi; i++ {
			a.anyTable = a.anyTable || a.is(i, "read") // of the table named by an earlier OPEN
		}
	case TypeLoad:
		if !a.is(next+1, "local") && !a.is(next+2, "local") {
			a.anyTable = true // the file may be a table's
			a.effects |= EffectFileRead
		}
		if a.has("replace", next, hi) {
			a.effects |= EffectRowDelete
		}
	case TypeShow:
		a.anyTable = a.anyTable || a.showsContent(next, hi)
	case TypeExplain:
		a.anyTable = a.anyTable || a.explainsOther(next, hi)
	case TypeUnknown:
		a.anyTable = true // possibly of a file, a job or all tables
	case TypeSet:
		a.setEngine(next, hi)
	}
}

// supplied reports whether the procedure whose name starts at i comes with the server: some execute a
// statement in an argument, or access the table that an argument names.
func (a *analysis) supplied(i int) bool {
	schema := lowerASCII(a.tables.schema)
	switch {
	case a.isOp(i+1, "."):
		schema = a.name(i)
	case a.has("use", 0, i): // a statement before it selects another
		schema = ""
	}
	return schema == "" || a.mayBe(schema, "sys") || a.mayBe(schema, "mysql")
}

// setEngine hides a SET of the default storage engine, unless tables of that engine never access another
// table.
func (a *analysis) setEngine(lo, hi int) {
	a.assignments(lo, hi, func(as assignment) {
		if !choosesEngine(as.name) {
			return
		}
		if as.hi-as.lo != 1 || a.toks[as.lo].kind == kindUserVar || !harmlessEngine(a.name(as.lo)) {
			a.hide()
		}
	})
}

func choosesEngine(variable string) bool {
	switch variable {
	case "default_storage_engine", "default_tmp_storage_engine", "storage_engine", "enforce_storage_engine":
		return true
	}
	return false
}

// relative adds the tables of a definition whose unqualified names may belong to the schema of the defined
// table, if that is not the default schema: the target of RENAME, the tables of MERGE's UNION and those named
// by REFERENCES, also in a column's definition.
func (s *tableSet) relative(target sqlparser.TableName, t sqlparser.TableName, access Access) {
	s.addName(t, access)
	if t.Qualifier.IsEmpty() && !target.Qualifier.IsEmpty() {
		t.Qualifier = target.Qualifier
		s.addName(t, access)
	}
}

// references adds the tables after REFERENCES in a definition of the table target.
func (a *analysis) references(target sqlparser.TableName) {
	for i := range a.toks {
		if !a.is(i, "references") || i+1 >= len(a.toks) {
			continue
		}
		t := sqlparser.TableName{Name: sqlparser.NewIdentifierCS(a.tableName(i + 1))}
		if a.isOp(i+2, ".") && i+3 < len(a.toks) {
			t.Qualifier, t.Name = t.Name, sqlparser.NewIdentifierCS(a.tableName(i+3))
		}
		a.tables.relative(target, t, AccessRead)
	}
}

// instanceVar reports whether a variable may be one of TiDB's that have one value per server, which a SET
// without GLOBAL changes too while tidb_enable_legacy_instance_scope is on.
func instanceVar(name string, s sqldigest.Server) bool {
	if s.Kind != sqldigest.ServerTiDB && s.Kind != sqldigest.ServerUnknown {
		return false
	}
	switch name {
	case "ddl_slow_threshold", "max_connections", "plugin_dir", "plugin_load", "tidb_check_mb4_value_in_utf8", "tidb_config",
		"tidb_enable_collect_execution_info", "tidb_enable_ddl", "tidb_enable_slow_log", "tidb_enable_stats_owner",
		"tidb_expensive_query_time_threshold", "tidb_expensive_txn_time_threshold", "tidb_force_priority", "tidb_general_log",
		"tidb_log_file_max_days", "tidb_pprof_sql_cpu", "tidb_rc_read_check_ts", "tidb_record_plan_in_slow_log", "tidb_service_scope",
		"tidb_slow_log_threshold", "tidb_stmt_summary_enable_persistent", "tidb_stmt_summary_file_max_backups",
		"tidb_stmt_summary_file_max_days", "tidb_stmt_summary_file_max_size", "tidb_stmt_summary_filename":
		return true
	}
	return false
}
