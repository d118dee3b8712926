package session

// A setting is a variable that a session can inherit, with the value that Tare's sessions have.
type setting struct {
	name    string
	mariaDB string // value as an expression; empty: the variable is MySQL's alone
	mySQL   string // value as an expression; empty: the variable is MariaDB's alone
	why     string // what another value would do

	restricted bool
}

// unlimited is the greatest value of limits of 64 bits.
const unlimited = "18446744073709551615"

// off is the keyword that sets system_versioning_asof to its value "DEFAULT".
const off = "DEFAULT"

// settings are the variables that can change results, limits, locks, commits or texts. The order is that of the
// SET statement: max_join_size sets sql_big_selects, and character sets set collations.
func settings() []setting {
	both := func(name, value, why string) setting {
		return setting{name: name, mariaDB: value, mySQL: value, why: why}
	}
	mariaDB := func(name, value, why string) setting { return setting{name: name, mariaDB: value, why: why} }
	mySQL := func(name, value, why string) setting { return setting{name: name, mySQL: value, why: why} }
	restricted := func(s setting) setting {
		s.restricted = true
		return s
	}
	return []setting{
		// Limits of results and statements.
		mariaDB("max_statement_time", "0", "ends reads and loads"),
		mySQL("max_execution_time", "0", "ends reads"),
		both("sql_select_limit", unlimited, "rows beyond it are left out of results"),
		both("max_join_size", unlimited, "refuses statements by an estimate"),
		both("sql_big_selects", "1", "refuses statements by an estimate"),
		both("group_concat_max_len", "1048576", "truncates texts of definitions"),
		mariaDB("max_session_mem_used", "9223372036854775807", "ends statements"),
		mariaDB("max_tmp_session_space_usage", "0", "ends statements"),
		mariaDB("tmp_disk_table_size", unlimited, "ends statements"),
		both("sort_buffer_size", "2097152", "ends statements that sort, such as those about definitions"),
		mySQL("range_optimizer_max_mem_size", "0", "warns that ranges of an index are not used"),
		both("range_alloc_block_size", "4096", "warns that ranges of an index are not used"),
		restricted(mySQL("connection_memory_limit", unlimited, "ends sessions")),

		// Texts of values and of definitions.
		both("sql_mode", "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'", "changes values, literals and definitions"),
		mariaDB("old_mode", "'UTF8_IS_UTF8MB3'", "changes conversions and definitions"),
		both("time_zone", "'+00:00'", "changes times"),
		both("character_set_client", "'utf8mb4'", "changes literals"),
		both("character_set_connection", "'utf8mb4'", "changes literals"),
		both("character_set_results", "NULL", "converts values"),
		both("sql_auto_is_null", "0", "changes conditions"),
		both("sql_quote_show_create", "1", "leaves names in definitions unquoted"),
		both("lc_time_names", "'en_US'", "changes names of days and months"),
		both("lc_messages", "'en_US'", "translates messages"),
		both("div_precision_increment", "4", "changes quotients"),
		both("default_week_format", "0", "changes numbers of weeks"),
		mariaDB("system_versioning_asof", off, "reads rows of the past"),
		mySQL("show_gipk_in_create_table_and_information_schema", "1", "hides generated primary keys"),
		mySQL("show_create_table_verbosity", "0", "changes definitions"),
		mySQL("use_secondary_engine", "'OFF'", "reads rows of another engine's older copy"),
		mySQL("information_schema_stats_expiry", "0", "returns old estimates"),

		// Transactions, locks and the connection.
		both("autocommit", "1", "leaves transactions open"),
		both("completion_type", "'NO_CHAIN'", "ends connections, or starts transactions"),
		mariaDB("tx_isolation", "'REPEATABLE-READ'", "shows rows of other transactions"),
		mySQL("transaction_isolation", "'REPEATABLE-READ'", "shows rows of other transactions"),
		mariaDB("tx_read_only", "0", "refuses writes"),
		mySQL("transaction_read_only", "0", "refuses writes"),
		mariaDB("innodb_snapshot_isolation", "0", "refuses writes after others' commits"),
		both("lock_wait_timeout", "86400", "ends waits for definitions early"),
		both("innodb_lock_wait_timeout", "50", "ends waits for rows early, or never"),
		both("net_read_timeout", "3600", "ends connections that pause"),
		both("net_write_timeout", "3600", "ends connections that pause"),
		both("wait_timeout", "86400", "ends connections that wait"),
		mariaDB("idle_transaction_timeout", "0", "ends connections that wait"),
		mariaDB("idle_readonly_transaction_timeout", "0", "ends connections that wait"),
		mariaDB("idle_write_transaction_timeout", "0", "ends connections that wait"),

		// Writes.
		both("sql_safe_updates", "0", "refuses statements without a key"),
		both("foreign_key_checks", "1", "accepts rows without their parents"),
		both("unique_checks", "1", "accepts duplicates"),
		mariaDB("check_constraint_checks", "1", "accepts rows that constraints exclude"),
		both("sql_notes", "1", "hides that values were changed"),
		mariaDB("sql_if_exists", "0", "hides that objects are missing"),

		// Definitions.
		mariaDB("alter_algorithm", "'DEFAULT'", "refuses changes of definitions, or copies tables for them"),
		mySQL("old_alter_table", "0", "copies tables for changes of definitions"),
		both("default_storage_engine", "'InnoDB'", "creates tables without transactions"),
		restricted(mariaDB("enforce_storage_engine", "NULL", "creates tables without transactions")),
		mariaDB("explicit_defaults_for_timestamp", "1", "adds defaults to definitions"),
		restricted(mySQL("explicit_defaults_for_timestamp", "1", "adds defaults to definitions")),
		mariaDB("character_set_collations", "x''", "changes collations of definitions"),
		restricted(mySQL("default_collation_for_utf8mb4", "'utf8mb4_0900_ai_ci'", "changes collations of definitions")),
		restricted(mySQL("sql_require_primary_key", "0", "refuses definitions")),
		restricted(mySQL("sql_generate_invisible_primary_key", "0", "adds columns to definitions")),
	}
}

// valuesOf returns the values for the kind of server, and own, which replace those of the same name.
func valuesOf(version string, withRestricted bool, own []Value) (values []Value) {
	isMariaDB := IsMariaDB(version)
	for _, s := range settings() {
		v := Value{Name: s.name, SQL: s.mySQL, restricted: s.restricted}
		if isMariaDB {
			v.SQL = s.mariaDB
		}
		if v.SQL != "" && (withRestricted || !v.restricted) && !isIn(own, v.Name) {
			values = append(values, v)
		}
	}
	return append(values, own...)
}
