package sqlplan

// This file detects statements that return values of tables they do not have to name: locks, row events,
// statistics, and the statements of other connections.

// showsContent reports whether SHOW returns values of tables that it does not have to name: row events,
// TiDB's statistics, the rows of the last deadlock, and another connection's statement with the values that
// its optimizer has read.
func (ts *tokens) showsContent(next, hi int) bool {
	switch ts.word(next) {
	case "engine":
		return ts.has("status", next, hi)
	case "describe", "explain", "analyze":
		return ts.has("for", next, hi)
	}
	for i := next; i < hi; i++ {
		switch ts.name(i) {
		case "binlog", "relaylog", "stats_histograms", "stats_buckets", "stats_topn":
			return true
		}
	}
	return false
}

// explainsOther reports whether EXPLAIN explains a statement that is not in the text: that of another
// connection, or of a digest.
func (ts *tokens) explainsOther(next, hi int) bool {
	for i := next; i+1 < hi; i++ {
		if ts.is(i, "for") && ts.is(i+1, "connection") {
			return true
		}
	}
	for i := next; i < hi; i++ {
		if ts.toks[i].kind == kindLiteral {
			return i == next || ts.is(i-1, "analyze")
		}
	}
	return false
}

// has reports whether the word is among the tokens [lo, hi).
func (ts *tokens) has(word string, lo, hi int) bool {
	for i := lo; i < hi; i++ {
		if ts.is(i, word) {
			return true
		}
	}
	return false
}

// contentSchemas are the schemas of contentTables.
func contentSchemas() [3]string {
	return [...]string{"information_schema", "performance_schema", "mysql"}
}

// contentTables returns the tables of a system schema that contain values of other tables: statistics, keys
// of locked rows, words of full-text indexes, variables of other sessions, and the server's log, which
// includes the rows of deadlocks.
func contentTables(schema string) []string {
	switch schema {
	case "information_schema":
		return []string{
			"column_statistics", "innodb_ft_index_table", "innodb_ft_index_cache", "innodb_locks",
			"data_lock_waits", "deadlocks", "cluster_deadlocks", "tikv_region_status", "cluster_log",
		}
	case "performance_schema":
		return []string{"data_locks", "user_variables_by_thread", "error_log"}
	case "mysql":
		return []string{
			"column_stats", "stats_buckets", "stats_top_n", "stats_histograms", "stats_fm_sketch", "stats_history",
			"stats_extended", "stats_feedback",
		}
	}
	return nil
}

// contentTable reports whether the table is one of contentTables. An empty schema represents any.
func (a *analysis) contentTable(schema, name string) bool {
	name = lowerASCII(name)
	for _, s := range contentSchemas() {
		if schema != "" && !a.mayBe(lowerASCII(schema), s) {
			continue
		}
		for _, t := range contentTables(s) {
			if a.mayBe(name, t) {
				return true
			}
		}
	}
	return false
}

// reachContent completes reach with the tables found; for an unparsed statement, with any name in it that may
// be in one of the schemas.
func (a *analysis) reachContent() {
	for _, t := range a.tables.list {
		a.anyTable = a.anyTable || a.contentTable(t.schema, t.name)
	}
	if a.parsed {
		return
	}
	for _, s := range contentSchemas() {
		if !a.mayResolveIn(s) {
			continue
		}
		for i := range a.toks {
			a.anyTable = a.anyTable || a.contentTable(s, a.anyName(i))
		}
	}
}

// mayResolveIn reports whether a name in the text may be resolved in the schema: it is the default schema, is
// named in the text, or the text selects another.
func (a *analysis) mayResolveIn(schema string) bool {
	if a.tables.schema == "" || a.mayBe(lowerASCII(a.tables.schema), schema) {
		return true
	}
	for i := range a.toks {
		if a.is(i, "use") || a.mayBe(a.anyName(i), schema) {
			return true
		}
	}
	return false
}

// source returns the system table with the content of a SHOW that names no table, for rules that block that
// table.
func (a *analysis) source() (schema, table string) {
	if a.typ != TypeShow && a.typ != TypeMulti {
		return "", ""
	}
	switch n := len(a.toks); {
	case a.has("processlist", 0, n):
		return "information_schema", "processlist"
	case (a.has("replica", 0, n) || a.has("replicas", 0, n)) && a.has("status", 0, n):
		return "performance_schema", "replication_applier_status_by_worker"
	}
	return "", ""
}
