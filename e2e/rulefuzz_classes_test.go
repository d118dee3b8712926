//go:build e2e

package e2e

// A fuzzClass is one way to make the server read another statement than the rules see: the statements of its
// forms, each on a session of its user after one of its settings.
type fuzzClass struct {
	name     string
	user     string   // app when empty
	charset  uint8    // of the login; utf8mb4 when 0
	schema   string   // of the login; rulefuzz when empty
	settings []string // one of them is sent first, see ruleFuzz.set
	delivery delivery
	forms    []string
	effect   bool // an evasion changes data, instead of reading the blocked table
}

type delivery uint8

const (
	asText        delivery = iota
	asPrepared             // COM_STMT_PREPARE and COM_STMT_EXECUTE
	withParameter          // the same, with an integer
	asSQLText              // PREPARE s FROM '…', EXECUTE s
	asCommand              // the form is a command's bytes
	afterReload            // prepared, and executed after the schema and the rules have changed
	aroundReload           // the part after ;; is sent once the rules have changed
	behindDump             // after a request for the binary log that the server refuses, once the rules have changed
)

// In the forms _ is white space, $T the table secret, which is blocked in every schema, $V the table vault,
// blocked in the schema rulefuzz, $L the table that a reload blocks, $R a number, N a run of digits, $I the
// connection that executes a statement with the blocked table.
var fuzzClasses = []fuzzClass{
	{name: "user in quotes reads", user: "'app'", forms: []string{"SELECT_a_FROM_$T"}},
	{name: "user in quotes writes", user: "'app'", forms: []string{"INSERT_INTO_plain_VALUES_(7)"}, effect: true},
	{name: "user outside ASCII", user: "\xe4pp", charset: 8, forms: []string{"INSERT_INTO_plain_VALUES_(7)"}, effect: true},
	{
		name: "0xA0 in text", charset: 8, settings: []string{"SET NAMES latin1", "SET NAMES latin1 COLLATE latin1_bin"},
		forms: []string{"SELECT\xa0a\xa0FROM\xa0$T", "SELECT_1_UNION\xa0SELECT_a_FROM\xa0$T"},
	},
	{name: "0xA0 prepared", charset: 8, settings: []string{"SET NAMES latin1"}, delivery: asPrepared, forms: []string{"SELECT_a\xa0FROM\xa0$T"}},
	{
		name: "0xA0 in a change of the schema", charset: 8, settings: []string{"SET NAMES latin1"}, effect: true,
		forms: []string{"CREATE\xa0TABLE_n_(a_INT)", "DROP\xa0TABLE_n"},
	},
	{name: "0xA0 after a comment's dashes", charset: 8, settings: []string{"SET NAMES latin1"}, forms: []string{"SELECT_a_--\xa0'\n_FROM_$T_--_'"}},
	{name: "quote in a hint", forms: []string{"SELECT_/*+_'_*/_a_FROM_$T_/*_'_*/", "SELECT_/*+_BKA(plain)_'_*/_a_FROM_$T_--_'"}},
	{name: "backtick in a hint", forms: []string{"SELECT_/*+_`_*/_a_FROM_$T_/*_`_*/"}},
	{name: "double quote in a hint", forms: []string{"SELECT_/*+_\"_*/_a_FROM_$T_/*_\"_*/"}},
	{name: "long fraction", forms: []string{"SELECT_1.N_FROM_$T", "SELECT_1.NFROM_$T"}},
	{name: "long integer", forms: []string{"SELECT_1N_FROM_$T", "SELECT_1N_+_1_FROM_$T"}},
	{name: "long hexadecimal", forms: []string{"SELECT_0x1N0_FROM_$T", "SELECT_0x1N0/**/FROM_$T"}},
	{name: "long exponent", forms: []string{"SELECT_1e0N_FROM_$T", "SELECT_1N.e1_FROM_$T"}},
	{name: "user variable without a name", forms: []string{"SELECT_@/**/FROM_$T", "SELECT_@_FROM_$T", "SELECT_@,a_FROM_$T"}},
	{name: "user variable before a write", effect: true, forms: []string{"DO_@/**/,f()"}},
	{
		name: "character set by number", settings: []string{"SET character_set_client = 28", "SET character_set_client = 13", "SET @@character_set_client = 28"},
		forms: []string{"SELECT_'\xbf\\'_FROM_$T_--_'", "SELECT_'\x81\\'_FROM_$T_--_'"},
	},
	{
		name: "character set in hexadecimal", settings: []string{"SET character_set_client = 0x67626b", "SET character_set_client = x'736a6973'"},
		forms: []string{"SELECT_'\xbf\\'_FROM_$T_--_'", "SELECT_'\x81\\'_FROM_$T_#_'"},
	},
	{
		name: "character set by an expression", settings: []string{"SET character_set_client = CONCAT('gb', 'k')", "SET character_set_client = (SELECT 'sjis')", "SET @c = 'gbk', character_set_client = LOWER('GBK')"},
		forms: []string{"SELECT_'\xbf\\'_FROM_$T_--_'", "SELECT_'\x81\\'_FROM_$T_--_'"},
	},
	{
		name: "character set and another assignment", settings: []string{"SET NAMES gbk, character_set_results = utf8mb4", "SET NAMES gbk, @x = 1", "SET NAMES gbk, character_set_connection = utf8mb4"},
		forms: []string{"SELECT_'\xbf\\'_FROM_$T_--_'"},
	},
	{
		name: "character set and NULL results", settings: []string{"SET NAMES gbk, character_set_results = NULL", "SET character_set_client = gbk, character_set_results = NULL"},
		forms: []string{"SELECT_'\xbf\\'_FROM_$T_--_'"},
	},
	{
		name: "sql_mode by an expression", settings: []string{"SET sql_mode = CONCAT('ANSI', '_QUOTES')", "SET sql_mode = 4", "SET sql_mode = (SELECT 'ANSI_QUOTES')"},
		forms: []string{"SELECT_a_FROM_\"secret\"", "SELECT_a_AS_\"x\\\"_FROM_$T_--_\""},
	},
	{name: "sql_mode NO_BACKSLASH_ESCAPES", settings: []string{"SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = 1048576"}, forms: []string{"SELECT_'\\'_FROM_$T_--_'"}},
	{name: "SHOW with a function", effect: true, forms: []string{"SHOW_STATUS_WHERE_f()", "SHOW_VARIABLES_WHERE_f()_=_1"}},
	{name: "SHOW with a subquery", forms: []string{"SHOW_STATUS_WHERE_(SELECT_COUNT(*)_FROM_$T)_>_0", "SHOW_VARIABLES_WHERE_EXISTS_(SELECT_1_FROM_$T)"}},
	{name: "SHOW with a function, prepared", effect: true, delivery: asPrepared, forms: []string{"SHOW_STATUS_WHERE_f()"}},
	{name: "built-in function of Oracle mode", effect: true, forms: []string{"SELECT_nvl(1,_2)", "SELECT_nvl2(1,_2,_3)"}},
	{
		name: "built-in function of the other server", effect: true,
		forms: []string{"SELECT_bin_to_uuid(1)", "SELECT_uuid_to_bin(1)", "SELECT_json_detailed(1)", "SELECT_regexp_like(1,_1)", "SELECT_st_latitude(1)", "SELECT_add_months(1,_2)", "SELECT_to_char(1,_2)"},
	},
	{name: "quoted name of a built-in function", effect: true, forms: []string{"SELECT_`count`(1)", "DO_`count`(1)", "SELECT_rulefuzz.`count`(1)"}},
	{name: "built-in function after white space", effect: true, forms: []string{"SELECT_count_(1)", "SELECT_count/**/(1)"}},
	{name: "sequence by function", effect: true, forms: []string{"SELECT_NEXTVAL(s)", "SELECT_NEXT_VALUE_FOR_s", "SELECT_SETVAL(s,_100)"}},
	{name: "sequence in Oracle mode", effect: true, settings: []string{"SET sql_mode = 'ORACLE'", "SET sql_mode = CONCAT('ORA', 'CLE')"}, forms: []string{"SELECT_s.nextval", "SELECT_s.nextval_FROM_plain"}},
	{name: "prepared in SQL", delivery: asSQLText, forms: []string{"SELECT_a_FROM_$T"}},
	{name: "prepared in SQL, a write", delivery: asSQLText, effect: true, forms: []string{"INSERT_INTO_plain_VALUES_(7)", "SELECT_f()"}},
	{name: "EXECUTE IMMEDIATE", effect: true, forms: []string{"EXECUTE_IMMEDIATE_'INSERT INTO plain VALUES (5)'"}},
	{name: "prepared before a reload", delivery: afterReload, forms: []string{"SELECT_a_FROM_$L"}},
	{name: "MERGE over a blocked table", forms: []string{"CREATE_TABLE_n_(a_INT)_ENGINE=MERGE_UNION=($T)", "CREATE_TABLE_n_(a_INT)_ENGINE=MRG_MyISAM_UNION=(plain,$T)"}},
	{name: "COM_REFRESH", delivery: asCommand, effect: true, forms: []string{"\x07\x04"}},
	{name: "COM_FIELD_LIST", delivery: asCommand, forms: []string{"\x04secret\x00"}},
	{name: "COM_PROCESS_KILL", delivery: asCommand, effect: true, forms: []string{"\x0c\xff\xff\xff\x00"}},
	{name: "COM_DEBUG", delivery: asCommand, effect: true, forms: []string{"\x0d"}},
	{name: "executable comment", forms: []string{
		"SELECT_a_FROM_plain_/*!50699_UNION_SELECT_a_FROM_$T_*/", "SELECT_a_FROM_plain_/*!99999_'_*/_UNION_SELECT_a_FROM_$T_/*_'_*/",
		"SELECT_1_/*M!_FROM_$T_*/", "SELECT_a_FROM_plain_/*!080400UNION_SELECT_a_FROM_$T_*/", "SELECT_1_/*!_/*_x_*/_FROM_$T_*/",
	}},
	{name: "TiDB's comment", forms: []string{"SELECT_1_/*T!_FROM_$T_*/", "SELECT_1_/*T![auto_rand]_FROM_$T_*/"}},
	{name: "several statements", effect: true, forms: []string{"SELECT_1;_INSERT_INTO_plain_VALUES_(9)", "SET_@x_=_1;_DELETE_FROM_plain_LIMIT_1"}},
	{name: "function", effect: true, forms: []string{"SELECT_f()", "SET_@x_=_f()", "DO_f()", "SELECT_a_FROM_plain_/*!50000_WHERE_f()_*/", "WITH_x_AS_(SELECT_f())_SELECT_*_FROM_x"}},
	{name: "plain read", forms: []string{
		"SELECT_a_FROM_$T", "TABLE_$T", "(SELECT_a_FROM_$T)", "WITH_x_AS_(SELECT_a_FROM_$T)_SELECT_*_FROM_x", "DO_(SELECT_MAX(a)_FROM_$T)",
		"SELECT_*_FROM_plain_JOIN_$T_ON_plain.a_<_$T.a", "EXPLAIN_ANALYZE_SELECT_a_FROM_$T", "ANALYZE_SELECT_a_FROM_$T", "SET_@x_=_(SELECT_MAX(a)_FROM_$T)", "HANDLER_$T_OPEN",
	}},
	{name: "plain write", effect: true, forms: []string{"INSERT_INTO_plain_VALUES_(7)", "UPDATE_plain_SET_a_=_a_+_1", "REPLACE_plain_VALUES_(8)", "TRUNCATE_plain", "CREATE_TABLE_n_(a_INT)"}},
	{name: "binary with a parameter", delivery: withParameter, forms: []string{"SELECT_a_FROM_$T_WHERE_a_>_?", "SELECT_?_FROM_$T", "SELECT_1_FROM_plain_WHERE_a_<_?_UNION_SELECT_a_FROM_$T", "DO_(SELECT_MAX(a)_+_?_FROM_$T)"}},
	{name: "binary write with a parameter", delivery: withParameter, effect: true, forms: []string{"INSERT_INTO_plain_VALUES_(?)", "UPDATE_plain_SET_a_=_a_+_?_+_1", "SELECT_f()_+_?", "DO_f()_+_?", "DELETE_FROM_plain_LIMIT_?"}},
	{
		name: "schema by USE", schema: "rulefuzz2", forms: []string{"SELECT_a_FROM_vault"},
		settings: []string{"USE_rulefuzz", "! SET_STATEMENT_max_statement_time=10_FOR_USE_rulefuzz", "binary USE rulefuzz", "! BEGIN_NOT_ATOMIC_USE_rulefuzz;_END", "SELECT_1;_USE_rulefuzz", "! USE_rulefuzz;_SELECT_*_FROM_no_such_table"},
	},
	{name: "schema of a routine", schema: "rulefuzz2", forms: []string{
		"CREATE_PROCEDURE_rulefuzz.pn()_SELECT_*_FROM_vault;_CALL_rulefuzz.pn();_DROP_PROCEDURE_rulefuzz.pn",
		"CREATE_FUNCTION_rulefuzz.fn()_RETURNS_INT_READS_SQL_DATA_RETURN_(SELECT_MAX(a)_FROM_vault);_SELECT_rulefuzz.fn();_DROP_FUNCTION_rulefuzz.fn",
	}},
	{name: "schema of EXPLAIN", schema: "rulefuzz2", forms: []string{"EXPLAIN_ANALYZE_FORMAT=TREE_FOR_SCHEMA_rulefuzz_SELECT_a_FROM_vault"}},
	{name: "foreign key", forms: []string{"CREATE_TABLE_n_(a_INT_REFERENCES_vault(a))", "CREATE_TABLE_n_(a_INT,_FOREIGN_KEY_(a)_REFERENCES_$V(a))"}},
	{name: "foreign key in another schema", schema: "rulefuzz2", forms: []string{"CREATE_TABLE_rulefuzz.n_(a_INT,_FOREIGN_KEY_(a)_REFERENCES_vault(a))"}},
	{name: "procedure that runs its argument", forms: []string{"CALL_sys.execute_prepared_stmt('SELECT a FROM rulefuzz.secret')"}},
	{name: "procedure of the default schema", schema: "sys", forms: []string{"CALL_execute_prepared_stmt('SELECT a FROM rulefuzz.secret')"}},
	{name: "file of a table", forms: []string{"SELECT_LOAD_FILE(CONCAT(@@datadir,_'rulefuzz/secret.MYD'))", "SELECT_`load_file`(CONCAT(@@datadir,_'rulefuzz/secret.MYD'))"}},
	{name: "statistics", forms: []string{"SELECT_*_FROM_mysql.column_stats", "SELECT_*_FROM_information_schema.column_statistics", "SHOW_STATS_TOPN", "SHOW_STATS_BUCKETS"}},
	{name: "letters past ASCII for a variable's name", forms: []string{"SELECT_a_FROM_\"secret\""}, settings: []string{
		"! SET sql_m\u00f6de = 'ANSI_QUOTES'", "! SET @@session.`\u017fql_mode` = 4", "! SET sql_mode = 'ANSI_QU\u00d6TES'",
		"binary SET sql_mod\u00e9 = 'ANSI_QUOTES'", "! SELECT 1; SET LOCAL sql_mod\u00ea = 4",
	}},
	{name: "letters past ASCII for a character set", settings: []string{"! SET ch\u00e4racter_set_client = gbk", "! SET @@character_\u017fet_cl\u0131ent = 'gbk'"}, forms: []string{"SELECT_'\xbf\\'_FROM_$T_--_'"}},
	{name: "letters past ASCII for a table of the system", forms: []string{"SELECT_*_FROM_information_schema.column_stati\u017ftics", "TABLE_information_schema.column_stat\u0130st\u0131cs"}},
	{name: "locks", forms: []string{"SELECT_*_FROM_performance_schema.data_locks", "TABLE_performance_schema.data_locks", "SELECT_lock_data_FROM_information_schema.innodb_locks", "SELECT_*_FROM_information_schema.innodb_locks_WHERE_1"}},
	{name: "last error of a foreign key", forms: []string{"SHOW_ENGINE_InnoDB_STATUS", "SHOW_ENGINE_'innodb'_STATUS", "SHOW_ENGINE_`INNODB`_STATUS"}},
	{name: "variables of another session", forms: []string{"SELECT_*_FROM_performance_schema.user_variables_by_thread"}},
	{name: "statement of another connection", forms: []string{"EXPLAIN_FORMAT=JSON_FOR_CONNECTION_$I", "DESC_FORMAT=TREE_FOR_CONNECTION_$I", "SHOW_EXPLAIN_FORMAT=JSON_FOR_$I", "SHOW_ANALYZE_FORMAT=JSON_FOR_$I", "EXPLAIN_FOR_CONNECTION_$I"}},
	{name: "behind a refused binary log", delivery: behindDump, forms: []string{"SELECT_a_FROM_$T"}},
	{name: "prepared in SQL before a reload", delivery: aroundReload, forms: []string{"PREPARE_s_FROM_'SELECT a FROM $L';;EXECUTE_s", "HANDLER_later_OPEN_AS_h;;HANDLER_h_READ_FIRST"}},
	{name: "setting in part of a failed SET", forms: []string{"SELECT_a_FROM_\"secret\""}, settings: []string{"! SET sql_mode = 'ANSI_QUOTES', no_such_variable = 1", "! SET sql_mode = 'ANSI_QUOTES', @x = (SELECT 1 UNION SELECT 2)"}},
	{name: "setting by the binary protocol", forms: []string{"SELECT_a_FROM_\"secret\""}, settings: []string{"binary SET sql_mode = 'ANSI_QUOTES'", "binary SET sql_mode = CONCAT('ANSI', '_QUOTES')"}},
	{name: "variable of the server", effect: true, forms: []string{"SET_tidb_slow_log_threshold_=_$R", "SET_@@tidb_slow_log_threshold_=_$R", "SET_SESSION_tidb_slow_log_threshold_=_$R"}},
	{name: "name hidden by an expression's", forms: []string{
		"SELECT_a_FROM_$T_WHERE_a_>_(WITH_secret_AS_(SELECT_1_AS_a)_SELECT_a_FROM_secret)", "(WITH_secret_AS_(SELECT_1_AS_a)_SELECT_a_FROM_secret)_UNION_SELECT_a_FROM_secret",
		"WITH_secret_AS_(SELECT_a_FROM_secret)_SELECT_a_FROM_secret", "WITH_secret_AS_(SELECT_1_AS_a)_SELECT_a_FROM_rulefuzz.secret",
	}},
	{name: "block of statements", forms: []string{"BEGIN_NOT_ATOMIC_SELECT_a_FROM_$T;_END", "IF_1_THEN_SELECT_a_FROM_$T;_END_IF", "FOR_r_IN_(SELECT_a_FROM_$T)_DO_SELECT_r.a;_END_FOR"}},
	{name: "clause of a change", forms: []string{
		"INSERT_INTO_rulefuzz2.vault_SELECT_a_FROM_$T_LIMIT_0", "DELETE_FROM_plain_WHERE_a_=_(SELECT_-MAX(a)_FROM_$T)", "UPDATE_plain,_(SELECT_a_FROM_$T)_x_SET_plain.a_=_plain.a",
		"INSERT_INTO_plain_VALUES_(3)_RETURNING_(SELECT_MAX(a)_FROM_$T)", "CREATE_TABLE_n_AS_SELECT_a_FROM_$T", "CREATE_TABLE_n_AS_TABLE_$T", "LOCK_TABLES_$T_READ", "CHECKSUM_TABLE_$T", "TRACE_SELECT_a_FROM_$T",
		"SELECT_*_FROM_JSON_TABLE((SELECT_JSON_ARRAYAGG(a)_FROM_$T),_'$[*]'_COLUMNS(x_INT_PATH_'$'))_t", "PURGE_BINARY_LOGS_BEFORE_(SELECT_MAX(a)_FROM_$T)", "ANALYZE_TABLE_plain,_$T",
	}},
	{name: "run to be explained", effect: true, forms: []string{"EXPLAIN_ANALYZE_DELETE_FROM_plain_LIMIT_1", "ANALYZE_UPDATE_plain_SET_a_=_a_+_1", "EXPLAIN_ANALYZE_INSERT_INTO_plain_VALUES_(4)", "ANALYZE_FORMAT=JSON_DELETE_FROM_plain_LIMIT_1", "EXPLAIN_SELECT_*_FROM_plain_WHERE_a_=_f()", "TRACE_DELETE_FROM_plain_LIMIT_1"}},
	{name: "procedure", effect: true, forms: []string{"CALL_pw()", "CALL_rulefuzz.pw", "BEGIN_NOT_ATOMIC_CALL_pw();_END"}},
}

// fuzzHarmless are statements that the rules permit.
var fuzzHarmless = []string{"SELECT_a_FROM_plain", "SELECT_COUNT(*)_FROM_plain_WHERE_a_>_1", "SELECT_1", "(SELECT_a_FROM_plain)", "WITH_x_AS_(SELECT_a_FROM_plain)_SELECT_*_FROM_x"}

var fuzzSpaces = []string{" ", " ", " ", "\t", "\n", "/**/", " /* x */ ", "-- x\n", "#'\n", "/*!*/", "\v", "\f"}

var fuzzSettings = []string{
	"", "", "", "", "SET NAMES latin1", "SET NAMES utf8mb4, character_set_client = latin1", "SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = 'IGNORE_SPACE'",
	"SET @@session.sql_mode = @@global.sql_mode", "SET NAMES ascii",
}
